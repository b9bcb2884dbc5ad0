//! The choices of a user.

use crate::error::Result;
use crate::gpu::Gpu;
use crate::lookups::mirrored::MirrorOptions;
use crate::vulkan::Choice;
use std::fmt;
use std::time::Duration;

/// Time that opening a device, mirroring a volume and measuring both engines take, where no earlier start has
/// measured it: 0.7 to 0.9 seconds on an H100 (docs/gpu.md).
pub(super) const OPENING: Duration = Duration::from_millis(800);

/// The engine that a user chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// The CPU engine; a device beside it once that pays. Never a software device, which cannot pay.
    #[default]
    Auto,
    /// The CPU engine.
    Cpu,
    /// The GPU engine, on any device that works.
    Gpu,
}

impl EngineChoice {
    /// All choices, in the order in which programs should list them.
    pub const ALL: [EngineChoice; 3] = [EngineChoice::Auto, EngineChoice::Cpu, EngineChoice::Gpu];

    /// Returns the name that users write: `auto`, `cpu`, `gpu`.
    pub const fn name(self) -> &'static str {
        match self {
            EngineChoice::Auto => "auto",
            EngineChoice::Cpu => "cpu",
            EngineChoice::Gpu => "gpu",
        }
    }

    /// Returns the choice of a name.
    pub fn from_name(name: &str) -> Option<EngineChoice> {
        EngineChoice::ALL.into_iter().find(|choice| choice.name() == name)
    }
}

impl fmt::Display for EngineChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How the [`Engines`](super::Engines) of a volume are chosen and used.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The engine.
    pub engine: EngineChoice,
    /// The device.
    pub device: Choice,
    /// Threads that will call at a time: the CPU engine serves them side by side, a device in turn.
    pub threads: usize,
    /// How much of the device's memory the volume gets.
    pub mirror: MirrorOptions,
    /// Paths that will come in all, where the caller knows: then a device is opened only for what is left of
    /// them. `None`: nobody knows.
    pub paths: Option<u64>,
    /// With [`EngineChoice::Auto`] a device is opened when it would save this much time on the paths that
    /// follow: about as much as opening takes. Where nobody knows how many follow, that is when each thread
    /// of the CPU engine has worked this long. So both together cost at most twice the better choice,
    /// whatever follows (the rule for the ski rental problem; Karlin et al., "Competitive snoopy caching",
    /// Algorithmica 3, 1988). `None`: as long as it took at an earlier start, which the user's cache keeps;
    /// 0.8 seconds without one.
    pub patience: Option<Duration>,
    /// Asked while all metadata of the volume are read; if it returns true, the reading ends.
    pub is_stopped: fn() -> bool,
}

impl Default for EngineOptions {
    /// [`EngineChoice::Auto`] on the best device, for one thread.
    fn default() -> Self {
        EngineOptions {
            engine: EngineChoice::default(),
            device: Choice::default(),
            threads: 1,
            mirror: MirrorOptions::default(),
            paths: None,
            patience: None,
            is_stopped: || false,
        }
    }
}

impl EngineOptions {
    /// Opens the device for work that needs no copy of the metadata: a search in texts, their hashes, a
    /// ranking. One pass does not pay for opening a device, so `None` unless the user chose the GPU engine.
    ///
    /// # Errors
    /// As [`Gpu::open`].
    pub fn open_device(&self) -> Result<Option<Gpu>> {
        (self.engine == EngineChoice::Gpu).then(|| Gpu::open(&self.device)).transpose()
    }
}
