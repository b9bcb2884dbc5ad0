//! A device that is in use.

use super::allocation::Spares;
use super::choice::Choice;
use super::external::{ExportFunctions, SemaphoreFunctions};
use super::info::{DeviceInfo, DeviceKind};
use super::instance::Instance;
use super::shim;
use super::sleepers::Sleepers;
use crate::error::{During, Error, Result};
use ash::vk;
use lanefs_sync::lock::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Nanoseconds of a wait, and the number of waits for a submission: ten minutes. Dispatches are bounded and
/// take less than a second, so that a device which needs as long hangs. A machine that sleeps meanwhile costs
/// one wait of them.
const WAIT_NS: u64 = 1_000_000_000;
const WAITS: u32 = 600;

/// Bytes of an upload from which on the queue for copies makes it: 20 us of a PCIe 5 link. A wait of one
/// queue for another takes some ten microseconds, so a smaller one is there sooner by the queue of kernels.
const BESIDE_BYTES: u64 = 1 << 20;

/// The same for tests of own memory, whose batches are small: they have both kinds.
const BESIDE_BYTES_TESTED: u64 = 4 << 10;

/// Devices that hang. They may still read and write the memory that they were given, so nothing of theirs is
/// ever freed.
static HUNG: Mutex<Vec<Arc<Device>>> = Mutex::new(Vec::new());

/// Use of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueUse {
    /// Kernels, and copies beside them.
    Kernels,
    /// Copies alone, which a device with such a queue makes while kernels run.
    Copies,
}

/// A device, its queues, and its kinds of memory.
pub(crate) struct Device {
    pub(crate) raw: ash::Device,
    physical: vk::PhysicalDevice,
    pub(crate) info: DeviceInfo,
    /// The queue for kernels, and one for copies where the device has one.
    queues: Vec<Queue>,
    /// Numbers of submissions to each. One thread submits at a time, as Vulkan demands.
    submitted: Mutex<[u64; 2]>,
    pub(crate) memory: vk::PhysicalDeviceMemoryProperties,
    /// Bytes of one allocation and of one buffer at most.
    pub(crate) largest: u64,
    /// Buffers have guards, for tests.
    pub(crate) is_guarded: bool,
    /// The host does not map the device's own memory.
    pub(crate) has_own_memory: bool,
    /// Bytes of an upload for kernels from which on the queue for copies makes it; `None` with one queue.
    pub(crate) beside_from: Option<u64>,
    /// Submissions end at once and do nothing, so that a benchmark times the host alone.
    #[cfg(any(test, feature = "_testing"))]
    pub(crate) is_idle: AtomicBool,
    /// The functions that export memory, where the device has them.
    export: Option<ExportFunctions>,
    /// Those that export timeline semaphores.
    semaphores: Option<SemaphoreFunctions>,
    /// A submission did not end in time. Work may be in flight for ever.
    is_hung: AtomicBool,
    /// Probes that are at work.
    probes: AtomicUsize,
    /// The driver's compiled kernels: those of an earlier start, and new ones; null where it keeps none.
    pub(super) pipelines: OnceLock<vk::PipelineCache>,
    /// Memory of buffers that were dropped.
    pub(super) spares: Spares,
    /// Tasks that wait for submissions.
    pub(super) sleepers: Sleepers,
    instance: Instance,
}

/// A queue.
struct Queue {
    raw: vk::Queue,
    family: u32,
    /// Counts its submissions that have ended.
    timeline: vk::Semaphore,
}

/// A probe that is at work.
pub(crate) struct ProbeInProgress<'d>(&'d Device);

impl Drop for ProbeInProgress<'_> {
    fn drop(&mut self) {
        self.0.probes.fetch_sub(1, Ordering::Relaxed);
    }
}

const OPERATION: &str = "working";

