//! Rules: when a device fails, and how.

use super::access::{Access, AccessKind};
use std::ops::Range;

/// Input/output error.
pub(super) const EIO: i32 = 5;
const ENODEV: i32 = 19;
const ENOSPC: i32 = 28;

/// The effect on an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It fails with this errno. Nothing of a write is written.
    Errno(i32),
    /// A write fails with this errno after its first half.
    Torn(i32),
    /// It fails as a file that ends too early.
    Eof,
    /// A read succeeds with one wrong bit: this bit of the byte at this position.
    Flip(u64, u8),
    /// A flush fails, and the writes since the last one are undone.
    Lost(i32),
}

/// One fault: the accesses that it hits, and its effect.
///
/// One of the functions that name a fault makes it, and the others narrow it:
/// `Rule::read_error().at(0..4096).times(1)`.
#[derive(Clone, Debug)]
pub struct Rule {
    kinds: &'static [AccessKind],
    within: Range<u64>,
    skip: u64,
    times: u64,
    pub(super) effect: Effect,
}

impl Rule {
    fn new(kinds: &'static [AccessKind], effect: Effect) -> Self {
        Rule { kinds, within: 0..u64::MAX, skip: 0, times: u64::MAX, effect }
    }

    /// Reads fail with EIO.
    pub fn read_error() -> Self {
        Rule::new(&[AccessKind::Read], Effect::Errno(EIO))
    }

    /// Writes fail with EIO and write nothing.
    pub fn write_error() -> Self {
        Rule::new(&[AccessKind::Write], Effect::Errno(EIO))
    }

    /// Writes fail with EIO after their first half.
    pub fn torn_write() -> Self {
        Rule::new(&[AccessKind::Write], Effect::Torn(EIO))
    }

    /// Flushes fail with EIO; the writes are durable all the same.
    pub fn flush_error() -> Self {
        Rule::new(&[AccessKind::Flush], Effect::Errno(EIO))
    }

    /// Flushes fail with EIO, and the writes since the last one are lost, as on a disk that drops its cache.
    pub fn lost_flush() -> Self {
        Rule::new(&[AccessKind::Flush], Effect::Lost(EIO))
    }

    /// The file ends at byte `end`, whatever length it reports.
    pub fn ends_at(end: u64) -> Self {
        Rule { within: end..u64::MAX, ..Rule::new(&[AccessKind::Read], Effect::Eof) }
    }

    /// One bit of the byte at `at` is read wrongly.
    pub fn rot(at: u64, bit: u8) -> Self {
        Rule { within: at..at.saturating_add(1), ..Rule::new(&[AccessKind::Read], Effect::Flip(at, bit)) }
    }

    /// Writes fail with ENOSPC.
    pub fn full() -> Self {
        Rule::new(&[AccessKind::Write], Effect::Errno(ENOSPC))
    }

    /// Everything fails with ENODEV.
    pub fn gone() -> Self {
        Rule::new(
            &[
                AccessKind::Read,
                AccessKind::Write,
                AccessKind::Flush,
                AccessKind::Discard,
                AccessKind::Resize,
            ],
            Effect::Errno(ENODEV),
        )
    }

    /// Only accesses that touch these bytes are hit.
    #[must_use]
    pub fn at(self, bytes: Range<u64>) -> Self {
        Rule { within: bytes, ..self }
    }

    /// Skips the first `skip` accesses that would be hit.
    #[must_use]
    pub fn after(self, skip: u64) -> Self {
        Rule { skip, ..self }
    }

    /// Limits the rule to so many accesses; later ones succeed.
    #[must_use]
    pub fn times(self, times: u64) -> Self {
        Rule { times, ..self }
    }

    /// Returns true where this rule applies to the access, and counts the access.
    pub(super) fn hits(&mut self, access: &Access) -> bool {
        let touches = access.kind == AccessKind::Flush
            || access.bytes.start < self.within.end && access.bytes.end > self.within.start;
        if !self.kinds.contains(&access.kind) || !touches || self.times == 0 {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        self.times -= 1;
        true
    }
}
