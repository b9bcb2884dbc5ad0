//! A kernel: a shader with the size of its workgroups.

use super::device::Device;
use crate::error::{During, Result};
use ash::vk;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// A kernel on a device. Its pipeline is made when the kernel is recorded first: a driver takes milliseconds
/// for each, and most work uses few kernels. Clones share it.
#[derive(Clone)]
pub(crate) struct Kernel {
    device: Arc<Device>,
    /// SPIR-V.
    code: Cow<'static, [u8]>,
    /// Bytes that are pushed.
    pushed: u32,
    /// Invocations of a workgroup.
    pub(crate) workgroup: u32,
    pipeline: Arc<OnceLock<Pipeline>>,
}

/// A kernel as the driver has compiled it.
pub(crate) struct Pipeline {
    device: Arc<Device>,
    pub(super) raw: vk::Pipeline,
    pub(super) layout: vk::PipelineLayout,
}

impl Kernel {
    pub(crate) fn new(device: &Arc<Device>, code: Cow<'static, [u8]>, pushed: u32, workgroup: u32) -> Kernel {
        let workgroup = workgroup.clamp(1, device.info.workgroup);
        Kernel { device: device.clone(), code, pushed, workgroup, pipeline: Arc::default() }
    }

    /// Returns a kernel of other code.
    #[cfg(any(test, feature = "_testing"))]
    pub(crate) fn with(&self, code: &[u8]) -> Kernel {
        Kernel { code: Cow::Owned(code.to_vec()), pipeline: Arc::default(), ..self.clone() }
    }

    /// Returns the SPIR-V.
    pub(crate) fn code(&self) -> &[u8] {
        &self.code
    }

    /// Returns the pipeline, made now if it was not.
    ///
    /// # Errors
    /// An error of the driver.
    pub(super) fn pipeline(&self) -> Result<&Pipeline> {
        if let Some(made) = self.pipeline.get() {
            return Ok(made);
        }
        let made = self.compile()?;
        // Where another thread was faster, its pipeline is used, and this one is dropped.
        Ok(self.pipeline.get_or_init(|| made))
    }

    fn compile(&self) -> Result<Pipeline> {
        const OPERATION: &str = "making a kernel";
        let code = self.code.as_chunks::<4>().0;
        let words: Vec<u32> = code.iter().map(|four| u32::from_le_bytes(*four)).collect();
        let ranges =
            [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(self.pushed)];
        let layout = vk::PipelineLayoutCreateInfo::default().push_constant_ranges(&ranges);
        let entries = [vk::SpecializationMapEntry::default().constant_id(0).offset(0).size(4)];
        let value = self.workgroup.to_le_bytes();
        let constants = vk::SpecializationInfo::default().map_entries(&entries).data(&value);
        // SAFETY: sound, the arguments live until the calls return, and the handles are of this device.
        unsafe {
            let raw = &self.device.raw;
            let layout = raw.create_pipeline_layout(&layout, None).during(OPERATION)?;
            let module = raw.create_shader_module(&vk::ShaderModuleCreateInfo::default().code(&words), None);
            let module =
                module.inspect_err(|_| raw.destroy_pipeline_layout(layout, None)).during(OPERATION)?;
            let stage = vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(module)
                .name(c"main")
                .specialization_info(&constants);
            let create = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout);
            let cache = self.device.pipelines.get().copied().unwrap_or_default();
            let made = raw.create_compute_pipelines(cache, &[create], None);
            raw.destroy_shader_module(module, None);
            let made = made.map_err(|(_, code)| code);
            let pipeline =
                made.inspect_err(|_| raw.destroy_pipeline_layout(layout, None)).during(OPERATION)?[0];
            Ok(Pipeline { device: self.device.clone(), raw: pipeline, layout })
        }
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        if self.device.hangs() {
            return;
        }
        // SAFETY: sound, a submission's owner keeps the kernel until the submission has ended.
        unsafe {
            self.device.raw.destroy_pipeline(self.raw, None);
            self.device.raw.destroy_pipeline_layout(self.layout, None);
        }
    }
}
