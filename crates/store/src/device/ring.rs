//! Many requests in flight from one thread, by io_uring.
//!
//! Soundness: from the submission of a request to its completion, the kernel may read or write the request's
//! memory at any time. The [`Transfer`]s of a call of [`RequestRing::transfer_all`] borrow that memory for
//! `'m`, and
//! `'m` cannot end before the call returns. The call ends in one way: [`Flight`] is dropped, which returns
//! only when the kernel has completed every request that it took. This is so for errors and panics too, and
//! no caller can forget a `Flight`, which is a local value. A request that is queued and not taken when a
//! panic or a refusal ends the call is never taken: the kernel takes requests in `io_uring_enter` only (there
//! is no polling thread), a ring in this state is not used again, and dropping it ends the queue. The caller
//! gets memory back, and system calls access it instead of the ring, only for transfers in neither of the two
//! states. No request needs a thread of the kernel: see [`NO_WAIT`].

use super::parallel;
use super::transfer::{Progress, Transfer};
use io_uring::{EnterFlags, IoUring, Probe, opcode};
use lanefs_sync::lock::Mutex;
use rustix::io::ReadWriteFlags;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Most requests in flight at once. A fast disk wants some tens; a queue of this size takes some 20 KiB.
pub(super) const DEPTH: usize = 128;

/// Completions that one system call waits for while more transfers wait: fewer system calls, and the disk
/// stays busy.
const BATCH_COMPLETIONS: usize = DEPTH / 8;

/// Most bytes of one request. The kernel stops a little below 2 GiB; this keeps the rest aligned.
const LONGEST_BYTES: u32 = 1 << 30;

/// Flags of requests: the kernel does one without waiting for anything but the disk, or refuses it (`EAGAIN`;
/// a file system that cannot tell, `EOPNOTSUPP`). Without this it would give a request that has to wait to a
/// worker thread of its own, and a worker may never come: on Linux 6.18.44 a process of many rings and forks
/// waited for ever for 35 writes that no thread had.
const NO_WAIT: i32 = ReadWriteFlags::NOWAIT.bits() as i32;

/// A queue of requests and a queue of completions, shared with the kernel.
pub(super) struct RequestRing {
    ring: IoUring,
    /// Slots without a transfer.
    free: Vec<u8>,
    /// Slots whose requests are in the queue, and that the kernel has not taken, oldest first.
    queued: Vec<u8>,
    longest: u32,
    /// [`NO_WAIT`], but in tests whose requests stay in flight.
    flags: i32,
    /// The kernel refuses to take requests: the ring is not used again.
    refused: bool,
    /// Number of system calls after which tests have the kernel refuse.
    #[cfg(test)]
    calls_left: Option<u32>,
}

