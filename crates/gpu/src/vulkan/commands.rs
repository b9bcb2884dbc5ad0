//! Work for a device: copies and kernels, recorded once, submitted any number of times.

use super::buffer::{Buffer, MemoryLocation};
use super::device::Device;
use super::kernel::Kernel;
use crate::error::{During, Result};
use crate::limits::MAX_GROUPS_PER_DIMENSION;
use ash::vk;
use std::sync::Arc;

/// Commands for a device, one after the other; what one wrote the next ones see, also those of later submissions. They wait for
/// their own end when they are dropped.
pub(crate) struct Commands {
    device: Arc<Device>,
    pool: vk::CommandPool,
    raw: vk::CommandBuffer,
    /// The last submission, 0 before the first.
    submission: u64,
}

const OPERATION: &str = "recording commands";

impl Commands {
    /// # Errors
    /// The driver's.
    pub(crate) fn new(device: &Arc<Device>) -> Result<Commands> {
        let pool = vk::CommandPoolCreateInfo::default()
            .queue_family_index(device.family)
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
        // SAFETY: handles are of this device; `drop` unmakes them.
        unsafe {
            let mut made = Commands {
                device: device.clone(),
                pool: device.raw.create_command_pool(&pool, None).during(OPERATION)?,
                raw: vk::CommandBuffer::null(),
                submission: 0,
            };
            let allocate =
                vk::CommandBufferAllocateInfo::default().command_pool(made.pool).command_buffer_count(1);
            made.raw = device.raw.allocate_command_buffers(&allocate).during(OPERATION)?[0];
            Ok(made)
        }
    }

    /// Waits for what was submitted, and records anew.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn record(&mut self, commands: impl FnOnce(&Recording<'_>)) -> Result<()> {
        self.wait()?;
        let begin = vk::CommandBufferBeginInfo::default();
        // SAFETY: the commands are not being carried out.
        unsafe { self.device.raw.begin_command_buffer(self.raw, &begin) }.during(OPERATION)?;
        commands(&Recording { raw: &self.device.raw, commands: self.raw });
        // SAFETY: recording was begun.
        unsafe { self.device.raw.end_command_buffer(self.raw) }.during(OPERATION)
    }

    /// Gives what was recorded to the device, which works on it meanwhile. What was submitted before is over.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn submit(&mut self) -> Result<u64> {
        self.submission = self.device.submit(self.raw)?;
        Ok(self.submission)
    }

    /// Waits for the end of what was submitted.
    ///
    /// # Errors
    /// The device's; what it wrote is then not to be believed.
    pub(crate) fn wait(&self) -> Result<()> {
        if self.submission == 0 { Ok(()) } else { self.device.wait(self.submission) }
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        let _ = self.wait();
        // SAFETY: nothing of it is being carried out any more.
        unsafe { self.device.raw.destroy_command_pool(self.pool, None) };
    }
}

impl Buffer {
    /// A copy of all of it, whether the host sees it or not. Nothing is writing to it meanwhile.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn read(&self, device: &Arc<Device>) -> Result<Vec<u8>> {
        let host = Buffer::new(device, self.len, MemoryLocation::Download)?;
        let mut work = Commands::new(device)?;
        work.record(|commands| commands.copy(self, &host, &[(0, 0, self.len)]))?;
        work.submit()?;
        work.wait()?;
        Ok(host.bytes().unwrap_or(&[]).to_vec())
    }
}

/// What is being recorded.
pub(crate) struct Recording<'c> {
    raw: &'c ash::Device,
    commands: vk::CommandBuffer,
}

impl Recording<'_> {
    /// Copies parts of a buffer to another: from, to, how long, in bytes.
    pub(crate) fn copy(&self, from: &Buffer, to: &Buffer, parts: &[(u64, u64, u64)]) {
        let region = |(at, into, len): &(u64, u64, u64)| {
            vk::BufferCopy::default().src_offset(from.start + at).dst_offset(to.start + into).size(*len)
        };
        for some in parts.iter().map(region).collect::<Vec<_>>().chunks(4096) {
            // SAFETY: the caller keeps both until the end, and the parts are inside them.
            unsafe { self.raw.cmd_copy_buffer(self.commands, from.raw, to.raw, some) };
        }
        self.order();
    }

    /// Fills the first `len` bytes of a buffer with a word.
    pub(crate) fn fill(&self, buffer: &Buffer, len: u64, word: u32) {
        // SAFETY: as above.
        unsafe { self.raw.cmd_fill_buffer(self.commands, buffer.raw, buffer.start, len, word) };
        self.order();
    }

    /// Runs a kernel with at least `invocations`; `parameters` is the address of what it is told.
    pub(crate) fn dispatch(&self, kernel: &Kernel, parameters: u64, invocations: u64) {
        self.dispatch_groups(kernel, parameters, invocations.div_ceil(u64::from(kernel.workgroup)));
    }

    /// Runs a kernel with at least so many workgroups.
    pub(crate) fn dispatch_groups(&self, kernel: &Kernel, parameters: u64, groups: u64) {
        // The kernels take the number of their workgroup from two dimensions, of which any device has 65,535 each.
        let x = groups.clamp(1, MAX_GROUPS_PER_DIMENSION);
        let y = groups.div_ceil(x).max(1);
        // SAFETY: handles are of this device, and the caller keeps the kernel until the end.
        unsafe {
            self.raw.cmd_bind_pipeline(self.commands, vk::PipelineBindPoint::COMPUTE, kernel.pipeline);
            let stage = vk::ShaderStageFlags::COMPUTE;
            self.raw.cmd_push_constants(self.commands, kernel.layout, stage, 0, &parameters.to_le_bytes());
            self.raw.cmd_dispatch(self.commands, x as u32, y as u32, 1);
        }
        self.order();
    }

    /// What was written so far is seen by what follows, and by the host at the end.
    fn order(&self) {
        let stages = vk::PipelineStageFlags::TRANSFER
            | vk::PipelineStageFlags::COMPUTE_SHADER
            | vk::PipelineStageFlags::HOST;
        let barrier = vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::TRANSFER_WRITE | vk::AccessFlags::SHADER_WRITE)
            .dst_access_mask(
                vk::AccessFlags::TRANSFER_READ
                    | vk::AccessFlags::TRANSFER_WRITE
                    | vk::AccessFlags::SHADER_READ
                    | vk::AccessFlags::SHADER_WRITE
                    | vk::AccessFlags::HOST_READ,
            );
        let none = vk::DependencyFlags::empty();
        // SAFETY: as above.
        unsafe {
            self.raw.cmd_pipeline_barrier(self.commands, stages, stages, none, &[barrier], &[], &[]);
        }
    }
}
