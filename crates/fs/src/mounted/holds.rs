//! The table of holders: the inodes that are held, and the number of their holders. It is in memory only.

use lanefs_sync::lock::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering, fence};

/// Shards of the table, so that threads seldom contend.
const SHARDS: usize = 64;

/// State of an inode that is held.
#[derive(Clone, Copy, Default)]
struct HeldInode {
    times: u64,
    /// The inode may have lost its last name since. Never false where it has.
    perhaps_nameless: bool,
    /// The inode was made without a name, and may get one.
    may_be_linked: bool,
}

/// The holders of all inodes.
pub(crate) struct Holds {
    shards: [Shard; SHARDS],
}

impl Default for Holds {
    fn default() -> Self {
        Holds { shards: std::array::from_fn(|_| Shard::default()) }
    }
}

#[derive(Default)]
#[repr(align(128))]
struct Shard {
    /// Number of inodes in the map, for a check without the lock.
    count: AtomicUsize,
    map: Mutex<HashMap<u64, HeldInode, BuildHasherDefault<Spread>>>,
}

/// Inode numbers are dense, and those of one shard differ in their upper bits: one multiplication spreads
/// them.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Holds {
    fn shard(&self, ino: u64) -> &Shard {
        &self.shards[ino as usize % SHARDS]
    }

    /// Adds a holder.
    pub(crate) fn add(&self, ino: u64) {
        let shard = self.shard(ino);
        let mut map = shard.map.lock();
        map.entry(ino).or_default().times += 1;
        shard.count.store(map.len(), Ordering::Relaxed);
        drop(map);
        // The count is visible before the caller reads the inode.
        fence(Ordering::SeqCst);
    }

    /// Removes holders. True where none is left and the inode may have no name.
    pub(crate) fn remove(&self, ino: u64, times: u64) -> bool {
        let shard = self.shard(ino);
        let mut map = shard.map.lock();
        let Some(held) = map.get_mut(&ino) else { return false };
        debug_assert!(held.times > 0, "inode {ino} is in the table without a holder");
        held.times = held.times.saturating_sub(times);
        if held.times > 0 {
            return false;
        }
        let perhaps_nameless = held.perhaps_nameless;
        map.remove(&ino);
        shard.count.store(map.len(), Ordering::Relaxed);
        drop(map);
        fence(Ordering::SeqCst);
        perhaps_nameless
    }

    fn with<T: Default>(&self, ino: u64, look: impl FnOnce(&mut HeldInode) -> T) -> T {
        fence(Ordering::SeqCst);
        let shard = self.shard(ino);
        if shard.count.load(Ordering::Relaxed) == 0 {
            return T::default();
        }
        shard.map.lock().get_mut(&ino).map(look).unwrap_or_default()
    }

    pub(crate) fn has(&self, ino: u64) -> bool {
        self.with(ino, |_| true)
    }

    /// True where the inode is held, and must live on without a name. The caller has locked the inode's
    /// ownership record.
    pub(crate) fn keep_nameless(&self, ino: u64) -> bool {
        self.with(ino, |held| {
            held.perhaps_nameless = true;
            true
        })
    }

    /// True for an inode that was made without a name and never had one.
    pub(crate) fn may_be_linked(&self, ino: u64) -> bool {
        self.with(ino, |held| held.may_be_linked)
    }

    /// Allows a name for an inode that was made without one.
    pub(crate) fn allow_link(&self, ino: u64) {
        self.with(ino, |held| held.may_be_linked = true);
    }

    /// Ends the permission of [`allow_link`](Self::allow_link): the inode has a name.
    pub(crate) fn forbid_link(&self, ino: u64) {
        self.with(ino, |held| held.may_be_linked = false);
    }

    /// Returns the inodes that are held, in no order.
    pub(crate) fn list(&self) -> Vec<u64> {
        self.shards.iter().flat_map(|shard| shard.map.lock().keys().copied().collect::<Vec<_>>()).collect()
    }

    /// True while no inode is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.map.lock().is_empty())
    }

    /// Removes all holders.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            shard.map.lock().clear();
            shard.count.store(0, Ordering::Relaxed);
        }
    }
}
