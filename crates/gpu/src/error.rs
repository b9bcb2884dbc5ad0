//! Errors of the GPU engine.

use ash::vk;

/// Reason why the GPU is not used, or not used any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine has no Vulkan loader.
    #[error(
        "no Vulkan on this machine: {0} (Debian: apt install libvulkan1, and mesa-vulkan-drivers or the GPU's own driver)"
    )]
    NoLoader(String),
    /// A static program has no linker in it that could load Vulkan.
    #[error("this program is static and cannot load Vulkan: take the dynamic program (docs/install.md)")]
    Static,
    /// The machine has a loader, but no device that can be used.
    #[error("no Vulkan device that can be used{}", .0.as_deref().map(|why| format!(": {why}")).unwrap_or_default())]
    NoDevice(Option<String>),
    /// No device has that name or number.
    #[error("no Vulkan device {asked}; there are: {present}")]
    NoSuchDevice {
        /// Name or number that the caller gave.
        asked: String,
        /// Names of the devices of the machine.
        present: String,
    },
    /// The device, or its driver, failed.
    #[error("{operation}: the Vulkan device failed: {code}")]
    Device {
        /// Operation that failed.
        operation: &'static str,
        /// Vulkan's result.
        code: vk::Result,
    },
    /// A kernel gave a wrong answer to a question whose answer is known.
    #[error("kernel {kernel} answers wrongly on this device: {what}")]
    Wrong {
        /// Its name, or the names of kernels that are probed together.
        kernel: String,
        /// Description of the answer.
        what: String,
    },
    /// Another engine mirrors the volume already; one does so at a time. (The result code `Busy`, `EBUSY`.)
    #[error("another engine mirrors this volume already")]
    Busy,
    /// The memory cannot be given to other programs. (The result code `Unsupported`, `EOPNOTSUPP`.)
    #[error("memory of the device cannot be exported: {0}")]
    NotExportable(&'static str),
    /// The host gives no thread, or a driver has failed on it.
    #[error("no thread opened the device")]
    NoThread,
    /// The caller stopped the reading of the metadata.
    #[error("stopped while the metadata were read")]
    Stopped,
    /// The volume failed.
    #[error(transparent)]
    Volume(#[from] lanefs::Error),
}

/// Result of the GPU engine.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Tells whether the operation might succeed with less memory, or later.
    pub(crate) fn is_short_of_memory(&self) -> bool {
        matches!(
            self,
            Error::Device {
                code: vk::Result::ERROR_OUT_OF_DEVICE_MEMORY
                    | vk::Result::ERROR_OUT_OF_HOST_MEMORY
                    | vk::Result::ERROR_TOO_MANY_OBJECTS,
                ..
            }
        )
    }
}

impl From<Error> for lanefs::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Volume(error) => error,
            Error::Busy => lanefs::Code::Busy.into(),
            Error::NotExportable(_) => {
                lanefs::Error::At { code: lanefs::Code::Unsupported, what: error.to_string() }
            }
            error => {
                lanefs::Error::Io { what: "GPU".into(), source: std::io::Error::other(error.to_string()) }
            }
        }
    }
}

/// Adds the operation to a result of Vulkan.
pub(crate) trait During<T> {
    fn during(self, operation: &'static str) -> Result<T>;
}

impl<T> During<T> for ash::prelude::VkResult<T> {
    fn during(self, operation: &'static str) -> Result<T> {
        self.map_err(|code| Error::Device { operation, code })
    }
}
