//! SquashFS, a peer that can only be read: mounted by the kernel, and by `squashfuse` through FUSE. A note
//! names the one that is missing.

use super::bench::{MountBench, MountedSystem};
use super::sample_tree::SampleTree;
use crate::error::Result;
use crate::systems::peers::{Host, Medium, SquashImage, run_command};
use crate::systems::served::ServedMount;
use crate::systems::temporary::temp_dir;
use std::path::Path;

/// Name of the kernel's mount in reports.
pub(super) const SQUASHFS: &str = "squashfs";
/// Name of the mount by the program in reports.
pub(super) const SQUASHFUSE: &str = "squashfuse";

impl MountBench {
    /// Packs a tree, whose files have so many bytes, into an image.
    pub(super) fn squashed(
        &mut self,
        tree: &Path,
        bytes: u64,
        medium: Medium,
    ) -> Result<Option<SquashImage>> {
        self.progress.step("making an image of SquashFS");
        let made = SquashImage::pack(tree, bytes, medium, &self.stop);
        self.or_note("SquashFS, by the kernel and by squashfuse,", made, "package squashfs-tools")
    }

    /// Mounts an image by the kernel.
    pub(super) fn squashfs(&mut self, image: &SquashImage) -> Result<Option<Host>> {
        let made = image.mount(&self.stop);
        self.or_note(SQUASHFS, made, "it needs a kernel with SquashFS, zstd and loop devices")
    }

    /// Mounts an image by the program.
    pub(super) fn squashfuse(&mut self, image: &SquashImage) -> Result<Option<ServedMount>> {
        let made = image.serve(&self.stop);
        self.or_note(SQUASHFUSE, made, "package squashfuse")
    }
}

/// The sample tree and a copy of it in one image, mounted in both ways.
pub(super) struct SquashedTree {
    kernel: Option<Host>,
    program: Option<ServedMount>,
    _image: SquashImage,
}

impl SquashedTree {
    /// Makes the image: `tree`, and `copy` with the same files.
    pub(super) fn make(bench: &mut MountBench, source: &SampleTree) -> Result<Option<Self>> {
        let unpacked = temp_dir()?;
        let top = unpacked.path().to_string_lossy();
        run_command("tar", &["xf", &source.archive().to_string_lossy(), "-C", &top], &bench.stop)?;
        run_command("cp", &["-a", &format!("{top}/tree"), &format!("{top}/copy")], &bench.stop)?;
        let image = bench.squashed(unpacked.path(), 2 * source.bytes, Medium::Memory)?;
        let Some(image) = image else { return Ok(None) };
        let (kernel, program) = (bench.squashfs(&image)?, bench.squashfuse(&image)?);
        Ok(Some(SquashedTree { kernel, program, _image: image }))
    }

    pub(super) fn mounted(&self) -> Vec<MountedSystem> {
        let kernel = self.kernel.iter().map(|host| MountedSystem::new(SQUASHFS, host.path()));
        let program = self.program.iter().map(|served| MountedSystem::served(SQUASHFUSE, served));
        kernel.chain(program).map(MountedSystem::read_only).collect()
    }
}
