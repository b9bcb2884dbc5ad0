//! State that the parts share, and the mounted systems.

use super::sizes::Sizes;
use crate::error::{Error, Result};
use crate::measure::values::LANEFS;
use crate::session::Session;
use crate::systems::lane::bytes_for;
use crate::systems::peers::{Host, Medium, SpaceRequest};
use crate::systems::served::ServedMount;
use crate::systems::system::Named;
use lanefs::{CreateOptions, Volume};
use rustix::process::Pid;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The benchmark under way.
pub(super) type MountBench = Session<Settings>;

/// Settings of this benchmark alone.
pub(super) struct Settings {
    pub(super) sizes: Sizes,
    /// The program `lanefs`, which mounts volumes.
    pub(super) lanefs: PathBuf,
    /// This program, which serves the passthrough.
    pub(super) own: PathBuf,
    /// Way of the kernel's requests to LaneFS, as the mount option has it.
    pub(super) transport: String,
}

/// Name of the passthrough in reports.
pub(super) const PASSTHROUGH: &str = "passthrough";

/// A directory of a mounted file system.
pub(super) struct MountedSystem {
    name: &'static str,
    path: PathBuf,
    /// Process that serves it, if there is one.
    server: Option<Pid>,
    is_read_only: bool,
}

impl MountedSystem {
    pub(super) fn new(name: &'static str, path: &Path) -> Self {
        MountedSystem { name, path: path.into(), server: None, is_read_only: false }
    }

    pub(super) fn served(name: &'static str, served: &ServedMount) -> Self {
        MountedSystem { server: Some(served.process()), ..Self::new(name, served.path()) }
    }

    /// Says that nothing can be changed there.
    pub(super) fn read_only(self) -> Self {
        MountedSystem { is_read_only: true, ..self }
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    pub(super) fn server(&self) -> Option<Pid> {
        self.server
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Named for MountedSystem {
    fn name(&self) -> &str {
        self.name
    }
}

/// A volume in memory, mounted, beside ext4, tmpfs and a passthrough to that tmpfs.
pub(super) struct InMemory {
    lanefs: ServedMount,
    passthrough: Option<ServedMount>,
    hosts: Vec<Host>,
}

impl InMemory {
    pub(super) fn mounted(&self) -> Vec<MountedSystem> {
        let mut mounted = vec![MountedSystem::served(LANEFS, &self.lanefs)];
        mounted.extend(self.passthrough.iter().map(|served| MountedSystem::served(PASSTHROUGH, served)));
        for host in &self.hosts {
            mounted
                .push(MountedSystem::new(if host.name() == "ext4" { "ext4" } else { "tmpfs" }, host.path()));
        }
        mounted
    }
}

impl MountBench {
    /// Returns the directory for volumes on a disk: the given one on ext4, so that both are on the same disk,
    /// or the one for temporary files.
    pub(super) fn disk(&self) -> PathBuf {
        self.peers.ext4.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// Makes a volume of `size` bytes in a file on that disk; it is removed with the returned directory.
    pub(super) fn volume_on_disk(&self, size: u64) -> Result<(TempDir, PathBuf)> {
        let folder = self.disk();
        let temp = tempfile::Builder::new().prefix("lanefs-bench-").tempdir_in(&folder);
        let temp = temp.map_err(Error::host(folder.display().to_string()))?;
        let image = temp.path().join("volume.lane");
        let options = CreateOptions { size, ..CreateOptions::default() };
        let volume = Volume::create(&image, &options).map_err(Error::volume("making a volume"))?;
        volume.close().map_err(Error::volume("closing a volume"))?;
        Ok((temp, image))
    }

    /// Mounts a passthrough to a directory.
    pub(super) fn pass_through(&self, below: &Path) -> Result<ServedMount> {
        let mut command = Command::new(&self.settings.own);
        command.arg("mount-passthrough").arg(below);
        ServedMount::start(command, &self.stop)
    }

    /// Mounts the volume of an image (`mem:SIZE` for one in memory).
    pub(super) fn mount(&self, image: OsString) -> Result<ServedMount> {
        let mut command = Command::new(&self.settings.lanefs);
        let transport = format!("transport={}", self.settings.transport);
        command.args(["mount", "--foreground", "-o", &transport]).arg(image);
        ServedMount::start(command, &self.stop)
    }

    /// Makes new systems in memory with room for `need`.
    pub(super) fn in_memory(&mut self, need: SpaceRequest) -> Result<InMemory> {
        let hosts = self.hosts(need, Medium::Memory)?;
        let lanefs = self.mount(format!("mem:{}", bytes_for(need)).into())?;
        let mut passthrough = None;
        if let Some(tmpfs) = hosts.iter().find(|host| host.name() == "tmpfs") {
            // A directory of its own, separate from the rows of tmpfs itself.
            let below = tmpfs.path().join("below");
            let made = std::fs::create_dir(&below).map_err(Error::host(below.display().to_string()));
            match made.and_then(|()| self.pass_through(&below)) {
                Ok(served) => passthrough = Some(served),
                Err(Error::Stopped) => return Err(Error::Stopped),
                Err(error) => self.note(format!("passthrough is left out: {error}")),
            }
        }
        Ok(InMemory { lanefs, passthrough, hosts })
    }
}
