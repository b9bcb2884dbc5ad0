//! `lanefs remote`.

mod diff;
mod info;
mod list;
mod prune;
mod tag;
mod verify;

use crate::session::publication;
use crate::terminal::exit;
use crate::terminal::failure::{Failure, Outcome};
use clap::{Args, Subcommand};
use lanefs_publish::{Location, Publication, ReadOptions};

/// List, verify, compare, tag and prune the versions of a publication
///
/// A publication has versions of a volume, which `lanefs publish` writes, and tags, which name some of them.
/// URL names a store and, after #, a tag (`latest` by default) or a version by its 64 digits.
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub struct Remote {
    #[command(subcommand)]
    command: RemoteCommand,
}

fn after_help() -> String {
    format!(
        "Examples:
  lanefs remote ls file:///srv/photos
  lanefs remote info s3://bucket/photos
  lanefs remote verify file:///srv/photos#draft
  lanefs remote diff file:///srv/photos#2026-10 file:///srv/photos
  lanefs remote tag file:///srv/photos 2026-11
  lanefs remote prune file:///srv/photos --dry-run

Exit codes: {} done, {} wrong usage, {} damage was found, {} the host or the store failed, {} interrupted.",
        exit::OK,
        exit::USAGE,
        exit::IMAGE,
        exit::HOST,
        exit::INTERRUPTED
    )
}

#[derive(Debug, Subcommand)]
enum RemoteCommand {
    Ls(list::ListVersions),
    Info(info::VersionInfo),
    Verify(verify::Verify),
    Diff(diff::DiffVersions),
    Tag(tag::SetTag),
    Prune(prune::Prune),
}

impl Remote {
    /// Executes the command.
    ///
    /// # Errors
    /// The store's; damage; a tag or a version that is not there.
    pub fn execute(&self) -> Outcome {
        match &self.command {
            RemoteCommand::Ls(ls) => ls.execute(),
            RemoteCommand::Info(info) => info.execute(),
            RemoteCommand::Verify(verify) => verify.execute(),
            RemoteCommand::Diff(diff) => diff.execute(),
            RemoteCommand::Tag(tag) => tag.execute(),
            RemoteCommand::Prune(prune) => prune.execute(),
        }
    }
}

/// Opens a version without a cache: what a command says of a store comes from the store.
fn open(location: &Location) -> Result<Publication, Failure> {
    let options = ReadOptions { ahead: 0, ..ReadOptions::default() };
    Publication::open(publication::store(location, false)?, location.reference(), &options)
        .map_err(|error| publication::failure(&error))
}

/// The line on a version that binds no content.
const NOT_BOUND: &str = "not bound: its hash is that of stored bytes, and not of what its publisher saw; publish \
                         the volume again";

/// The text for a UUID.
fn uuid_text(uuid: [u8; 16]) -> String {
    uuid::Uuid::from_bytes(uuid).to_string()
}
