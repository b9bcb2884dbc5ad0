//! The built program, run as a user runs it: every command, on good and bad input.

mod access_lists;
mod archives;
mod bounds;
mod checksums;
mod common;
mod copies;
mod documents;
mod du;
mod endings;
mod files;
mod follow;
mod grep;
mod hostile;
mod hostile_files;
mod imports;
mod impostors;
mod inventory;
mod joins;
#[path = "../../../fs/tests/it/check/log_writer.rs"]
mod log_writer;
mod lookup;
mod map;
mod mount;
mod mounted;
mod mounted_caches;
mod mounted_top;
mod named_paths;
mod other_users;
mod pick;
mod publications;
mod publish;
mod pull;
mod raw;
mod remote;
mod requests;
mod security;
#[path = "../../../stores/tests/s3/server.rs"]
mod server;
mod shell;
mod sync;
mod sync_records;
mod synopsis;
mod terminal;
mod transports;
mod volumes;
mod warm;
