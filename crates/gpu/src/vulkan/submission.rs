//! Work for a device: copies and kernels, recorded, submitted, awaited.

use super::buffer::Buffer;
use super::device::Device;
use super::kernel::Kernel;
use crate::error::{Doing, Result};
use ash::vk;
use std::sync::Arc;

/// Commands for a device, one after the other; what one wrote the next ones see. It is recorded anew each time, and waits for
/// its own end when it is dropped.
pub(crate) struct Submission {
    device: Arc<Device>,
    pool: vk::CommandPool,
    commands: vk::CommandBuffer,
    /// Counts submissions that are over.
    semaphore: vk::Semaphore,
    submitted: u64,
}

const DOING: &str = "working";

impl Submission {
    /// # Errors
    /// The driver's.
    pub(crate) fn new(device: &Arc<Device>) -> Result<Submission> {
        let pool = vk::CommandPoolCreateInfo::default()
            .queue_family_index(device.family)
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let semaphore = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: handles are of this device; `drop` unmakes them.
        unsafe {
            let mut made = Submission {
                device: device.clone(),
                pool: device.raw.create_command_pool(&pool, None).doing(DOING)?,
                commands: vk::CommandBuffer::null(),
                semaphore: vk::Semaphore::null(),
                submitted: 0,
            };
            let allocate =
                vk::CommandBufferAllocateInfo::default().command_pool(made.pool).command_buffer_count(1);
            made.commands = device.raw.allocate_command_buffers(&allocate).doing(DOING)?[0];
            made.semaphore = device.raw.create_semaphore(&semaphore, None).doing(DOING)?;
            Ok(made)
        }
    }

    /// Waits for what was submitted, and begins to record.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn begin(&mut self) -> Result<()> {
        self.wait()?;
        let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the commands are not being carried out.
        unsafe { self.device.raw.begin_command_buffer(self.commands, &begin) }.doing(DOING)
    }

    /// Copies parts of a buffer to another: from, to, how long, in bytes.
    pub(crate) fn copy(&mut self, from: &Buffer, to: &Buffer, parts: &[(u64, u64, u64)]) {
        let regions: Vec<_> = parts
            .iter()
            .map(|(from, to, len)| vk::BufferCopy::default().src_offset(*from).dst_offset(*to).size(*len))
            .collect();
        for some in regions.chunks(4096) {
            // SAFETY: the caller keeps both until the end, and the parts are inside them.
            unsafe { self.device.raw.cmd_copy_buffer(self.commands, from.raw, to.raw, some) };
        }
        self.order();
    }

    /// Fills a buffer with a word.
    pub(crate) fn fill(&mut self, buffer: &Buffer, word: u32) {
        // SAFETY: as above.
        unsafe { self.device.raw.cmd_fill_buffer(self.commands, buffer.raw, 0, vk::WHOLE_SIZE, word) };
        self.order();
    }

    /// Runs a kernel with at least `invocations`.
    pub(crate) fn run(&mut self, kernel: &Kernel, parameters: &[u8], invocations: u64) {
        let groups = invocations.div_ceil(u64::from(kernel.workgroup));
        // The kernels take the number of their workgroup from two dimensions, of which any device has 65,535 each.
        let x = groups.clamp(1, 65_535);
        let y = groups.div_ceil(x).max(1);
        let raw = &self.device.raw;
        // SAFETY: handles are of this device, and the caller keeps the kernel until the end.
        unsafe {
            raw.cmd_bind_pipeline(self.commands, vk::PipelineBindPoint::COMPUTE, kernel.pipeline);
            let stage = vk::ShaderStageFlags::COMPUTE;
            raw.cmd_push_constants(self.commands, kernel.layout, stage, 0, parameters);
            raw.cmd_dispatch(self.commands, x as u32, y as u32, 1);
        }
        self.order();
    }

    /// What was written so far is seen by what follows, and by the host at the end.
    fn order(&mut self) {
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
            self.device.raw.cmd_pipeline_barrier(self.commands, stages, stages, none, &[barrier], &[], &[]);
        }
    }

    /// Gives what was recorded to the device, which works on it meanwhile.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn submit(&mut self) -> Result<()> {
        // SAFETY: recording was begun.
        unsafe { self.device.raw.end_command_buffer(self.commands) }.doing(DOING)?;
        let (commands, signals, values) = ([self.commands], [self.semaphore], [self.submitted + 1]);
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
        let submit = vk::SubmitInfo::default()
            .command_buffers(&commands)
            .signal_semaphores(&signals)
            .push_next(&mut timeline);
        let queue = self.device.queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // SAFETY: the queue is ours alone; what is passed lives until the call returns.
        unsafe { self.device.raw.queue_submit(*queue, &[submit], vk::Fence::null()) }.doing(DOING)?;
        self.submitted += 1;
        Ok(())
    }

    /// Waits for the end of what was submitted.
    ///
    /// # Errors
    /// The device's; what it wrote is then not to be believed.
    pub(crate) fn wait(&self) -> Result<()> {
        let (semaphores, values) = ([self.semaphore], [self.submitted]);
        let wait = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        // SAFETY: the semaphore is ours.
        unsafe { self.device.raw.wait_semaphores(&wait, u64::MAX) }.doing(DOING)
    }
}

impl Drop for Submission {
    fn drop(&mut self) {
        // SAFETY: nothing of it is being carried out any more, or the device is lost.
        unsafe {
            if self.semaphore != vk::Semaphore::null() {
                let _ = self.wait();
            }
            self.device.raw.destroy_semaphore(self.semaphore, None);
            self.device.raw.destroy_command_pool(self.pool, None);
        }
    }
}