impl RequestRing {
    /// Sets up a ring.
    ///
    /// # Errors
    /// The host's: the kernel may be too old, set to refuse, or short of locked memory.
    pub(super) fn new() -> io::Result<Self> {
        // The first form needs no interrupts for completions, because this thread polls for them (Linux
        // 5.19).
        let mut ring = IoUring::builder().setup_coop_taskrun().build(DEPTH as u32).or_else(|first| {
            match first.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) {
                true => IoUring::new(DEPTH as u32),
                false => Err(first),
            }
        })?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) || !probe.is_supported(opcode::Write::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // A host may let programs set up rings and not use them; a request that does nothing shows it.
        // SAFETY: this request has no memory.
        let pushed = unsafe { ring.submission().push(&opcode::Nop::new().build()) };
        pushed.map_err(io::Error::other)?;
        while let Err(error) = ring.submit_and_wait(1) {
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        if ring.completion().count() != 1 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(RequestRing {
            ring,
            free: (0..DEPTH as u8).collect(),
            queued: Vec::with_capacity(DEPTH),
            longest: LONGEST_BYTES,
            flags: NO_WAIT,
            refused: false,
            #[cfg(test)]
            calls_left: None,
        })
    }

    /// Returns false when the ring must not be used again.
    pub(super) fn is_sound(&self) -> bool {
        !self.refused && self.queued.is_empty() && self.free.len() == DEPTH
    }

    /// Does all transfers and returns when the last has ended. It calls `failed` for each that fails, which
    /// returns whether transfers that have not begun are still needed. Positions, lengths and memory are
    /// aligned as the file needs them; the rest of a transfer that was done in part begins at a multiple of
    /// `unit`.
    ///
    /// Where the kernel refuses the ring, system calls do the transfers. They also do those for which the
    /// kernel would have to wait: all of these at the end, on several threads where they are many.
    pub(super) fn transfer_all<'m>(
        &mut self,
        file: &File,
        unit: usize,
        mut transfers: impl Iterator<Item = Transfer<'m>>,
        mut failed: impl FnMut(usize, io::Error) -> bool,
    ) {
        let slots = [const { None }; DEPTH];
        let mut flight = Flight { ring: self, file, unit, slots, blocked: Vec::new(), wanted: true };
        let mut more = true;
        loop {
            while more && flight.has_room() {
                match transfers.next() {
                    Some(transfer) => flight.start(transfer, &mut failed),
                    None => more = false,
                }
                more &= flight.wanted;
            }
            if flight.in_slots() == 0 {
                break;
            }
            flight.step(more, &mut failed);
        }
        let blocked = if flight.wanted { std::mem::take(&mut flight.blocked) } else { Vec::new() };
        drop(flight);
        let errors = Mutex::new(Vec::new());
        parallel::for_each(blocked.into_iter(), |transfer| {
            let index = transfer.index;
            if let Err(error) = transfer.finish(file, unit) {
                errors.lock().push((index, error));
            }
        });
        for (index, error) in errors.into_inner() {
            // All have been tried.
            let _ = failed(index, error);
        }
    }

    /// Has the kernel take `queued` requests and waits for `completions`.
    fn enter(&mut self, queued: usize, completions: usize) -> io::Result<usize> {
        #[cfg(test)]
        if let Some(left) = &mut self.calls_left {
            *left = left.checked_sub(1).ok_or(io::ErrorKind::PermissionDenied)?;
        }
        // SAFETY: no argument structure is given. The memory of all queued requests stays borrowed: see the
        // module.
        unsafe {
            let flags = EnterFlags::GETEVENTS.bits();
            self.ring.submitter().enter::<()>(queued as u32, completions as u32, flags, None)
        }
    }
}

/// The transfers of one call, from their start to the last completion.
struct Flight<'r, 'm> {
    ring: &'r mut RequestRing,
    file: &'r File,
    unit: usize,
    /// Transfers whose requests are queued or in flight.
    slots: [Option<Transfer<'m>>; DEPTH],
    /// Transfers in no slot for which the kernel would have to wait.
    blocked: Vec<Transfer<'m>>,
    /// False once a failure has made the rest pointless.
    wanted: bool,
}

impl<'m> Flight<'_, 'm> {
    fn has_room(&self) -> bool {
        !self.ring.free.is_empty()
    }

    fn in_slots(&self) -> usize {
        DEPTH - self.ring.free.len()
    }

    /// Returns the number of requests in flight, completions that were not read included.
    fn taken(&self) -> usize {
        self.in_slots() - self.ring.queued.len()
    }

    fn start(&mut self, transfer: Transfer<'m>, failed: &mut impl FnMut(usize, io::Error) -> bool) {
        if !self.ring.refused
            && let Some(slot) = self.ring.free.pop()
        {
            self.slots[usize::from(slot)] = Some(transfer);
            self.queue(slot, failed);
        } else {
            self.finish(transfer, failed);
        }
    }

