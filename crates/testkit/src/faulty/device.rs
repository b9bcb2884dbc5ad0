//! The failing device.

use super::access::{Access, AccessKind};
use super::rule::{EIO, Effect, Rule};
use lanefs::{Device, IoBuf, IoBufMut};
use parking_lot::{Mutex, MutexGuard};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The faults to inject, and those that happened. Clones share one state.
#[derive(Clone, Default)]
pub struct Faults {
    state: Arc<Mutex<FaultyState>>,
    yields: Arc<AtomicBool>,
}

#[derive(Default)]
struct FaultyState {
    rules: Vec<Rule>,
    trace: Option<Vec<Access>>,
    failed: Vec<Access>,
    /// The old bytes of writes since the last flush, oldest first; kept where a rule needs them.
    unflushed: Vec<(u64, Vec<u8>)>,
}

impl Faults {
    /// No faults yet.
    pub fn new() -> Self {
        Faults::default()
    }

    /// Creates the set of this one fault.
    pub fn with(rule: Rule) -> Self {
        let faults = Faults::new();
        faults.add(rule);
        faults
    }

    fn state(&self) -> MutexGuard<'_, FaultyState> {
        // The state is consistent between any two lines that change it.
        self.state.lock()
    }

    /// Adds a fault. The first rule that matches an access applies.
    pub fn add(&self, rule: Rule) {
        self.state().rules.push(rule);
    }

    /// Removes all faults.
    pub fn clear(&self) {
        self.state().rules.clear();
    }

    /// Starts a list of all accesses.
    pub fn start_trace(&self) {
        self.state().trace = Some(Vec::new());
    }

    /// Returns the accesses since the trace started, or since the last call.
    pub fn take_trace(&self) -> Vec<Access> {
        self.state().trace.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns the accesses that failed so far.
    pub fn failed(&self) -> Vec<Access> {
        self.state().failed.clone()
    }

    /// Makes every access yield the processor first, so that threads meet inside of operations.
    pub fn yield_at_each(&self) {
        self.yields.store(true, Ordering::Relaxed);
    }

    fn meet(&self, kind: AccessKind, bytes: Range<u64>) -> Option<Effect> {
        if self.yields.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        let access = Access { kind, bytes };
        let state = &mut *self.state();
        if let Some(trace) = &mut state.trace {
            trace.push(access.clone());
        }
        let effect = state.rules.iter_mut().find_map(|rule| rule.hits(&access).then_some(rule.effect));
        if effect.is_some() {
            state.failed.push(access);
        }
        effect
    }

    fn keeps_unflushed(&self) -> bool {
        self.state().rules.iter().any(|rule| matches!(rule.effect, Effect::Lost(_)))
    }
}

/// A device that injects faults in front of another one.
pub struct FaultyDevice {
    below: Arc<dyn Device>,
    faults: Faults,
}

impl FaultyDevice {
    /// Wraps a device with faults.
    pub fn new(below: Arc<dyn Device>, faults: &Faults) -> Self {
        FaultyDevice { below, faults: faults.clone() }
    }

    fn put(&self, at: u64, data: IoBuf<'_>) -> io::Result<()> {
        if self.faults.keeps_unflushed() {
            let mut before = vec![0; data.len()];
            self.below.read_slice(at, &mut before)?;
            self.faults.state().unflushed.push((at, before));
        }
        self.below.write_at(at, data)
    }
}

fn error(effect: Effect) -> io::Error {
    match effect {
        Effect::Errno(errno) | Effect::Torn(errno) | Effect::Lost(errno) => {
            io::Error::from_raw_os_error(errno)
        }
        Effect::Eof => io::Error::from(io::ErrorKind::UnexpectedEof),
        Effect::Flip(..) => io::Error::from_raw_os_error(EIO),
    }
}

impl Device for FaultyDevice {
    fn len(&self) -> u64 {
        self.below.len()
    }

    fn read_at(&self, at: u64, mut buffer: IoBufMut<'_>) -> io::Result<()> {
        match self.faults.meet(AccessKind::Read, at..at.saturating_add(buffer.len() as u64)) {
            None => self.below.read_at(at, buffer),
            Some(Effect::Flip(byte, bit)) => {
                self.below.read_at(at, buffer.reborrow())?;
                // The rule names this byte, so it lies in the buffer.
                let at = (byte - at) as usize;
                let mut damaged = buffer.part(at..=at);
                let mut bits = [0];
                damaged.copy_to(&mut bits);
                damaged.copy_from(&[bits[0] ^ 1 << (bit % 8)]);
                Ok(())
            }
            Some(effect) => {
                // A failed read leaves undefined bytes in the buffer; no caller may use them.
                buffer.fill(0x5a);
                Err(error(effect))
            }
        }
    }

