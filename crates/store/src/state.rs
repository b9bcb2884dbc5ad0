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
    is_content(state).then_some(state & KIND)
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

/// True where a block of state `from` may become one of state `to`.
///
/// ```text
///   ABSENT, FREE ──> FETCHING ──> data, metadata ──> EVICTING ──> ABSENT, FREE
///        │               │        │        ^  ^          │
///        │               └─> ABSENT        │  └──────────┘ (claimed in vain)
///        └─> metadata ─────────────────────┘
/// ```
///
/// A transaction takes any block that is not [`FIXED`] out of use (`RETIRED`, then `FREE`), and its undo puts the old state back.
pub(crate) const fn is_legal(from: u8, to: u8) -> bool {
    let from_kind = from & KIND;
    match (is_content(from), is_content(to)) {
        // More or less dear, or taken into use after it was read ahead as data.
        (true, true) => from_kind == (to & KIND) || from_kind == DATA,
        (true, false) => !matches!(to, FETCHING | FIXED),
        (false, true) => match from {
            ABSENT | FREE => (to & KIND) != DATA,
            FIXED => false,
            _ => true,
        },
        (false, false) => match (from, to) {
            (ABSENT | FREE, FETCHING) | (FETCHING | EVICTING, ABSENT) | (EVICTING, FREE) => true,
            // At mkfs and when a volume is opened; a journal that moves leaves its old blocks free.
            (ABSENT | FIXED, FIXED) | (FIXED, FREE) | (FREE, FIXED) => true,
            (ABSENT | FETCHING | EVICTING | FREE | RETIRED, RETIRED | FREE | ABSENT) => true,
            _ => false,
        },
    }
}

#[inline(always)]
const fn is_content(state: u8) -> bool {
    !matches!(state, ABSENT | FETCHING | EVICTING | RETIRED | FREE | FIXED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_becomes_resident_and_leaves_by_way_of_a_claim() {
        let inodes = BlockKind::Inodes as u8;
        let tree = BlockKind::Tree as u8;
        for content in [DATA | ONCE, DATA | FRESH | MARKER, inodes | FRESH, tree] {
            assert!(
                is_legal(FETCHING, content) && is_legal(content, EVICTING) && is_legal(EVICTING, content)
            );
            assert!(!is_legal(content, FETCHING) && !is_legal(content, FIXED) && !is_legal(FIXED, content));
        }
        assert!(is_legal(ABSENT, FETCHING) && is_legal(EVICTING, ABSENT) && is_legal(ABSENT, inodes));
        assert!(is_legal(DATA | FRESH, inodes) && !is_legal(inodes, DATA) && !is_legal(inodes, tree));
        assert!(!is_legal(ABSENT, DATA) && !is_legal(FREE, DATA) && !is_legal(ABSENT, EVICTING));
        assert!(
            !is_legal(FETCHING, EVICTING) && !is_legal(FETCHING, FETCHING) && !is_legal(EVICTING, FETCHING)
        );
        assert!(!is_legal(RETIRED, FETCHING) && !is_legal(RETIRED, EVICTING) && !is_legal(FIXED, RETIRED));
    }
}
