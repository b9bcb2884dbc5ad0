//! Many requests in flight from one thread, by io_uring.
//!
//! Why it is sound: between the moment in which the kernel takes a request and its answer, the kernel may read or write
//! the request's memory whenever it likes. That memory is borrowed for `'m` by the [`Transfer`]s that a call of
//! [`Ring::run`] is given, and `'m` cannot end before that call does. The call ends in one way: [`Flight`] is dropped,
//! which returns only when the kernel has answered every request that it took. This holds for errors and for panics
//! too, and a `Flight` is a local value that nobody can forget. What was put into the queue and not taken when a panic
//! or a refusal ends the call is never taken: the kernel takes requests in `io_uring_enter` only (there is no polling
//! thread), a ring in this state is not used again, and dropping it ends the queue. Memory is given back to the caller, or
//! touched by system calls in place of the ring, only for transfers that are in neither of the two states.

use super::transfer::{Step, Transfer};
use io_uring::{EnterFlags, IoUring, Probe, opcode};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Most requests in flight at once. A fast disk wants some tens; a queue of this size takes some 20 KiB.
pub(super) const DEPTH: usize = 128;

/// Answers that are waited for at once while there is more to ask: fewer system calls, and the disk stays busy.
const BATCH: usize = DEPTH / 8;

/// Most bytes of one request; the kernel stops a little below 2 GiB, and this keeps what is left aligned.
const LONGEST: u32 = 1 << 30;

/// A queue of requests and a queue of answers, shared with the kernel.
pub(super) struct Ring {
    ring: IoUring,
    /// Slots without a transfer.
    free: Vec<u8>,
    /// Slots whose requests are in the queue and not yet taken by the kernel, oldest first.
    queued: Vec<u8>,
    longest: u32,
    /// The kernel refuses to take requests; the ring is of no further use.
    refused: bool,
    /// So many times the kernel is asked before tests have it refuse.
    #[cfg(test)]
    patience: Option<u32>,
}

impl Ring {
    /// A new ring.
    ///
    /// # Errors
    /// The host's: the kernel may be too old, set to refuse, or short of locked memory.
    pub(super) fn new() -> io::Result<Self> {
        // The first form spares interrupts that only say "there is an answer", for this thread asks anyway (Linux 5.19).
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
        // A host may let programs make rings and not use them; a request that does nothing shows it.
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
        Ok(Ring {
            ring,
            free: (0..DEPTH as u8).collect(),
            queued: Vec::with_capacity(DEPTH),
            longest: LONGEST,
            refused: false,
            #[cfg(test)]
            patience: None,
        })
    }

    /// False when the ring must not be used again.
    pub(super) fn is_sound(&self) -> bool {
        !self.refused && self.queued.is_empty() && self.free.len() == DEPTH
    }

    /// Does all transfers and returns when the last has ended. `failed` hears of each that fails, and says whether
    /// those not yet begun are still wanted. Positions, lengths and memory are aligned as the file needs them; what is
    /// left of a transfer that was done in part begins at a multiple of `grain`.
    ///
    /// Where the kernel refuses the ring, system calls do the work.
    pub(super) fn run<'m>(
        &mut self,
        file: &File,
        grain: usize,
        mut transfers: impl Iterator<Item = Transfer<'m>>,
        mut failed: impl FnMut(usize, io::Error) -> bool,
    ) {
        let mut flight = Flight { ring: self, file, grain, slots: [const { None }; DEPTH], wanted: true };
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
                return;
            }
            flight.step(more, &mut failed);
        }
    }

    /// Has the kernel take `queued` requests and waits for `answers`.
    fn enter(&mut self, queued: usize, answers: usize) -> io::Result<usize> {
        #[cfg(test)]
        if let Some(patience) = &mut self.patience {
            *patience = patience.checked_sub(1).ok_or(io::ErrorKind::PermissionDenied)?;
        }
        // SAFETY: no argument structure is given. The memory of all queued requests stays borrowed: see the module.
        unsafe {
            let flags = EnterFlags::GETEVENTS.bits();
            self.ring.submitter().enter::<()>(queued as u32, answers as u32, flags, None)
        }
    }
}