impl Device {
    /// # Errors
    /// No loader, no such device, or one that cannot be used.
    pub(crate) fn open(choice: &Choice, is_guarded: bool, own_memory: bool) -> Result<Arc<Device>> {
        let instance = Instance::new()?;
        let (physical, info) = instance.choose(choice)?;
        let family = instance.queue_family(physical).ok_or(Error::NoDevice(None))?;
        let for_copies = instance.copy_family(physical);
        let families: Vec<u32> = [family].into_iter().chain(for_copies).collect();
        let queue = |family: &u32| {
            vk::DeviceQueueCreateInfo::default().queue_family_index(*family).queue_priorities(&[1.0])
        };
        let queues: Vec<_> = families.iter().map(queue).collect();
        let mut v12 = vk::PhysicalDeviceVulkan12Features::default()
            .buffer_device_address(true)
            .vulkan_memory_model(true)
            .vulkan_memory_model_device_scope(true)
            .timeline_semaphore(true);
        let features = vk::PhysicalDeviceFeatures::default().shader_int64(true);
        let can_export = instance.can_export(physical);
        let can_export_timelines = can_export && instance.can_export_timelines(physical);
        let extensions: Vec<_> = [
            can_export.then_some(ash::khr::external_memory_fd::NAME.as_ptr()),
            can_export_timelines.then_some(ash::khr::external_semaphore_fd::NAME.as_ptr()),
        ]
        .into_iter()
        .flatten()
        .collect();
        let create = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_features(&features)
            .enabled_extension_names(&extensions)
            .push_next(&mut v12);
        let mut maintenance = vk::PhysicalDeviceMaintenance3Properties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut maintenance);
        // SAFETY: sound, the physical device is one of the instance, which lives as long as this device.
        let (raw, memory) = unsafe {
            instance.raw.get_physical_device_properties2(physical, &mut properties);
            let raw = instance.raw.create_device(physical, &create, None).during("opening the device")?;
            (raw, instance.raw.get_physical_device_memory_properties(physical))
        };
        let raw = shim::between(raw, &instance.raw);
        let export = can_export.then(|| shim::export_functions(&raw, &instance.raw));
        let semaphores = can_export_timelines.then(|| shim::semaphore_functions(&raw, &instance.raw));
        // From here on `drop` frees the handles.
        let mut device = Device {
            has_own_memory: own_memory || info.kind == DeviceKind::Discrete,
            beside_from: beside_from(own_memory, &families),
            raw,
            physical,
            info,
            queues: Vec::new(),
            submitted: Mutex::default(),
            memory,
            export,
            semaphores,
            largest: maintenance.max_memory_allocation_size,
            is_guarded,
            #[cfg(any(test, feature = "_testing"))]
            is_idle: AtomicBool::new(false),
            is_hung: AtomicBool::new(false),
            probes: AtomicUsize::new(0),
            pipelines: OnceLock::new(),
            spares: Spares::default(),
            sleepers: Sleepers::default(),
            instance,
        };
        // Without a queue for copies, tests of own memory use the one for kernels as a second one.
        for family in families.iter().chain((own_memory && families.len() == 1).then_some(&family)) {
            device.add_queue(*family)?;
        }
        Ok(Arc::new(device))
    }

    /// Adds the first queue of a family, with a timeline.
    fn add_queue(&mut self, family: u32) -> Result<()> {
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let semaphore = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: sound, the device lives and was made with this queue, and the arguments live until the call
        // returns.
        let (raw, timeline) = unsafe {
            let timeline = self.raw.create_semaphore(&semaphore, None).during("opening the device")?;
            (self.raw.get_device_queue(family, 0), timeline)
        };
        self.queues.push(Queue { raw, family, timeline });
        Ok(())
    }

    /// Returns the number of the queue for a use.
    fn number(&self, of: QueueUse) -> usize {
        if of == QueueUse::Copies { self.queues.len() - 1 } else { 0 }
    }

    /// Returns the family of the queue for a use.
    pub(crate) fn family(&self, of: QueueUse) -> u32 {
        self.queues[self.number(of)].family
    }

    /// Returns the families of both queues, where they are two.
    pub(super) fn two_families(&self) -> Option<[u32; 2]> {
        let families = [QueueUse::Kernels, QueueUse::Copies].map(|of| self.family(of));
        (families[0] != families[1]).then_some(families)
    }

    /// Returns the functions that export memory.
    ///
    /// # Errors
    /// The device has none.
    pub(super) fn export_functions(&self) -> Result<&ExportFunctions> {
        self.export.as_ref().ok_or(Error::NotExportable("the device lacks VK_KHR_external_memory_fd"))
    }

    /// Returns the functions that export timeline semaphores.
    ///
    /// # Errors
    /// The device has none.
    pub(super) fn semaphore_functions(&self) -> Result<&SemaphoreFunctions> {
        self.semaphores.as_ref().ok_or(Error::NotExportable("the device exports no timeline semaphores"))
    }

    /// Submits commands; returns the number of the submission to this queue. Later submissions to it begin
    /// after the barriers of these commands. Kernels among them begin after a submission of copies, if one is
    /// given. Their end raises another timeline to a value, if one is given.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn submit(
        &self,
        of: QueueUse,
        commands: vk::CommandBuffer,
        copies: Option<u64>,
        raised: Option<(vk::Semaphore, u64)>,
    ) -> Result<u64> {
        self.check()?;
        let (number, mut submitted) = (self.number(of), self.submitted.lock());
        let queue = &self.queues[number];
        #[cfg(any(test, feature = "_testing"))]
        if self.is_idle.load(Ordering::Relaxed) {
            let value = submitted[number] + 1;
            let signal = vk::SemaphoreSignalInfo::default().semaphore(queue.timeline).value(value);
            // SAFETY: sound, the semaphore is this device's.
            unsafe { self.raw.signal_semaphore(&signal) }.during(OPERATION)?;
            submitted[number] = value;
            return Ok(value);
        }
        let (commands, value, count) = ([commands], submitted[number] + 1, 1 + usize::from(raised.is_some()));
        let (also, its_value) = raised.unwrap_or_default();
        let (signals, values) = ([queue.timeline, also], [value, its_value]);
        let awaited = self.number(QueueUse::Copies);
        debug_assert!(copies.is_none_or(|copies| copies <= submitted[awaited]), "copies never submitted");
        let waits = usize::from(copies.is_some());
        let (before, reached) = ([self.queues[awaited].timeline], [copies.unwrap_or(0)]);
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default()
            .wait_semaphore_values(&reached[..waits])
            .signal_semaphore_values(&values[..count]);
        // Kernels alone read what such copies have written.
        let stages = [vk::PipelineStageFlags::COMPUTE_SHADER];
        let submit = vk::SubmitInfo::default()
            .wait_semaphores(&before[..waits])
            .wait_dst_stage_mask(&stages[..waits])
            .command_buffers(&commands)
            .signal_semaphores(&signals[..count])
            .push_next(&mut timeline);
        // SAFETY: sound, the queues are locked (exclusive), and the arguments live until the call returns.
        unsafe { self.raw.queue_submit(queue.raw, &[submit], vk::Fence::null()) }.during(OPERATION)?;
        submitted[number] = value;
        Ok(value)
    }

    /// Returns the number of submissions of copies so far.
    #[cfg(test)]
    pub(crate) fn copies_submitted(&self) -> u64 {
        self.submitted.lock()[self.number(QueueUse::Copies)]
    }

    /// Waits until the driver has done all that was submitted for a use, and raised all semaphores.
    ///
    /// # Errors
    /// As [`wait_for`](Self::wait_for).
    pub(super) fn wait_until_idle(self: &Arc<Self>, of: QueueUse) -> Result<()> {
        let number = self.number(of);
        let last = self.submitted.lock()[number];
        // First with a bound, which the wait for a queue does not have.
        if last != 0 {
            self.wait_for(of, last)?;
        }
        let _queues = self.submitted.lock();
        // SAFETY: sound, the queue is this device's, and the lock keeps other threads from submitting.
        unsafe { self.raw.queue_wait_idle(self.queues[number].raw) }.during(OPERATION)
    }

    /// Waits for the end of a submission of kernels.
    ///
    /// # Errors
    /// As [`wait_for`](Self::wait_for).
    pub(crate) fn wait(self: &Arc<Self>, submission: u64) -> Result<()> {
        self.wait_for(QueueUse::Kernels, submission)
    }

    /// Waits for the end of a submission.
    ///
    /// # Errors
    /// An error of the device; its results then do not count. No work is in flight any more, unless the
    /// device [hangs](Self::hangs).
    pub(crate) fn wait_for(self: &Arc<Self>, of: QueueUse, submission: u64) -> Result<()> {
        let number = self.number(of);
        debug_assert!(submission <= self.submitted.lock()[number], "a submission that was never made");
        self.check()?;
        let (semaphores, values) = ([self.queues[number].timeline], [submission]);
        let wait = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        for _ in 0..WAITS {
            // SAFETY: sound, the semaphore is this device's.
            match unsafe { self.raw.wait_semaphores(&wait, WAIT_NS) } {
                Ok(()) => return Ok(()),
                Err(vk::Result::TIMEOUT) => {}
                Err(code) => {
                    let _queues = self.submitted.lock();
                    // SAFETY: sound, the device lives, and the lock keeps other threads from submitting.
                    let _ = unsafe { self.raw.device_wait_idle() };
                    return Err(code).during(OPERATION);
                }
            }
        }
        if !self.is_hung.swap(true, Ordering::Relaxed) {
            HUNG.lock().push(self.clone());
        }
        self.check()
    }

    /// Tells whether the device did not end a submission in time. All that it was given must stay.
    pub(crate) fn hangs(&self) -> bool {
        self.is_hung.load(Ordering::Relaxed)
    }

    /// Counts a probe until what this returns is dropped.
    pub(crate) fn probed(&self) -> ProbeInProgress<'_> {
        self.probes.fetch_add(1, Ordering::Relaxed);
        ProbeInProgress(self)
    }

    /// Tells whether a probe is at work: answers must not be those that an earlier one left in the memory.
    pub(crate) fn is_probed(&self) -> bool {
        self.probes.load(Ordering::Relaxed) > 0
    }

    /// A device that hangs is lost.
    fn check(&self) -> Result<()> {
        if self.hangs() { Err(vk::Result::ERROR_DEVICE_LOST).during(OPERATION) } else { Ok(()) }
    }

    /// Returns the bytes of the device's memory that this process may still take, as the driver estimates
    /// it; all where it does not.
    pub(crate) fn free_memory(&self) -> u64 {
        self.instance.free_memory(self.physical).unwrap_or(self.info.memory)
    }

    /// Tells whether a submission of kernels has ended.
    ///
    /// # Errors
    /// An error of the device, which for a device that [hangs](Self::hangs) comes at once: its submissions
    /// never end.
    pub(crate) fn is_over(&self, submission: u64) -> Result<bool> {
        self.check()?;
        // SAFETY: sound, the semaphore is this device's.
        let value = unsafe { self.raw.get_semaphore_counter_value(self.queues[0].timeline) };
        let value = value.during(OPERATION)?;
        Ok(value >= submission)
    }

    /// Returns the kinds of memory with these properties: first those that have the ones of `better`, too.
    pub(crate) fn memory_kinds(
        &self,
        among: u32,
        needs: vk::MemoryPropertyFlags,
        better: vk::MemoryPropertyFlags,
    ) -> Vec<u32> {
        let flags = |kind: u32| self.memory.memory_types[kind as usize].property_flags;
        let all = (0..self.memory.memory_type_count).filter(|kind| among >> kind & 1 == 1);
        // Memory of these kinds needs features, or is for other uses.
        let special = vk::MemoryPropertyFlags::DEVICE_COHERENT_AMD
            | vk::MemoryPropertyFlags::DEVICE_UNCACHED_AMD
            | vk::MemoryPropertyFlags::PROTECTED
            | vk::MemoryPropertyFlags::LAZILY_ALLOCATED;
        let fits = |kind: &u32| flags(*kind).contains(needs) && !flags(*kind).intersects(special);
        let mut kinds: Vec<u32> = all.filter(fits).collect();
        // The sort is stable: a driver lists the kinds that are faster first.
        kinds.sort_by_key(|kind| !flags(*kind).contains(better));
        kinds
    }
}

/// Returns the bytes from which on the queue for copies makes an upload, with queues of these families.
fn beside_from(own_memory: bool, families: &[u32]) -> Option<u64> {
    match own_memory {
        true => Some(BESIDE_BYTES_TESTED),
        false => (families.len() > 1).then_some(BESIDE_BYTES),
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: sound, all objects of the device are gone: each keeps the device alive. The spares are the
        // device's own.
        unsafe {
            let _ = self.raw.device_wait_idle();
            self.spares.take_all().iter().for_each(|spare| spare.free(&self.raw));
            self.queues.iter().for_each(|queue| self.raw.destroy_semaphore(queue.timeline, None));
            self.raw.destroy_pipeline_cache(self.pipelines.get().copied().unwrap_or_default(), None);
            self.raw.destroy_device(None);
        }
    }
}
