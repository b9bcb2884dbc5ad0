//! Slices of file data in place: frames that stay in memory, and that no thread changes.
//!
//! A Rust slice promises that nobody writes its bytes while it lives. Two rules keep that promise for the
//! frames of blocks of file data:
//!
//! 1. The store is [for reading](Store::for_reading), from its construction on. No transaction can lock an
//!    ownership record there, write data, drop them or change the kind of a block. So the bytes of a resident
//!    block of file data change in one way only: the block is evicted, and fetched again.
//! 2. A pinned block is not evicted. A thread that pins a block counts the pin first and loads the block's
//!    state then; the cache claims a block first and loads its pins then. All four are sequentially
//!    consistent, so at least one of both sees the other, and gives way.
//!
//! Only these threads write frames of a store for reading: one that fetches a block, which is not file data
//! before that has ended, and the cache when it releases a frame, which it has claimed. The frames are
//! private memory of this process. A program that changes or cuts off the image changes none of them; the
//! next fetch fails its checksum, or at the end of the file.

use crate::memory::state::{self, DATA};
use crate::store::Store;
use crate::store::pin_table::PinTable;
use crate::vocabulary::fault::Fault;
use lanefs_format::BLOCK;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The result of [`Pins::pin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinned {
    /// The data are pinned: [`Pins::bytes`] has them under this number.
    At(u32),
    /// Some of the blocks are not resident.
    Absent,
    /// As many blocks are pinned as the store allows.
    Full,
    /// The data are not one range of memory.
    Split,
}

/// File data that stay in memory and do not change as long as this value lives. It keeps the owner of the
/// store alive.
pub struct Pins<O> {
    /// Below the owner, which is dropped after it.
    pinned: PinnedRanges,
    _owner: Arc<O>,
}

/// Ranges of bytes whose blocks this value has pinned. Its owner keeps the store alive.
struct PinnedRanges {
    store: NonNull<Store>,
    /// Position and length in bytes of each.
    ranges: Vec<(u64, u64)>,
    /// Blocks that are reserved beyond those of the ranges.
    spare: u64,
}

// SAFETY: the value accesses the store by shared references only, and a store is `Sync`.
unsafe impl Send for PinnedRanges {}
// SAFETY: as above.
unsafe impl Sync for PinnedRanges {}

impl PinnedRanges {
    fn store(&self) -> &Store {
        // SAFETY: `Pins` keeps the owner of the store, and nobody has exclusive access to the store
        // meanwhile: see `Pins::new`.
        unsafe { self.store.as_ref() }
    }

    fn table(&self) -> &PinTable {
        self.store().pins.as_ref().expect("`Pins::new` has checked it")
    }

    /// Pins all of these blocks, or, where one is not resident, none.
    fn try_pin(&self, blocks: Range<u64>) -> Result<bool, Fault> {
        let (store, table) = (self.store(), self.table());
        for index in blocks.clone() {
            let before = table.count(index).fetch_add(1, Ordering::SeqCst);
            debug_assert!(before < u32::MAX, "more pins than are ever reserved");
            let state = store.state_in_order(index);
            if state == DATA {
                continue;
            }
            if state::content(state) != Some(DATA) {
                self.unpin(blocks.start..index + 1);
                return match store.no_data(index * BLOCK, state, 1, 1) {
                    Fault::Miss { .. } => Ok(false),
                    fault => Err(fault),
                };
            }
            store.use_again(index, state);
        }
        Ok(true)
    }

    fn unpin(&self, blocks: Range<u64>) {
        for index in blocks {
            let before = self.table().count(index).fetch_sub(1, Ordering::SeqCst);
            debug_assert!(before > 0, "block {index} was not pinned");
        }
    }
}

impl Drop for PinnedRanges {
    fn drop(&mut self) {
        let ranges = std::mem::take(&mut self.ranges);
        let mut blocks = self.spare;
        for (at, len) in ranges {
            let range = blocks_of(at, len);
            blocks += range.end - range.start;
            self.unpin(range);
        }
        self.table().give_back(blocks);
    }
}

fn blocks_of(at: u64, len: u64) -> Range<u64> {
    at / BLOCK..(at + len).div_ceil(BLOCK)
}

impl<O: Send + Sync + 'static> Pins<O> {
    /// Returns an empty list of pins in the store that is part of `owner`. Returns `None` for a store that is
    /// not [for reading](Store::for_reading).
    pub fn new(owner: Arc<O>, store: fn(&O) -> &Store) -> Option<Self> {
        // The function serves every lifetime, so this reference is good as long as `owner` is shared, which
        // the value that keeps it makes sure of. It is called once: later calls may give another store.
        let store = store(&owner);
        store.pins.as_ref()?;
        let pinned = PinnedRanges { store: store.into(), ranges: Vec::new(), spare: 0 };
        Some(Pins { pinned, _owner: owner })
    }

    /// Pins file data.
    ///
    /// # Errors
    /// [`Fault::Damaged`] for a range outside the volume, and for blocks of metadata.
    pub fn pin(&mut self, at: u64, len: u64) -> Result<Pinned, Fault> {
        self.pinned.store().inside(at, usize::try_from(len).unwrap_or(usize::MAX))?;
        let blocks = blocks_of(at, len);
        let count = blocks.end - blocks.start;
        let number = u32::try_from(self.pinned.ranges.len()).ok().filter(|number| *number < u32::MAX);
        let Some(number) = number else { return Ok(Pinned::Full) };
        if !self.pinned.store().frames.is_one_range(at, len) {
            return Ok(Pinned::Split);
        }
        // Some slots are left for sections without pins.
        if self.pinned.store().frames.are_short() {
            return Ok(Pinned::Full);
        }
        if self.pinned.spare < count {
            self.pinned.spare += self.pinned.table().reserve(count - self.pinned.spare);
        }
        if self.pinned.spare < count {
            return Ok(Pinned::Full);
        }
        if !self.pinned.try_pin(blocks)? {
            return Ok(Pinned::Absent);
        }
        self.pinned.spare -= count;
        self.pinned.ranges.push((at, len));
        Ok(Pinned::At(number))
    }

    /// Returns the file data that were pinned under this number.
    #[inline]
    pub fn bytes(&self, number: u32) -> Option<&[u8]> {
        let (at, len) = *self.pinned.ranges.get(number as usize)?;
        // SAFETY: the range is inside the volume, and `pin` has checked that its frames lie one after the
        // other in memory, which lives as long as the store, and so as `self`. They stay where they are: a
        // slot is not taken away while a block in it is resident, and pinned blocks are. The fetches of its
        // blocks happened before their states were loaded. Nobody writes them as long as they are pinned, as
        // the module's text argues, and they are as long as `self` is borrowed.
        Some(unsafe {
            std::slice::from_raw_parts(self.pinned.store().frames.address(at).as_ptr(), len as usize)
        })
    }

    /// Moves all pins of `other`, which is of the same store, after those of this list. Returns the number
    /// that the first one has now.
    ///
    /// # Panics
    /// For pins of another store, and for more than 2^32 - 1 pins.
    pub fn append(&mut self, mut other: Pins<O>) -> u32 {
        assert!(self.pinned.store == other.pinned.store, "pins of two stores");
        let first = self.pinned.ranges.len();
        assert!(first + other.pinned.ranges.len() < u32::MAX as usize, "too many pins");
        self.pinned.ranges.append(&mut other.pinned.ranges);
        self.pinned.spare += std::mem::take(&mut other.pinned.spare);
        first as u32
    }

    /// Gives back blocks that were reserved for further pins.
    pub fn trim(&mut self) {
        let spare = std::mem::take(&mut self.pinned.spare);
        self.pinned.table().give_back(spare);
    }
}

#[cfg(all(test, not(feature = "_shuttle")))]
mod tests {
    use super::*;
    use crate::device::MemoryDevice;
    use crate::store::Backing;
    use crate::transaction::reader::Reader;
    use crate::transaction::tx::Tx;
    use crate::vocabulary::range::BlockRange;
    use lanefs_format::{Checksummer, Code, InodeSize};

    /// A whole volume, and the blocks that Miri has time for.
    const BLOCKS: u64 = 1024;
    const STEP: usize = if cfg!(miri) { 450 } else { 50 };
    const TOGETHER: u32 = if cfg!(miri) { 4 } else { 50 };
    const BUDGET: u64 = 256;

    fn store() -> Arc<Store> {
        let mut bytes = vec![0; (BLOCKS * BLOCK) as usize];
        bytes.chunks_exact_mut(BLOCK as usize).zip(0..).for_each(|(block, index)| block.fill(index as u8));
        let device = Backing::Device(Box::new(MemoryDevice::new(bytes)));
        let sums = Checksummer::new(9);
        let store = Store::new(device, BLOCKS * BLOCK, BLOCKS * BLOCK, BUDGET * BLOCK, sums, InodeSize::B256);
        Arc::new(store.expect("address space").for_reading().expect("address space"))
    }

    fn fetch(store: &Store, first: u64, count: u32) {
        store.read_ahead(BlockRange { first, count });
    }

    fn pins(store: &Arc<Store>) -> Pins<Store> {
        Pins::new(Arc::clone(store), |store| store).expect("a store for reading")
    }

    #[test]
    fn pinned_blocks_stay_and_the_others_leave() {
        let store = store();
        fetch(&store, 10, 6);
        let mut some = pins(&store);
        let Ok(Pinned::At(number)) = some.pin(12 * BLOCK + 100, 2 * BLOCK) else { panic!("not pinned") };
        let bytes = some.bytes(number).expect("pinned");
        store.drop_clean();
        assert_eq!(store.stats().blocks_resident, 3);
        // Frames come and go around it.
        for first in (100..1000).step_by(STEP) {
            fetch(&store, first, TOGETHER);
        }
        let expected: Vec<u8> = (12 * BLOCK + 100..14 * BLOCK + 100).map(|at| (at / BLOCK) as u8).collect();
        assert!(bytes == expected, "the bytes changed");
        assert_eq!(some.pin(500 * BLOCK, 1).map(|_| ()), Ok(()));
        drop(some);
        store.drop_clean();
        assert_eq!((store.stats().blocks_resident, store.stats().blocks_pinned), (0, 0));
    }

    #[test]
    fn pins_take_half_of_the_cache_at_most() {
        let store = store();
        let (mut first, mut second) = (pins(&store), pins(&store));
        let mut number = 0;
        for index in 10..10 + BUDGET {
            fetch(&store, index, 1);
            let which = if index % 2 == 0 { &mut first } else { &mut second };
            let pinned = which.pin(index * BLOCK, 1).expect("inside");
            number += u64::from(matches!(pinned, Pinned::At(_)));
            let is_full = index >= 10 + BUDGET / 2;
            assert!(!is_full || pinned == Pinned::Full, "{index}: {pinned:?}");
        }
        assert!((BUDGET / 4..=BUDGET / 2).contains(&number), "{number}");
        first.trim();
        second.trim();
        assert_eq!(store.stats().blocks_pinned, number);
        let before = first.append(second);
        assert_eq!(u64::from(before), number.div_ceil(2));
        drop(first);
        assert_eq!(store.stats().blocks_pinned, 0);
        // A pin that finds a block absent leaves none.
        fetch(&store, 200, 100);
        let mut some = pins(&store);
        assert_eq!(some.pin(200 * BLOCK, 101 * BLOCK), Ok(Pinned::Absent));
        assert_eq!(some.pin(200 * BLOCK, (BUDGET / 2 + 1) * BLOCK), Ok(Pinned::Full));
        store.drop_clean();
        assert_eq!(store.stats().blocks_resident, 0);
    }

    #[test]
    fn pins_outside_the_volume_and_of_metadata_are_damage() {
        let store = store();
        let mut some = pins(&store);
        for (at, len) in [(BLOCKS * BLOCK, 1), (BLOCK, BLOCKS * BLOCK), (u64::MAX, 2), (0, u64::MAX), (0, 1)]
        {
            assert!(matches!(some.pin(at, len), Err(Fault::Damaged { .. })), "{len} bytes at {at}");
        }
        assert_eq!(store.stats().blocks_pinned, some.pinned.spare);
        assert!(some.bytes(0).is_none());
    }

    #[test]
    fn a_store_for_reading_takes_no_change() {
        let store = store();
        fetch(&store, 10, 4);
        let reader = Reader::writing(&store, 0);
        let mut log = crate::transaction::tx::Log::default();
        let mut tx = Tx::new(&reader, &mut log);
        let refused = Fault::Code(Code::ReadOnly);
        assert_eq!(tx.write_data(10 * BLOCK, &[1; 8], false), Err(refused));
        assert_eq!(tx.write_new_data(20 * BLOCK, &[1; 8], false), Err(refused));
        assert_eq!(tx.fresh(30 * BLOCK, lanefs_format::BlockKind::Leaf, 0).map(drop), Err(refused));
        drop(tx);
        let reader = Reader::exclusive(&store, Some(0));
        let mut tx = Tx::new(&reader, &mut log);
        tx.retire(11 * BLOCK, lanefs_format::BlockKind::Leaf);
        tx.vacate(11 * BLOCK);
        assert_eq!(tx.validate(), Err(refused));
        drop(tx);
        store.drop_data(10, 4);
        assert_eq!(store.stats().blocks_resident, 4);
        let mut bytes = [0; 8];
        Reader::reading(&store).read_data(10 * BLOCK, &mut bytes, 1).expect("resident");
        assert_eq!(bytes, [10; 8]);
    }

    #[test]
    fn only_a_store_for_reading_has_pins() {
        let sums = Checksummer::new(9);
        for backing in [Backing::Memory, Backing::Device(Box::new(MemoryDevice::new(vec![0; 1 << 20])))] {
            let store = Store::new(backing, 1 << 20, 1 << 20, 1 << 20, sums, InodeSize::B256);
            assert!(Pins::new(Arc::new(store.expect("address space")), |store| store).is_none());
        }
    }
}
