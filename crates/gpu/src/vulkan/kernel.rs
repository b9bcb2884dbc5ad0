//! A kernel: a shader with the size of its workgroups.

use super::device::Device;
use crate::error::{During, Result};
use ash::vk;
use std::sync::Arc;

/// A shader, compiled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shader<'c> {
    /// SPIR-V.
    pub(crate) code: &'c [u8],
    /// Bytes that are pushed.
    pub(crate) pushed: u32,
}

/// A kernel on a device.
pub(crate) struct Kernel {
    device: Arc<Device>,
    pub(crate) pipeline: vk::Pipeline,
    pub(crate) layout: vk::PipelineLayout,
    /// Invocations of a workgroup.
    pub(crate) workgroup: u32,
}

impl Kernel {
    /// # Errors
    /// An error of the driver.
    pub(crate) fn new(device: &Arc<Device>, shader: &Shader<'_>, workgroup: u32) -> Result<Kernel> {
        const OPERATION: &str = "making a kernel";
        let workgroup = workgroup.clamp(1, device.info.workgroup);
        let code = shader.code.as_chunks::<4>().0;
        let words: Vec<u32> = code.iter().map(|four| u32::from_le_bytes(*four)).collect();
        let ranges =
            [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(shader.pushed)];
        let layout = vk::PipelineLayoutCreateInfo::default().push_constant_ranges(&ranges);
        let entries = [vk::SpecializationMapEntry::default().constant_id(0).offset(0).size(4)];
        let value = workgroup.to_le_bytes();
        let constants = vk::SpecializationInfo::default().map_entries(&entries).data(&value);
        // SAFETY: sound, the arguments live until the calls return, and the handles are of this device.
        unsafe {
            let raw = &device.raw;
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
            let made = raw.create_compute_pipelines(vk::PipelineCache::null(), &[create], None);
            raw.destroy_shader_module(module, None);
            let made = made.map_err(|(_, code)| code);
            let pipeline =
                made.inspect_err(|_| raw.destroy_pipeline_layout(layout, None)).during(OPERATION)?[0];
            Ok(Kernel { device: device.clone(), pipeline, layout, workgroup })
        }
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        if self.device.hangs() {
            return;
        }
        // SAFETY: sound, a submission's owner keeps the kernel until the submission has ended.
        unsafe {
            self.device.raw.destroy_pipeline(self.pipeline, None);
            self.device.raw.destroy_pipeline_layout(self.layout, None);
        }
    }
}
