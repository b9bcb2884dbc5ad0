//! Commands for a device: copies and kernels, recorded once, submitted any number of times.

use super::allocation::MemoryLocation;
use super::buffer::Buffer;
use super::device::{Device, QueueUse};
use super::kernel::Kernel;
use super::timeline::SharedTimeline;
use crate::error::{During, Error, Result};
use crate::shared::limits::MAX_GROUPS_PER_DIMENSION;
use ash::vk;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Commands for a device, one after the other. Each command sees the writes of those before it, also across
/// submissions. Dropping them waits for their end.
pub(crate) struct Commands {
    device: Arc<Device>,
    queue: QueueUse,
    pool: vk::CommandPool,
    raw: vk::CommandBuffer,
    /// Number of the last submission, 0 before the first.
    submission: u64,
}

const OPERATION: &str = "recording commands";

impl Commands {
    /// Makes commands of all kinds.
    ///
    /// # Errors
    /// An error of the driver.
    pub(crate) fn new(device: &Arc<Device>) -> Result<Commands> {
        Self::of(device, QueueUse::Kernels)
    }

    /// Makes commands that only copy, beside kernels. No order between them and commands of
    /// [`new`](Self::new) on the same bytes but waits: of the host for either, or of
    /// [kernels](Self::submit_after) for these. A buffer that can be exported is for one of the two.
    ///
    /// # Errors
    /// An error of the driver.
    pub(crate) fn of_copies(device: &Arc<Device>) -> Result<Commands> {
        Self::of(device, QueueUse::Copies)
    }

    fn of(device: &Arc<Device>, queue: QueueUse) -> Result<Commands> {
        let pool = vk::CommandPoolCreateInfo::default()
            .queue_family_index(device.family(queue))
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
        // SAFETY: sound, the handles are of this device, and `drop` frees them.
        unsafe {
            let mut made = Commands {
                device: device.clone(),
                queue,
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

    /// Waits for the last submission, and records again.
    ///
    /// # Errors
    /// An error of the device; that of making a kernel which is used for the first time. The commands
    /// must not be submitted then.
    pub(crate) fn record(&mut self, commands: impl FnOnce(&Recording<'_>)) -> Result<()> {
        self.wait()?;
        let begin = vk::CommandBufferBeginInfo::default();
        // SAFETY: sound, no submission of the commands is in flight.
        unsafe { self.device.raw.begin_command_buffer(self.raw, &begin) }.during(OPERATION)?;
        let (queue, family) = (self.queue, self.device.family(self.queue));
        let failure = RefCell::new(None);
        let raw = &self.device.raw;
        let is_beside = Cell::new(false);
        commands(&Recording { raw, commands: self.raw, queue, family, failure: &failure, is_beside });
        // SAFETY: sound, recording was begun.
        unsafe { self.device.raw.end_command_buffer(self.raw) }.during(OPERATION)?;
        failure.into_inner().map_or(Ok(()), Err)
    }

    /// Submits the recorded commands; returns the number of the submission. The last submission must have
    /// ended.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn submit(&mut self) -> Result<u64> {
        self.submit_after(None)
    }

    /// As [`submit`](Self::submit); the kernels, but not the copies and fills before them, wait on the device
    /// for a submission of [copies](Self::of_copies).
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn submit_after(&mut self, copies: Option<u64>) -> Result<u64> {
        self.submission = self.device.submit(self.queue, self.raw, copies, None)?;
        Ok(self.submission)
    }

    /// As [`submit`](Self::submit); the end of these copies raises a shared timeline by one.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn submit_raising(&mut self, timeline: &mut SharedTimeline) -> Result<u64> {
        debug_assert_eq!(self.queue, QueueUse::Copies, "its owner waits for copies only");
        self.submission = self.device.submit(self.queue, self.raw, None, Some(timeline.next()))?;
        timeline.rise();
        Ok(self.submission)
    }

    /// Waits for the end of the last submission.
    ///
    /// # Errors
    /// An error of the device; its results then do not count.
    pub(crate) fn wait(&self) -> Result<()> {
        if self.submission == 0 { Ok(()) } else { self.device.wait_for(self.queue, self.submission) }
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        let _ = self.wait();
        if self.device.hangs() {
            return;
        }
        // SAFETY: sound, no submission of the commands is in flight.
        unsafe { self.device.raw.destroy_command_pool(self.pool, None) };
    }
}

impl Buffer {
    /// Copies the whole buffer to the host, mapped or not. No work that writes to it may be in flight.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn read(&self, device: &Arc<Device>) -> Result<Vec<u8>> {
        let host = Buffer::new(device, self.len, MemoryLocation::Download)?;
        let mut work = Commands::new(device)?;
        work.record(|commands| commands.copy(self, &host, &[(0, 0, self.len)]))?;
        work.submit()?;
        work.wait()?;
        Ok(host.bytes().unwrap_or(&[]).to_vec())
    }
}

/// A command buffer while commands are recorded.
pub(crate) struct Recording<'c> {
    raw: &'c ash::Device,
    commands: vk::CommandBuffer,
    /// The queue that will execute them, and its family.
    queue: QueueUse,
    family: u32,
    /// The first kernel that could not be made.
    failure: &'c RefCell<Option<Error>>,
    /// The next commands need no order among each other.
    is_beside: Cell<bool>,
}

