//! One byte of state for each block: whether it is resident, as what, and how dear it is.

use lanefs_format::BlockKind;

/// Not resident.
pub(crate) const ABSENT: u8 = 0;
/// Resident file data. (Metadata has the number of its [`BlockKind`].)
pub(crate) const DATA: u8 = 0x10;
/// Being read from the device, by one thread.
pub(crate) const FETCHING: u8 = 0x7e;
/// On its way out of memory.
pub(crate) const EVICTING: u8 = 0x7d;
/// Known to be in nobody's use. (What is free and was not in use since the volume was opened is [`ABSENT`].) It is not
/// fetched for a run that comes too late.
pub(crate) const FREE: u8 = 0x7c;
/// A transaction took it out of use and may yet be taken back.
pub(crate) const RETIRED: u8 = 0x7f;
/// A superblock or a block of the journal, which are read and written past the resident blocks. A damaged bitmap or file map
/// may name it; it is neither taken into use nor shown as data.
pub(crate) const FIXED: u8 = 0x7b;

/// Fetched and not used yet.
pub(crate) const FRESH: u8 = 0x20;
/// Used once since it was fetched, or since the cache last came by.
pub(crate) const ONCE: u8 = 0x40;
/// Whoever uses this block first has the next ones read ahead.
pub(crate) const MARKER: u8 = 0x80;
const KIND: u8 = 0x1f;

/// What a resident block is: the number of its kind, or [`DATA`].
#[inline(always)]
pub(crate) fn content(state: u8) -> Option<u8> {
    match state {
        ABSENT | FETCHING | EVICTING | RETIRED | FREE | FIXED => None,
        state => Some(state & KIND),
    }
}

/// The metadata that a resident block holds.
pub(crate) fn kind(state: u8) -> Option<BlockKind> {
    content(state).and_then(BlockKind::from_number)
}

/// The state after one more use; the same for a block that is dear already.
pub(crate) fn used(state: u8) -> u8 {
    if state & FRESH != 0 { state & KIND | ONCE } else { state & KIND }
}

/// True where the cache should rather let this block go than one in steady use.
pub(crate) fn is_cold(state: u8) -> bool {
    state & (FRESH | ONCE) != 0
}
