//! `lanefs umount`.

use crate::session::mounted;
use crate::terminal::failure::{Failure, Outcome};
use crate::text::bytes;
use clap::Args;
use lanefs_fuse::{find, table, unmount};
use std::path::{Path, PathBuf};

/// Unmount a volume and wait until all changes are durable
///
/// A mount whose server has ended ("Transport endpoint is not connected") is removed. Changes that were not
/// synced are lost; the next mount recovers the volume.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs umount /mnt
  lanefs umount --lazy /mnt")]
pub struct Umount {
    /// Directories on which volumes are mounted, or their images
    #[arg(value_name = "DIR|IMAGE", required = true)]
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
        self.dirs.iter().try_for_each(|name| {
            let mount = mount_of_image(name)?;
            let dir = mount.as_deref().unwrap_or(name);
            match self.lazy {
                true => unmount::detach(dir).map_err(|error| mounted::mount_failure(&error)),
                false => mounted::unmount(dir),
            }
        })
    }
}

/// Returns the directory on which this user has mounted an image; `None` for any other name.
///
/// # Errors
/// The mount of the image does not reply; another user claims to have mounted it.
fn mount_of_image(name: &Path) -> Result<Option<PathBuf>, Failure> {
    if table::find(name).is_ok_and(|entry| entry.is_some()) {
        return Ok(None);
    }
    match find::find(name).map_err(|error| mounted::mount_failure(&error))? {
        Some(mount) => Ok(Some(mount.dir.clone())),
        None if find::claim(name).is_some() => {
            let other = Failure::partial(bytes::of_path(name), "is not mounted by this user", "");
            Err(mounted::with_claim(name, other))
        }
        None => Ok(None),
    }
}
