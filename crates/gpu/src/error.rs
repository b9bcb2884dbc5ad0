//! Why the GPU is not used.

use ash::vk;

/// Why the GPU is not used, or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no Vulkan loader.
    #[error(
        "no Vulkan on this machine: {0} (Debian: apt install libvulkan1, and mesa-vulkan-drivers or the GPU's own driver)"
    )]
    NoLoader(String),
    /// There is a loader, and no device that can be used.
    #[error("no Vulkan device that can be used{}", .0.as_deref().map(|why| format!(": {why}")).unwrap_or_default())]
    NoDevice(Option<String>),
    /// No device of that name or number.
    #[error("no Vulkan device {asked}; there are: {present}")]
    NoSuchDevice {
        /// What was asked for.
        asked: String,
        /// Names of those that are there.
        present: String,
    },
    /// The device, or its driver, failed.
    #[error("{doing}: the Vulkan device failed: {code}")]
    Device {
        /// What was being done.
        doing: &'static str,
        /// Vulkan's result.
        code: vk::Result,
    },
    /// A kernel gave a wrong answer to a question whose answer is known.
    #[error("kernel {kernel} answers wrongly on this device: {what}")]
    Wrong {
        /// Its name, or the names of kernels that are probed together.
        kernel: String,
        /// What was wrong.
        what: String,
    },
    /// The volume.
    #[error(transparent)]
    Volume(#[from] lanefs::Error),
}

/// Result of the GPU engine.
pub type Result<T> = std::result::Result<T, Error>;

pub(crate) trait Doing<T> {
    fn doing(self, what: &'static str) -> Result<T>;
}

impl<T> Doing<T> for ash::prelude::VkResult<T> {
    fn doing(self, doing: &'static str) -> Result<T> {
        self.map_err(|code| Error::Device { doing, code })
    }
}
