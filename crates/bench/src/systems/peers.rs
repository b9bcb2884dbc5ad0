//! The peers: ext4 and tmpfs, called through system calls on the same machine.
//!
//! As root each part of the benchmark gets a new ext4 image (with a journal, loop-mounted) and a new tmpfs,
//! so that no part pays for the leftovers of another. Both are unmounted and removed in any case. Otherwise,
//! or with given directories, each peer gets a new directory, which is removed again. A note reports each
//! missing peer with the reason.

mod command;
mod host;
mod mount;
mod mount_guard;
mod probe;
mod remove;
mod squash;

pub use command::{MeasuredCommand, run_command, run_measured, run_prepared};
pub use host::Host;
pub use probe::{FileSystem, probe};
pub use remove::remove_tree;
pub(crate) use squash::{SquashImage, mksquashfs};

use crate::error::{Error, Result};
use crate::measure::stop::Stop;
use crate::systems::workload::Tree;
use std::path::{Path, PathBuf};

/// Room that a part of the benchmark requires on a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceRequest {
    /// Inodes.
    pub inodes: u64,
    /// Bytes of data and directories.
    pub bytes: u64,
}

impl SpaceRequest {
    /// Room for a tree: a leaf directory of ext4 takes a block at least.
    pub fn of(tree: &Tree) -> Self {
        let inodes = (tree.files.len() + tree.directories.len()) as u64;
        SpaceRequest { inodes, bytes: tree.directories.len() as u64 * 4096 + inodes * 64 }
    }
}

/// Location of an ext4 image of the benchmark's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// In memory if there is room, as the memory volume that it is compared with; else as [`Medium::Disk`].
    Memory,
    /// In the directory for temporary files, as the file volume it is compared with.
    Disk,
}

/// Origin of the peers.
#[derive(Clone, Debug, Default)]
pub struct Peers {
    /// Directory on ext4 in place of an image of the benchmark's own.
    pub ext4: Option<PathBuf>,
    /// Directory on tmpfs in place of a mount of the benchmark's own.
    pub tmpfs: Option<PathBuf>,
}

/// Peers ready for one part of the benchmark.
#[derive(Default)]
pub struct FreshPeers {
    /// The peers, in the order ext4, tmpfs.
    pub hosts: Vec<Host>,
    /// Reasons for missing peers, and remarks.
    pub notes: Vec<String>,
}

impl Peers {
    /// Fails if a given directory does not exist or is not on the named file system.
    pub fn check(&self) -> Result<()> {
        for (kind, directory) in [("ext4", &self.ext4), ("tmpfs", &self.tmpfs)] {
            let Some(directory) = directory else { continue };
            let found = probe(directory)?;
            if found.kind != kind {
                let message =
                    format!("--{kind} {}: that is on {}, not {kind}", directory.display(), found.kind);
                return Err(Error::Arguments(message + "; give a directory on such a file system"));
            }
        }
        Ok(())
    }

    /// Makes empty file systems (or empty directories in the given ones) for one part of the benchmark.
    pub fn fresh(&self, need: SpaceRequest, medium: Medium, stop: &Stop) -> Result<FreshPeers> {
        let mut ready = FreshPeers::default();
        let ext4 = self.ext4.as_deref();
        ready.add("ext4", medium, given_or(ext4, "ext4", || mount::ext4(need, medium, stop)))?;
        let tmpfs = self.tmpfs.as_deref();
        ready.add("tmpfs", medium, given_or(tmpfs, "tmpfs", || mount::tmpfs(stop)))?;
        Ok(ready)
    }
}

impl FreshPeers {
    fn add(&mut self, name: &str, medium: Medium, made: Result<Host>) -> Result<()> {
        match made {
            Ok(host) => {
                if name == "ext4" && host.journal() == Some(false) {
                    self.notes.push(
                        "this ext4 has no journal: it creates pathologically slowly after deletes; \
                         its create, unlink and mkdir numbers are not a fair peer"
                            .into(),
                    );
                } else if name == "ext4" && host.journal().is_none() {
                    self.notes.push(
                        "whether this ext4 has a journal could not be found out (as root `dumpe2fs -h` tells); \
                         without one it creates pathologically slowly after deletes"
                            .into(),
                    );
                }
                if host.in_memory() == Some(false) && medium == Medium::Memory {
                    self.notes.push(format!(
                        "{name}: its image lies in the directory for temporary files, as memory has no room for it; \
                         where that is on a disk, what it writes is slower than in memory"
                    ));
                }
                self.hosts.push(host);
                Ok(())
            }
            Err(Error::Stopped) => Err(Error::Stopped),
            Err(reason) => {
                self.notes.push(format!("{name} is left out: {reason}"));
                Ok(())
            }
        }
    }
}

/// Makes a new directory in the given one; without one, as root, calls `make`.
fn given_or(directory: Option<&Path>, name: &str, make: impl FnOnce() -> Result<Host>) -> Result<Host> {
    if let Some(directory) = directory {
        return Host::in_directory(name, directory);
    }
    if !rustix::process::geteuid().is_root() {
        return Err(Error::Arguments(format!(
            "only root can mount one; give a directory on {name} with --{name} DIR"
        )));
    }
    make()
}
