//! The driver's compiled kernels, from an earlier start and for the next one.

use super::device::Device;
use ash::vk;

impl Device {
    /// Gives the driver the kernels that it has compiled at an earlier start, in its own form; none at the
    /// first. Only the first call counts, and it comes before the first kernel is made. A driver that does
    /// not want them compiles again.
    pub(crate) fn reuse_pipelines(&self, compiled: &[u8]) {
        self.pipelines.get_or_init(|| {
            let create = vk::PipelineCacheCreateInfo::default().initial_data(compiled);
            // SAFETY: sound, the device lives, and the bytes live until the call returns. They are the
            // driver's own (`records.rs`).
            unsafe { self.raw.create_pipeline_cache(&create, None) }.unwrap_or_default()
        });
    }

    /// Returns the kernels that the driver has compiled; none where it does not give them.
    pub(crate) fn compiled_pipelines(&self) -> Vec<u8> {
        let Some(cache) = self.pipelines.get().filter(|cache| **cache != vk::PipelineCache::null()) else {
            return Vec::new();
        };
        // SAFETY: sound, the cache is this device's.
        unsafe { self.raw.get_pipeline_cache_data(*cache) }.unwrap_or_default()
    }
}