    fn write_at(&self, at: u64, data: IoBuf<'_>) -> io::Result<()> {
        match self.faults.meet(AccessKind::Write, at..at.saturating_add(data.len() as u64)) {
            None => self.put(at, data),
            Some(effect) => {
                if matches!(effect, Effect::Torn(_)) {
                    self.put(at, data.part(..data.len() / 2))?;
                }
                Err(error(effect))
            }
        }
    }

    fn flush(&self) -> io::Result<()> {
        let effect = self.faults.meet(AccessKind::Flush, 0..0);
        let unflushed = std::mem::take(&mut self.faults.state().unflushed);
        match effect {
            None => self.below.flush(),
            Some(effect) => {
                if matches!(effect, Effect::Lost(_)) {
                    for (at, before) in unflushed.iter().rev() {
                        self.below.write_slice(*at, before)?;
                    }
                }
                Err(error(effect))
            }
        }
    }

    fn discard(&self, at: u64, len: u64) -> io::Result<()> {
        match self.faults.meet(AccessKind::Discard, at..at.saturating_add(len)) {
            None => self.below.discard(at, len),
            Some(effect) => Err(error(effect)),
        }
    }

    fn resize(&self, len: u64) -> io::Result<()> {
        match self.faults.meet(AccessKind::Resize, 0..len) {
            None => self.below.resize(len),
            Some(effect) => Err(error(effect)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanefs::MemoryDevice;

    fn faulty(rule: Rule) -> (FaultyDevice, Faults) {
        let faults = Faults::with(rule);
        (FaultyDevice::new(Arc::new(MemoryDevice::new(vec![7; 100])), &faults), faults)
    }

    fn read(device: &FaultyDevice, at: u64) -> Result<u8, Option<i32>> {
        let mut byte = [0];
        device.read_slice(at, &mut byte).map(|()| byte[0]).map_err(|e| e.raw_os_error())
    }

    #[test]
    fn a_rule_hits_what_it_says_and_nothing_else() {
        let (device, faults) = faulty(Rule::read_error().at(10..20).after(1).times(2));
        assert_eq!(read(&device, 9), Ok(7));
        assert_eq!(read(&device, 10), Ok(7));
        assert_eq!(read(&device, 20), Ok(7));
        assert_eq!(read(&device, 19), Err(Some(EIO)));
        assert!(device.write_slice(10, &[1]).is_ok());
        assert_eq!(read(&device, 10), Err(Some(EIO)));
        assert_eq!(read(&device, 10), Ok(1));
        let hit = Access { kind: AccessKind::Read, bytes: 19..20 };
        assert_eq!(faults.failed(), [hit, Access { kind: AccessKind::Read, bytes: 10..11 }]);
    }

    #[test]
    fn each_fault_does_what_its_name_says() {
        let (device, faults) = faulty(Rule::rot(5, 1));
        assert_eq!((read(&device, 5), read(&device, 6)), (Ok(7 ^ 2), Ok(7)));
        faults.clear();
        assert_eq!(read(&device, 5), Ok(7));
        let (device, _) = faulty(Rule::ends_at(50));
        assert_eq!((read(&device, 49), read(&device, 50)), (Ok(7), Err(None)));
        let (device, _) = faulty(Rule::torn_write());
        assert!(device.write_slice(0, &[1; 10]).is_err());
        assert_eq!((read(&device, 4), read(&device, 5)), (Ok(1), Ok(7)));
        let (device, _) = faulty(Rule::gone());
        assert!(read(&device, 0).is_err() && device.flush().is_err() && device.discard(0, 1).is_err());
    }

    #[test]
    fn a_lost_flush_takes_back_what_was_written_since_the_last_one() {
        let (device, _) = faulty(Rule::lost_flush().after(1).times(1));
        assert!(device.write_slice(0, &[1]).is_ok() && device.flush().is_ok());
        assert!(device.write_slice(0, &[2, 2]).is_ok() && device.write_slice(1, &[3]).is_ok());
        assert!(device.flush().is_err());
        assert_eq!((read(&device, 0), read(&device, 1)), (Ok(1), Ok(7)));
        assert!(device.flush().is_ok());
    }
}