/// The transfers of one call, from their start to the kernel's last answer.
struct Flight<'r, 'm> {
    ring: &'r mut Ring,
    file: &'r File,
    grain: usize,
    /// Transfers whose requests are queued or with the kernel.
    slots: [Option<Transfer<'m>>; DEPTH],
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

    /// How many requests the kernel holds or has answered unheard.
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

    /// Puts the request for what is left of a slot's transfer into the queue.
    fn queue(&mut self, slot: u8, failed: &mut impl FnMut(usize, io::Error) -> bool) {
        let Some(transfer) = &mut self.slots[usize::from(slot)] else { return };
        let entry = transfer.entry(self.file.as_raw_fd(), self.ring.longest).user_data(u64::from(slot));
        // SAFETY: the memory is borrowed until the kernel has answered: see the module.
        let pushed = unsafe { self.ring.ring.submission().push(&entry) };
        if pushed.is_ok() {
            self.ring.queued.push(slot);
        } else if let Some(transfer) = self.release(slot) {
            // (The queue has a place for each slot, so it is never full.)
            self.finish(transfer, failed);
        }
    }

    /// Does a transfer by system calls. It must be in no slot.
    fn finish(&mut self, transfer: Transfer<'m>, failed: &mut impl FnMut(usize, io::Error) -> bool) {
        let index = transfer.index;
        if let Err(error) = transfer.finish(self.file, self.grain) {
            self.wanted &= failed(index, error);
        }
    }

    /// Gives the queue to the kernel, waits for some answers and deals with them. `more`: transfers wait for a slot.
    fn step(&mut self, more: bool, failed: &mut impl FnMut(usize, io::Error) -> bool) {
        if self.ring.refused {
            self.take_back(failed);
            if self.taken() > 0 {
                self.wait();
            }
        } else {
            let answers = if more { BATCH.min(self.in_slots()) } else { self.in_slots() };
            let entered = self.ring.enter(self.ring.queued.len(), answers);
            self.note_taken();
            match entered.map_err(|e| e.kind()) {
                Ok(_) | Err(io::ErrorKind::Interrupted) => {}
                // Short of memory for more requests: those under way must end first.
                Err(io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy) if self.taken() > 0 => {
                    self.wait();
                }
                Err(_) => self.ring.refused = true,
            }
        }
        while let Some((slot, answer)) = self.answer() {
            let Some(transfer) = &mut self.slots[usize::from(slot)] else { continue };
            let step = transfer.proceed(answer, self.grain);
            if matches!(step, Step::More) && !self.ring.refused {
                self.queue(slot, failed);
                continue;
            }
            let Some(transfer) = self.release(slot) else { continue };
            match step {
                Step::Done => {}
                Step::More | Step::Again => self.finish(transfer, failed),
                Step::Failed(error) => self.wanted &= failed(transfer.index, error),
            }
        }
    }

    /// Notes which queued requests the kernel has taken, which it does in their order.
    fn note_taken(&mut self) {
        let waiting = self.ring.ring.submission().len();
        let taken = self.ring.queued.len().saturating_sub(waiting);
        self.ring.queued.drain(..taken);
    }

    /// Does by system calls what the kernel did not take from the queue, and never will.
    fn take_back(&mut self, failed: &mut impl FnMut(usize, io::Error) -> bool) {
        while let Some(slot) = self.ring.queued.pop() {
            if let Some(transfer) = self.release(slot) {
                self.finish(transfer, failed);
            }
        }
    }

    /// Waits for an answer without giving the kernel any request. Where even that is refused, answers come in time.
    fn wait(&mut self) {
        if self.ring.enter(0, 1).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The next answer: a slot, and a count of bytes or a negative errno.
    fn answer(&mut self) -> Option<(u8, i32)> {
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
    /// Waits until the kernel holds none of the borrowed memory. There is something to wait for only after a panic.
    fn drop(&mut self) {
        self.note_taken();
        while self.taken() > 0 {
            self.wait();
            while let Some((slot, _)) = self.answer() {
                self.release(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests;
