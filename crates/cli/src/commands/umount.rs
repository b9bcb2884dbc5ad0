//! `lanefs umount`.

use crate::session::mounted;
use crate::terminal::failure::Outcome;
use clap::Args;
use lanefs_fuse::unmount;
use std::path::PathBuf;

/// Unmount a volume and wait until all changes are durable
///
/// A mount whose server has ended ("Transport endpoint is not connected") is removed. Changes that were not
/// synced are lost; the next mount recovers the volume.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs umount /mnt
  lanefs umount --lazy /mnt")]
pub struct Umount {
    /// Directories on which volumes are mounted
    #[arg(value_name = "DIR", required = true)]
    dirs: Vec<PathBuf>,
    /// Unmount even if the volume is in use: it disappears at once, is closed after its last user, and is not
    /// waited for
    #[arg(long, short)]
    lazy: bool,
}

impl Umount {
    /// Unmounts the volumes.
    ///
    /// # Errors
    /// The first one: no mount of LaneFS, in use, not closed well.
    pub fn execute(&self) -> Outcome {
        self.dirs.iter().try_for_each(|dir| match self.lazy {
            true => unmount::detach(dir).map_err(|error| mounted::mount_failure(&error)),
            false => mounted::unmount(dir),
        })
    }
}
