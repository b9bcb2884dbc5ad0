//! `lanefs umount`.

use crate::exit::{Failure, Outcome};
use crate::{interrupt, mounting};
use clap::Args;
use std::path::PathBuf;

/// Unmount a volume, and wait until everything is durable
///
/// A mount whose server has ended ("Transport endpoint is not connected") is taken away; what had not been synced is lost, and the
/// next mount goes on from there.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs umount /mnt
  lanefs umount --lazy /mnt")]
pub struct Umount {
    /// Where it is mounted
    #[arg(value_name = "DIR", required = true)]
    dirs: Vec<PathBuf>,
    /// Also while it is in use: gone from sight at once, closed when the last user is done, and not waited for
    #[arg(long, short)]
    lazy: bool,
}

impl Umount {
    /// Unmounts.
    ///
    /// # Errors
    /// The first one: no mount of LaneFS, in use, not closed well.
    pub fn run(&self) -> Outcome {
        self.dirs.iter().try_for_each(|dir| {
            let done = if self.lazy {
                lanefs_fuse::unmount::detach(dir)
            } else {
                lanefs_fuse::unmount::unmount(dir, &interrupt::raised)
            };
            done.map_err(|error| match interrupt::raised() {
                true => Failure::Interrupted,
                false => mounting::plain_failure(&error),
            })
        })
    }
}
