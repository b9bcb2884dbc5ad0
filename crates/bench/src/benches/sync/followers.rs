//! The programs that follow a tree, each with a copy of its own.

use super::SyncSettings;
use super::source::FollowedTree;
use crate::error::{Error, Result};
use crate::measure::stop::Stop;
use crate::measure::values::LANEFS;
use crate::session::Session;
use crate::systems::peers::{MeasuredCommand, remove_tree, run_measured, run_prepared};
use crate::systems::system::Named;
use rustix::fs::CWD;
use rustix::io::Errno;
use std::ffi::{CString, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that makes its copy the same as the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follower {
    Lanefs,
    /// `rsync -a --delete`.
    Rsync,
    /// The same with all that `lanefs` compares: hard links, access control lists, extended attributes.
    RsyncAll,
    /// `cp -a -u`, which removes nothing.
    Copy,
    Restic,
    /// `lanefs import`, which copies all.
    Import,
}

impl Named for Follower {
    fn name(&self) -> &str {
        match self {
            Follower::Lanefs => LANEFS,
            Follower::Rsync => "rsync",
            Follower::RsyncAll => "rsync-hax",
            Follower::Copy => "cp-u",
            Follower::Restic => "restic",
            Follower::Import => "import",
        }
    }
}

/// Where the tree and its copies are.
pub(super) struct Places {
    program: PathBuf,
    temp: PathBuf,
    /// Directory of the copies.
    copies: PathBuf,
    tree: PathBuf,
    /// Size of a volume in bytes.
    volume: u64,
}

impl Places {
    /// `ext4`: where the copies of the peers are; `None`: in the directory for temporary files.
    pub(super) fn new(
        program: &Path,
        temp: &Path,
        ext4: Option<&Path>,
        tree: &FollowedTree,
    ) -> Result<Places> {
        Ok(Places {
            program: program.canonicalize().map_err(Error::host(program.display().to_string()))?,
            temp: temp.into(),
            copies: ext4.unwrap_or(temp).into(),
            tree: tree.dir.clone(),
            volume: tree.bytes() * 2 + tree.inodes() * 1024 + (1 << 30),
        })
    }

    /// The volume of a follower.
    pub(super) fn image(&self, follower: Follower) -> PathBuf {
        self.temp.join(format!("{}.lane", follower.name()))
    }

    pub(super) fn tree(&self) -> &Path {
        &self.tree
    }

    /// Directory of publications.
    pub(super) fn store(&self) -> PathBuf {
        self.temp.join("store")
    }

    pub(super) fn repository(&self) -> PathBuf {
        self.copies.join("restic")
    }

    /// `lanefs` with a command and its arguments.
    pub(super) fn lanefs(&self, arguments: &[&OsStr]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments);
        command
    }

    /// A new volume in place of an old one.
    pub(super) fn make_volume(&self, follower: Follower, stop: &Stop) -> Result<()> {
        let (image, size) = (self.image(follower), self.volume.to_string());
        let arguments =
            ["mkfs".as_ref(), "--force".as_ref(), image.as_ref(), "--size".as_ref(), size.as_ref()];
        run_prepared(self.lanefs(&arguments), stop).map(drop)
    }
}

impl Follower {
    /// Returns whether the program starts; a note reports a missing one.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub(super) fn is_there(self, bench: &mut Session<SyncSettings>) -> Result<bool> {
        let (program, argument) = match self {
            Follower::Lanefs | Follower::Import => return Ok(true),
            Follower::Rsync | Follower::RsyncAll => ("rsync", "--version"),
            Follower::Copy => ("cp", "--version"),
            Follower::Restic => ("restic", "version"),
        };
        bench.has_program(self.name(), [program, argument], &format!("package {program}"))
    }

    /// Makes its copy empty.
    pub(super) fn begin(self, places: &Places, stop: &Stop) -> Result<()> {
        match self {
            Follower::Lanefs | Follower::Import => places.make_volume(self, stop),
            Follower::Restic => {
                remove(&places.repository())?;
                run_prepared(restic(places, &["init"]), stop).map(drop)
            }
            Follower::Rsync | Follower::RsyncAll | Follower::Copy => {
                let copy = self.copy(places);
                remove(&copy)?;
                fs::create_dir(&copy).map_err(Error::host(copy.display().to_string()))
            }
        }
    }

    /// Makes its copy the same as the tree.
    pub(super) fn follow(self, places: &Places, stop: &Stop) -> Result<MeasuredCommand> {
        let tree: &OsStr = places.tree.as_ref();
        // Its content, not the directory itself.
        let content = places.tree.join("");
        let command = match self {
            Follower::Lanefs => {
                let (image, cache) = (places.image(self), places.temp.join("cache"));
                let mut command = places.lanefs(&["sync".as_ref(), "--delete".as_ref(), image.as_ref()]);
                command.args([tree, "/".as_ref()]).arg("--cache-dir").arg(cache);
                command
            }
            Follower::Import => {
                let image = places.image(self);
                places.lanefs(&["import".as_ref(), image.as_ref(), tree, "/".as_ref()])
            }
            Follower::Rsync | Follower::RsyncAll => {
                let mut command = Command::new("rsync");
                command.arg(if self == Follower::Rsync { "-a" } else { "-aHAX" }).arg("--delete");
                command.arg(content).arg(self.copy(places));
                command
            }
            Follower::Copy => {
                let mut command = Command::new("cp");
                command.args(["-a", "-u"]).arg(places.tree.join(".")).arg(self.copy(places));
                command
            }
            Follower::Restic => {
                let mut command = restic(places, &["backup", "--quiet", "."]);
                command.current_dir(tree);
                command
            }
        };
        run_measured(command, stop)
    }

    /// The two modes of rsync share one copy.
    fn copy(self, places: &Places) -> PathBuf {
        places.copies.join(if self == Follower::Copy { "cp" } else { "rsync" })
    }
}

/// Its cache lies beside the repository, as it would in the user's home.
fn restic(places: &Places, arguments: &[&str]) -> Command {
    let mut command = Command::new("restic");
    let is_setting = |name: &str| name.starts_with("RESTIC_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_setting)) {
        command.env_remove(name);
    }
    command.arg("--cache-dir").arg(places.copies.join("restic-cache"));
    command.arg("--repo").arg(places.repository()).args(arguments);
    command.env("RESTIC_PASSWORD", "lanefs");
    command
}

fn remove(path: &Path) -> Result<()> {
    let failed = Error::host(path.display().to_string());
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return Ok(()) };
    match remove_tree(CWD, &name) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}