impl Recording<'_> {
    /// Records commands that do not touch what another one of them writes, so that a device may execute them
    /// beside each other. Later commands see the writes of all.
    pub(crate) fn beside(&self, commands: impl FnOnce()) {
        self.is_beside.set(true);
        commands();
        self.is_beside.set(false);
        self.order();
    }

    /// Copies parts of a buffer to another: offset, offset in the other, length, in bytes.
    pub(crate) fn copy(&self, from: &Buffer, to: &Buffer, parts: &[(u64, u64, u64)]) {
        debug_assert!(
            parts.iter().all(|(at, into, len)| at + len <= from.len && into + len <= to.len),
            "a copy outside its buffers"
        );
        let region = |(at, into, len): &(u64, u64, u64)| {
            vk::BufferCopy::default().src_offset(from.start + at).dst_offset(to.start + into).size(*len)
        };
        for some in parts.iter().map(region).collect::<Vec<_>>().chunks(4096) {
            // SAFETY: sound, the caller keeps both until the end, and the parts lie inside them.
            unsafe { self.raw.cmd_copy_buffer(self.commands, from.raw, to.raw, some) };
        }
        self.order();
    }

    /// Fills the first `len` bytes of a buffer with a word.
    pub(crate) fn fill(&self, buffer: &Buffer, len: u64, word: u32) {
        debug_assert!(len <= buffer.len && len.is_multiple_of(4), "a fill outside its buffer");
        // SAFETY: sound, the caller keeps the buffer until the end, and the range lies inside it.
        unsafe { self.raw.cmd_fill_buffer(self.commands, buffer.raw, buffer.start, len, word) };
        self.order();
    }

    /// Dispatches a kernel with at least so many invocations; `parameters` is the address of its
    /// parameters.
    pub(crate) fn dispatch(&self, kernel: &Kernel, parameters: u64, invocations: u64) {
        self.dispatch_groups(kernel, parameters, invocations.div_ceil(u64::from(kernel.workgroup)));
    }

    /// Dispatches a kernel with at least so many workgroups.
    pub(crate) fn dispatch_groups(&self, kernel: &Kernel, parameters: u64, groups: u64) {
        // The kernels compute the number of their workgroup from two dimensions.
        let x = groups.clamp(1, MAX_GROUPS_PER_DIMENSION);
        let y = groups.div_ceil(x).max(1);
        self.bound(kernel, parameters, || {
            // SAFETY: sound, the handles are of this device, and the caller keeps the kernel until the end.
            unsafe { self.raw.cmd_dispatch(self.commands, x as u32, y as u32, 1) };
        });
    }

    /// Dispatches a kernel with as many workgroups as a buffer says from an offset on, which is a multiple of
    /// 4: three words.
    pub(crate) fn dispatch_indirect(&self, kernel: &Kernel, parameters: u64, groups: &Buffer, at: u64) {
        debug_assert!(at + 12 <= groups.len && at.is_multiple_of(4), "groups outside their buffer");
        self.bound(kernel, parameters, || {
            // SAFETY: sound, the handles are of this device, and the caller keeps all until the end. A kernel
            // writes the words, and keeps to the device's limit.
            unsafe { self.raw.cmd_dispatch_indirect(self.commands, groups.raw, groups.start + at) };
        });
    }

    /// Binds a kernel and its parameters, and dispatches it. Where it cannot be made, the recording fails.
    fn bound(&self, kernel: &Kernel, parameters: u64, dispatch: impl FnOnce()) {
        let pipeline = match kernel.pipeline() {
            Ok(pipeline) => pipeline,
            Err(error) => {
                self.failure.borrow_mut().get_or_insert(error);
                return;
            }
        };
        let stage = vk::ShaderStageFlags::COMPUTE;
        // SAFETY: sound, the handles are of this device, and the caller keeps the kernel until the end.
        unsafe {
            self.raw.cmd_bind_pipeline(self.commands, vk::PipelineBindPoint::COMPUTE, pipeline.raw);
            self.raw.cmd_push_constants(self.commands, pipeline.layout, stage, 0, &parameters.to_le_bytes());
        }
        dispatch();
        self.order();
    }

    /// Gives a buffer that can be exported to the programs that have it, with all that was written to it.
    pub(crate) fn give_away(&self, buffer: &Buffer) {
        self.change_owner(buffer, self.family, vk::QUEUE_FAMILY_EXTERNAL);
    }

    /// Takes a buffer back, with all that others have written to it. Its bytes are lost without this.
    pub(crate) fn take_back(&self, buffer: &Buffer) {
        self.change_owner(buffer, vk::QUEUE_FAMILY_EXTERNAL, self.family);
    }

    fn change_owner(&self, buffer: &Buffer, from: u32, to: u32) {
        let stages = vk::PipelineStageFlags::TRANSFER;
        let barrier = vk::BufferMemoryBarrier::default()
            .buffer(buffer.raw)
            .size(vk::WHOLE_SIZE)
            .src_queue_family_index(from)
            .dst_queue_family_index(to)
            .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
            .dst_access_mask(vk::AccessFlags::TRANSFER_READ);
        let none = vk::DependencyFlags::empty();
        // SAFETY: sound, the caller keeps the buffer until the end.
        unsafe {
            self.raw.cmd_pipeline_barrier(self.commands, stages, stages, none, &[], &[barrier], &[]);
        }
    }

    /// Makes all writes so far visible to later commands, and to the host at the end.
    fn order(&self) {
        if self.is_beside.get() {
            return;
        }
        use vk::{AccessFlags as Access, PipelineStageFlags as Stages};
        let mut stages = Stages::TRANSFER | Stages::HOST;
        let mut before = Access::TRANSFER_WRITE;
        let mut behind = Access::TRANSFER_READ | Access::TRANSFER_WRITE | Access::HOST_READ;
        // A queue for copies alone does not know the stages of kernels.
        if self.queue == QueueUse::Kernels {
            stages |= Stages::COMPUTE_SHADER | Stages::DRAW_INDIRECT;
            before |= Access::SHADER_WRITE;
            behind |= Access::SHADER_READ | Access::SHADER_WRITE | Access::INDIRECT_COMMAND_READ;
        }
        let barrier = vk::MemoryBarrier::default().src_access_mask(before).dst_access_mask(behind);
        let none = vk::DependencyFlags::empty();
        // SAFETY: as above.
        unsafe {
            self.raw.cmd_pipeline_barrier(self.commands, stages, stages, none, &[barrier], &[], &[]);
        }
    }
}
