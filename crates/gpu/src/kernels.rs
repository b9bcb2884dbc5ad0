//! The compiled kernels, and what they are told.

use crate::error::Result;
use crate::layout::MAX_GROUPS;
use crate::twin::lookup::Question;
use crate::vulkan::{Device, Kernel, Shader};
use std::sync::Arc;

/// Resolves paths.
pub(crate) const LOOKUP: Shader =
    Shader { name: "lookup", code: include_bytes!("../shaders/lookup.spv"), parameters: 8 };
/// Puts what lookups noted into the directory cache.
pub(crate) const FILL: Shader =
    Shader { name: "fill", code: include_bytes!("../shaders/fill.spv"), parameters: 8 };
/// Fills the directory cache with all entries.
pub(crate) const WARM: Shader =
    Shader { name: "warm", code: include_bytes!("../shaders/warm.spv"), parameters: 8 };
/// Finds entries by name, type, size and time.
pub(crate) const FIND: Shader =
    Shader { name: "find", code: include_bytes!("../shaders/find.spv"), parameters: 8 };
/// The first bytes of inodes.
pub(crate) const STAT: Shader =
    Shader { name: "stat", code: include_bytes!("../shaders/stat.spv"), parameters: 8 };
/// Where directories have their leaf blocks.
pub(crate) const LEAVES: Shader =
    Shader { name: "leaves", code: include_bytes!("../shaders/leaves.spv"), parameters: 8 };

/// Finds names in directories, or where they would be.
pub(crate) const SEEK: Shader =
    Shader { name: "seek", code: include_bytes!("../shaders/seek.spv"), parameters: 8 };
/// Finds what stays of hash regions that change.
pub(crate) const GATHER: Shader =
    Shader { name: "gather", code: include_bytes!("../shaders/gather.spv"), parameters: 8 };
/// Puts what stays and what is added in order.
pub(crate) const MERGE: Shader =
    Shader { name: "merge", code: include_bytes!("../shaders/merge.spv"), parameters: 8 };
/// Builds the indexes of hash regions.
pub(crate) const BUILD: Shader =
    Shader { name: "build", code: include_bytes!("../shaders/build.spv"), parameters: 8 };

/// Every kernel, on a device.
pub(crate) struct Kernels {
    pub(crate) lookup: Kernel,
    pub(crate) fill: Kernel,
    pub(crate) warm: Kernel,
    pub(crate) find: Kernel,
    pub(crate) stat: Kernel,
    pub(crate) leaves: Kernel,
    pub(crate) seek: Kernel,
    pub(crate) gather: Kernel,
    pub(crate) merge: Kernel,
    pub(crate) build: Kernel,
}

impl Kernels {
    /// `replaced`: the code of a kernel that a test has changed.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn new(
        device: &Arc<Device>,
        workgroup: u32,
        replaced: Option<(&str, &[u8])>,
    ) -> Result<Kernels> {
        let make = |shader: &Shader| {
            let other = replaced.filter(|(name, _)| *name == shader.name);
            Kernel::new(device, shader, other.map_or(shader.code, |(_, code)| code), workgroup)
        };
        Ok(Kernels {
            lookup: make(&LOOKUP)?,
            fill: make(&FILL)?,
            warm: make(&WARM)?,
            find: make(&FIND)?,
            stat: make(&STAT)?,
            leaves: make(&LEAVES)?,
            seek: make(&SEEK)?,
            gather: make(&GATHER)?,
            merge: make(&MERGE)?,
            build: make(&BUILD)?,
        })
    }
}

/// Bytes of what kernels are told, the supplementary groups behind it.
pub(crate) const PARAMETERS: u64 = 512;
const GROUPS: usize = 256;

/// What kernels are told, as `shaders/parameters.glsl` declares it.
#[derive(Clone, Debug)]
pub(crate) struct Parameters<'q> {
    pub(crate) question: &'q Question,
    /// Where these parameters themselves are.
    pub(crate) here: u64,
    /// Address and number of the mirror's chunks, and of its versions.
    pub(crate) chunks: (u64, u64),
    pub(crate) versions: (u64, u32),
    /// Address and buckets of the cache, and the number of this dispatch.
    pub(crate) cache: (u64, u32),
    pub(crate) claim: u32,
    pub(crate) starts: u64,
    pub(crate) text: u64,
    pub(crate) count: u32,
    pub(crate) answers: u64,
    pub(crate) cores: u64,
    pub(crate) notes: (u64, u32),
    pub(crate) is_resumed: bool,
}

impl Parameters<'_> {
    /// Writes them.
    pub(crate) fn write(&self, to: &mut [u8]) {
        let question = self.question;
        let user = question.user.as_ref();
        let groups = user.map_or(&[][..], |user| &user.groups[..user.groups.len().min(MAX_GROUPS)]);
        let quads = [
            self.chunks.0,
            self.chunks.1,
            self.versions.0,
            self.cache.0,
            self.starts,
            self.text,
            self.answers,
            self.cores,
            self.notes.0,
            question.root,
            question.base,
            self.here + GROUPS as u64,
        ];
        let words = [
            self.count,
            question.inode_size.bytes() as u32,
            question.follow.into(),
            self.cache.1,
            self.versions.1,
            self.notes.1,
            question.fuel,
            self.is_resumed.into(),
            user.is_some().into(),
            user.map_or(0, |user| user.uid),
            user.map_or(0, |user| user.gid),
            groups.len() as u32,
            self.claim,
        ];
        let quads = quads.iter().flat_map(|quad| quad.to_le_bytes());
        let words = question.seed.0.iter().chain(&words).flat_map(|word| word.to_le_bytes());
        to.iter_mut().zip(quads.chain(words)).for_each(|(to, byte)| *to = byte);
        let groups = groups.iter().flat_map(|group| group.to_le_bytes());
        to.iter_mut().skip(GROUPS).zip(groups).for_each(|(to, byte)| *to = byte);
    }
}
