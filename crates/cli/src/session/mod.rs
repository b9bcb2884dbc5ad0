//! How a command gets its volume: from an image, a mount, or a publication.
//!
//! It knows no command but by its trait.

pub mod command;
pub mod context;
pub mod expansion;
pub mod image;
pub mod metrics;
pub mod mount_options;
pub mod mounted;
pub mod new_file;
pub mod path_lines;
pub mod publication;
pub mod receipts;
pub mod sync_record;
pub mod users;
