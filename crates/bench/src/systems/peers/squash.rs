//! SquashFS: images of trees, which the kernel and `squashfuse` mount.

use super::command::run_prepared;
use super::mount::{directory_for_image, mount};
use super::probe::FileSystem;
use super::{Host, Medium};
use crate::error::Result;
use crate::measure::stop::Stop;
use crate::systems::served::ServedMount;
use crate::systems::temporary::temp_dir;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The program that mounts images for users. Of the two of its package it is the faster one: it answers by
/// inode number, and lets the kernel keep names, attributes and pages.
const SQUASHFUSE: &str = "squashfuse_ll";

/// An image of a tree, which is removed with its value. A mount by the kernel keeps it until its end.
pub(crate) struct SquashImage {
    temp: TempDir,
    in_memory: bool,
}

impl SquashImage {
    /// Packs a tree, whose files have so many bytes.
    pub(crate) fn pack(tree: &Path, bytes: u64, medium: Medium, stop: &Stop) -> Result<Self> {
        let (temp, in_memory) = directory_for_image(bytes, medium)?;
        let image = SquashImage { temp, in_memory };
        mksquashfs(tree, &image.path(), stop)?;
        Ok(image)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.temp.path().join("squashfs.img")
    }

    /// Mounts the image by the kernel, through a loop device. Needs root.
    pub(crate) fn mount(&self, stop: &Stop) -> Result<Host> {
        let mount = mount(temp_dir()?, &["-o", "loop,ro", &self.path().to_string_lossy()], stop)?;
        let about = FileSystem { kind: "squashfs".into(), journal: None, inode_bytes: 0 };
        Host::on_mount("squashfs", &mount.point(), about, self.in_memory, mount)
    }

    /// Mounts the image by `squashfuse`, through FUSE.
    pub(crate) fn serve(&self, stop: &Stop) -> Result<ServedMount> {
        let mut command = Command::new(SQUASHFUSE);
        command.arg("-f").arg(self.path());
        ServedMount::start(command, stop)
    }
}

/// Packs a tree into an image.
pub(crate) fn mksquashfs(tree: &Path, image: &Path, stop: &Stop) -> Result<()> {
    let mut command = Command::new("mksquashfs");
    command.arg(tree).arg(image).args(["-comp", "zstd", "-noappend", "-quiet", "-no-progress"]);
    run_prepared(command, stop).map(drop)
}
