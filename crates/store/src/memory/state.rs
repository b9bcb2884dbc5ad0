//! One byte of state for each block: whether it is resident, with which content, and how recently it was
//! used.

use lanefs_format::BlockKind;

/// Not resident.
pub(crate) const ABSENT: u8 = 0;
/// Resident file data. (Resident metadata has the number of its [`BlockKind`].)
pub(crate) const DATA: u8 = 0x10;
/// One thread fetches the block, or fills it.
pub(crate) const FETCHING: u8 = 0x7e;
/// Claimed for eviction.
pub(crate) const EVICTING: u8 = 0x7d;
/// Freed since the volume was opened. (Other free blocks are [`ABSENT`].) It is not fetched for a stale
/// attempt.
pub(crate) const FREE: u8 = 0x7c;
/// Taken out of use by a transaction that may yet be rolled back.
pub(crate) const RETIRED: u8 = 0x7f;
/// A superblock or a block of the journal, which is never resident. A damaged bitmap or file map may name it;
/// it is neither allocated nor shown as data.
pub(crate) const FIXED: u8 = 0x7b;

/// Flag: fetched and not used yet.
pub(crate) const FRESH: u8 = 0x20;
/// Flag: used once since it was fetched, or since the cache's hand passed.
pub(crate) const ONCE: u8 = 0x40;
/// Both flags: a neighbour, fetched together with a block that was missed, and not used yet.
pub(crate) const UNASKED: u8 = FRESH | ONCE;
/// Flag: the first use of this block of file data requests the next window of readahead.
pub(crate) const MARKER: u8 = 0x80;
const KIND: u8 = 0x1f;

/// Returns the content of a resident block: the number of its kind, or [`DATA`].
#[inline(always)]
pub(crate) fn content(state: u8) -> Option<u8> {
    is_content(state).then_some(state & KIND)
}

/// Returns the kind of a resident metadata block.
pub(crate) fn kind(state: u8) -> Option<BlockKind> {
    content(state).and_then(BlockKind::from_number)
}

/// Returns the state after one more use; it is the same for a block in steady use.
pub(crate) fn used(state: u8) -> u8 {
    if state & FRESH != 0 { state & KIND | ONCE } else { state & KIND }
}

/// Returns true for a resident block that came as a neighbour and was not used yet.
pub(crate) fn is_unasked(state: u8) -> bool {
    is_content(state) && state & UNASKED == UNASKED
}

/// Returns true where the cache should rather evict this block than one in steady use.
pub(crate) fn is_cold(state: u8) -> bool {
    state & (FRESH | ONCE) != 0
}

/// Returns true where a block may change from state `from` to state `to`.
///
/// ```text
///   ABSENT, FREE ──> FETCHING ──> data, metadata ──> EVICTING ──> ABSENT, FREE
///        │               │        │        ^  ^          │
///        │               └─> ABSENT        │  └──────────┘ (the claim failed)
///        └─> metadata ─────────────────────┘
/// ```
///
/// A transaction takes any block that is not [`FIXED`] out of use (`RETIRED`, then `FREE`), and its undo puts
/// the old state back.
pub(crate) const fn is_legal(from: u8, to: u8) -> bool {
    let from_kind = from & KIND;
    match (is_content(from), is_content(to)) {
        // Other flags, or allocated as metadata after readahead fetched it as data.
        (true, true) => from_kind == (to & KIND) || from_kind == DATA,
        (true, false) => !matches!(to, FETCHING | FIXED),
        (false, true) => match from {
            ABSENT | FREE => (to & KIND) != DATA,
            FIXED => false,
            _ => true,
        },
        (false, false) => match (from, to) {
            (ABSENT | FREE, FETCHING) | (FETCHING | EVICTING, ABSENT) | (EVICTING, FREE) => true,
            // At mkfs and when a volume is opened; a journal that moves gives its old blocks back.
            (ABSENT | FIXED, FIXED) | (FIXED, ABSENT) | (FREE, FIXED) => true,
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
    fn a_block_becomes_resident_and_absent_by_way_of_a_claim() {
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

    #[test]
    fn a_neighbour_is_one_until_it_is_used() {
        for kind in [DATA, DATA | MARKER, BlockKind::Inodes as u8] {
            let neighbour = kind | UNASKED;
            assert_eq!(content(neighbour), Some(kind & KIND));
            assert!(is_unasked(neighbour) && is_cold(neighbour));
            for other in [used(neighbour), used(used(neighbour)), kind | FRESH, kind | ONCE] {
                assert!(!is_unasked(other), "{other:#x}");
            }
        }
        assert!(![FETCHING, EVICTING, FREE, RETIRED, FIXED, ABSENT].into_iter().any(is_unasked));
    }
}