    /// Queues the request for the rest of a slot's transfer.
    fn queue(&mut self, slot: u8, failed: &mut impl FnMut(usize, io::Error) -> bool) {
        let Some(transfer) = &mut self.slots[usize::from(slot)] else { return };
        let RequestRing { longest, flags, .. } = *self.ring;
        let entry = transfer.entry(self.file.as_raw_fd(), longest, flags).user_data(u64::from(slot));
        // SAFETY: the memory is borrowed until the kernel has completed the request: see the module.
        let pushed = unsafe { self.ring.ring.submission().push(&entry) };
        if pushed.is_ok() {
            self.ring.queued.push(slot);
        } else if let Some(transfer) = self.release(slot) {
            // (The queue has room for each slot, so it is never full.)
            self.finish(transfer, failed);
        }
    }

    /// Does a transfer by system calls. It is in no slot.
    fn finish(&mut self, transfer: Transfer<'m>, failed: &mut impl FnMut(usize, io::Error) -> bool) {
        let index = transfer.index;
        if let Err(error) = transfer.finish(self.file, self.unit) {
            self.wanted &= failed(index, error);
        }
    }

    /// Submits the queue, waits for some completions and handles them. `more`: transfers wait for a slot.
    fn step(&mut self, more: bool, failed: &mut impl FnMut(usize, io::Error) -> bool) {
        if self.ring.refused {
            self.take_back(failed);
            if self.taken() > 0 {
                self.wait();
            }
        } else {
            let completions = if more { BATCH_COMPLETIONS.min(self.in_slots()) } else { self.in_slots() };
            let entered = self.ring.enter(self.ring.queued.len(), completions);
            self.count_taken();
            match entered.map_err(|e| e.kind()) {
                Ok(_) | Err(io::ErrorKind::Interrupted) => {}
                // The kernel is short of memory for more requests: those in flight must end first.
                Err(io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy) if self.taken() > 0 => {
                    self.wait();
                }
                Err(_) => self.ring.refused = true,
            }
        }
        while let Some((slot, result)) = self.completion() {
            let Some(transfer) = &mut self.slots[usize::from(slot)] else { continue };
            let progress = transfer.proceed(result, self.unit);
            if matches!(progress, Progress::More) && !self.ring.refused {
                self.queue(slot, failed);
                continue;
            }
            let Some(transfer) = self.release(slot) else { continue };
            match progress {
                Progress::Done => {}
                Progress::More => self.finish(transfer, failed),
                Progress::Again => self.blocked.push(transfer),
                Progress::Failed(error) => self.wanted &= failed(transfer.index, error),
            }
        }
    }

    /// Removes the requests from `queued` that the kernel has taken, which it does in their order.
    fn count_taken(&mut self) {
        let waiting = self.ring.ring.submission().len();
        let taken = self.ring.queued.len().saturating_sub(waiting);
        self.ring.queued.drain(..taken);
    }

    /// Does by system calls the transfers that the kernel did not take from the queue, and never will.
    fn take_back(&mut self, failed: &mut impl FnMut(usize, io::Error) -> bool) {
        while let Some(slot) = self.ring.queued.pop() {
            if let Some(transfer) = self.release(slot) {
                self.finish(transfer, failed);
            }
        }
    }

    /// Waits for a completion without submitting a request. Where even that is refused, completions arrive in
    /// time.
    fn wait(&mut self) {
        if self.ring.enter(0, 1).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Reads the next completion: a slot, and a count of bytes or a negative errno.
    fn completion(&mut self) -> Option<(u8, i32)> {
        let entry = self.ring.ring.completion().next()?;
        Some(((entry.user_data() % DEPTH as u64) as u8, entry.result()))
    }

    fn release(&mut self, slot: u8) -> Option<Transfer<'m>> {
        let transfer = self.slots[usize::from(slot)].take()?;
        debug_assert!(self.ring.free.len() < DEPTH && self.ring.free.last() != Some(&slot));
        self.ring.free.push(slot);
        Some(transfer)
    }
}

impl Drop for Flight<'_, '_> {
    /// Waits until no request is in flight. There is one only after a panic.
    fn drop(&mut self) {
        self.count_taken();
        while self.taken() > 0 {
            self.wait();
            while let Some((slot, _)) = self.completion() {
                self.release(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests;
