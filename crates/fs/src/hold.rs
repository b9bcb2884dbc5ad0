//! Inodes that are held: they outlive their last name until the last holder lets go.
//!
//! Holders are counted in memory only. A change that takes an inode's last name away decides once it holds the inode's record:
//! is somebody counted then, it [lists](crate::orphans) the inode, else it frees it. Who wants to hold an inode counts himself
//! first, and then looks at the inode in a run that notes its record. So of the two one sees the other: the change sees the
//! count, or the run sees the change, waits for its end, and finds the inode gone.
//!
//! Who lets go the last looks in the same way: he is uncounted first, and looks then whether the inode has a name.

use crate::inode::Node;
use crate::{Attr, Caller, Ino, Result, Volume, namespace, ops, orphans};
use lanefs_format::inode as f;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering, fence};

/// Parts of the table, so that threads seldom meet.
const SHARDS: usize = 64;

/// What is known of an inode that is held.
#[derive(Clone, Copy, Default)]
struct Held {
    times: u64,
    /// It may have lost its last name since. Never false where it has.
    perhaps_nameless: bool,
    /// It was made without a name, and may get one.
    may_be_linked: bool,
}

/// Who holds what, by inode number.
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
    /// Inodes in the map, for those who only want to know that there is none.
    count: AtomicUsize,
    map: Mutex<HashMap<u64, Held, BuildHasherDefault<Spread>>>,
}

/// Inode numbers are dense, and those of one shard differ in their upper bits: one multiplication spreads them.
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

    /// Counts one holder more.
    fn add(&self, ino: u64) {
        let shard = self.shard(ino);
        let mut map = shard.map.lock();
        map.entry(ino).or_default().times += 1;
        shard.count.store(map.len(), Ordering::Relaxed);
        drop(map);
        // Counted first, and looked at the inode then.
        fence(Ordering::SeqCst);
    }

    /// Takes holders away. True where none is left and the inode may have no name.
    fn remove(&self, ino: u64, times: u64) -> bool {
        let shard = self.shard(ino);
        let mut map = shard.map.lock();
        let Some(held) = map.get_mut(&ino) else { return false };
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

    fn with<T: Default>(&self, ino: u64, look: impl FnOnce(&mut Held) -> T) -> T {
        fence(Ordering::SeqCst);
        let shard = self.shard(ino);
        if shard.count.load(Ordering::Relaxed) == 0 {
            return T::default();
        }
        shard.map.lock().get_mut(&ino).map(look).unwrap_or_default()
    }

    fn has(&self, ino: u64) -> bool {
        self.with(ino, |_| true)
    }

    /// True where the inode is held, and must live on without a name. The caller holds the inode's record.
    pub(crate) fn keeps(&self, ino: u64) -> bool {
        self.with(ino, |held| {
            held.perhaps_nameless = true;
            true
        })
    }

    /// True for an inode that was made without a name and never had one.
    pub(crate) fn may_be_linked(&self, ino: u64) -> bool {
        self.with(ino, |held| held.may_be_linked)
    }

    /// An inode that was made without a name has one.
    pub(crate) fn was_linked(&self, ino: u64) {
        self.with(ino, |held| held.may_be_linked = false);
    }

    /// Nobody holds anything any more.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            shard.map.lock().clear();
            shard.count.store(0, Ordering::Relaxed);
        }
    }
}

/// Counts holders while an operation's runs go on: one that does not count may have found another inode than the last.
struct Counting<'v> {
    volume: &'v Volume,
    /// In the order in which they were found; only the last is what the operation came to.
    counted: SmallVec<[u64; 2]>,
}

impl<'v> Counting<'v> {
    fn new(volume: &'v Volume) -> Self {
        Counting { volume, counted: SmallVec::new() }
    }

    /// This run is about inode `ino`.
    fn count(&mut self, ino: u64) {
        if self.counted.last() != Some(&ino) {
            self.volume.shared.holds.add(ino);
            self.counted.push(ino);
        }
    }

    /// The last one stays counted.
    fn keep(mut self, attr: Attr) -> Attr {
        self.counted.pop();
        if attr.links == 0 {
            self.volume.shared.holds.keeps(attr.ino.0);
        }
        attr
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        for ino in std::mem::take(&mut self.counted) {
            // Only a damaged volume, or a device, fails here, and the next open tries again.
            let _ = self.volume.release(Ino(ino), 1);
        }
    }
}

impl Volume {
    /// True while somebody holds the inode.
    pub fn is_held(&self, ino: Ino) -> bool {
        self.shared.holds.has(ino.0)
    }

    /// Holds an inode: it lives on without a name, as a file that is open does, until it is [released](Self::release). Holders
    /// are counted; a process that ends holds nothing any more, and the next open of the volume frees what it left.
    ///
    /// Who made or looked up an inode and holds it by number compares [`Attr::generation`], or takes
    /// [`lookup_held`](Self::lookup_held).
    ///
    /// # Errors
    /// [`Code::StaleInode`](crate::Code::StaleInode) when it is not in use.
    pub fn hold(&self, ino: Ino) -> Result<Attr> {
        let mut counting = Counting::new(self);
        counting.count(ino.0);
        let attr = self.view(|core| ops::getattr(core, ino))?;
        Ok(counting.keep(attr))
    }

    /// Looks a name up and holds what it names, in one step: no other inode can have taken its number in between.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup).
    pub fn lookup_held(&self, who: &Caller, dir: Ino, name: &[u8]) -> Result<Attr> {
        let mut counting = Counting::new(self);
        let attr = self.view(|core| {
            let ino = namespace::lookup(core, who, dir.0, name)?.0;
            counting.count(ino);
            Node::load(core, ino)?.attr()
        })?;
        Ok(counting.keep(attr))
    }

    /// Takes `times` holders of an inode away. With the last one an inode without a name is freed.
    ///
    /// # Errors
    /// Those of a change. The inode is not held any more then, and the next open of the volume frees it.
    pub fn release(&self, ino: Ino, times: u64) -> Result<()> {
        if !self.shared.holds.remove(ino.0, times) {
            return Ok(());
        }
        // Nearly always it still has a name, or got another.
        let links = self.view(|core| Ok(Node::load(core, ino.0)?.view.get(f::LINKS)));
        if !links.is_ok_and(|links| links == 0) || self.access() == crate::Access::Read {
            return Ok(());
        }
        self.change(|edit| orphans::let_go(edit, ino.0))
    }

    /// Makes a regular file without a name (`O_TMPFILE`), held once. [`link`](Self::link) may give it a name. Owner and group
    /// are those of a file made in `dir`. `perm`: the low 12 bits of a mode.
    ///
    /// # Errors
    /// As [`create_file`](Self::create_file).
    pub fn create_unnamed(&self, who: &Caller, dir: Ino, perm: u16) -> Result<Attr> {
        let mut counting = Counting::new(self);
        let attr = self.change(|edit| {
            let node = namespace::create_unnamed(edit, who, dir.0, perm)?;
            counting.count(node.ino);
            node.attr()
        })?;
        self.shared.holds.with(attr.ino.0, |held| held.may_be_linked = true);
        Ok(counting.keep(attr))
    }
}
