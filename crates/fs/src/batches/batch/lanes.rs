//! Lookups in flight: each is a small state machine that names the cache line that it needs next, has the
//! processor fetch it, and lets the others go on meanwhile.

use super::asked::Asked;
use super::hash::hash_all;
use super::prefixes::{NONE, Prefixes, is_plain};
use super::{BLOCK_OF_PATHS, LANES};
use crate::attempt::Core;
use crate::files::inode::Inode;
use crate::mounted::dir_table::{Known, TableView};
use crate::mounted::moves::MoveEpoch;
use crate::names::dir::{self, Dentry, Name};
use crate::names::resolve::Start;
use crate::vocabulary::columns::Rows;
use crate::vocabulary::error::Outcome;
use crate::vocabulary::name_set::NamesUnder;
use crate::vocabulary::types::Ino;
use lanefs_format::dir::entry as e;
use lanefs_format::{BlockKind, Code, DirRoot, FileKind, UNIT, inode as f};
use lanefs_store::{Fault, Want};

/// One lookup in flight.
#[derive(Clone, Copy)]
struct Lane {
    /// Number of the path in its block.
    path: u32,
    /// Next component, and the end of the path's.
    next: u32,
    end: u32,
    /// The prefix that the walk learns about, or [`NONE`].
    prefix: u32,
    kind: FileKind,
    /// The inode reached so far.
    ino: u64,
    /// Position of the block or entry that is prefetched.
    at: u64,
}

/// Lookups by the kind of line that they wait for. All of a kind advance together: the processor sees the
/// same branches again and again, and fetches all their lines at the same time.
#[derive(Default)]
struct Lanes {
    /// The inode of the directory in which the next component is looked up.
    directories: Vec<Lane>,
    /// A bucket of a region index block.
    buckets: Vec<Lane>,
    /// An entry that is probably the right one.
    entries: Vec<Lane>,
    /// The inode that was found, for its attributes.
    found: Vec<Lane>,
}

/// A block of paths, split and hashed, and what is known of each path. Its memory serves block after block.
pub(super) struct LookupBatch<'s, 'p> {
    start: &'s Start<'s>,
    attributes: bool,
    table: Option<TableView<'s>>,
    prefixes: Prefixes<'p>,
    /// The directories of the batch's list that valid attempts have found, by their numbers; 0 for others.
    /// They hold in this epoch.
    directories: Vec<u64>,
    epoch: Option<MoveEpoch>,
    names: Vec<&'p [u8]>,
    hashes: Vec<u32>,
    /// By path: whether it names an inode; `None` while that is open.
    is_found: Vec<Option<bool>>,
    misses: Vec<(u64, Want)>,
}

/// The receiver of the answers, and the row of the block's first path.
struct Sink<'r, R: ?Sized> {
    rows: &'r mut R,
    first: usize,
}

impl<'s, 'p> LookupBatch<'s, 'p> {
    pub(super) fn new(start: &'s Start<'s>, attributes: bool) -> Self {
        LookupBatch {
            start,
            attributes,
            table: None,
            prefixes: Prefixes::default(),
            directories: Vec::new(),
            epoch: None,
            names: Vec::new(),
            hashes: Vec::new(),
            is_found: Vec::with_capacity(BLOCK_OF_PATHS),
            misses: Vec::new(),
        }
    }

    pub(super) fn start(&self) -> &'s Start<'s> {
        self.start
    }

    /// Tells whether a path of the block names an inode; `None` where it must be resolved by itself.
    #[inline(always)]
    pub(super) fn is_found(&self, path: usize) -> Option<bool> {
        self.is_found.get(path).copied().flatten()
    }

    /// Discards all answers: the attempt was not valid.
    pub(super) fn discard(&mut self) {
        self.is_found.fill(None);
        self.prefixes.0.iter_mut().for_each(|prefix| prefix.learned = None);
    }

    /// Keeps the directories that a valid attempt has found, and tells the table what its walks have learned.
    pub(super) fn learn(&mut self, table: &TableView<'_>) {
        for (number, dir) in self.prefixes.0.iter().filter_map(|prefix| prefix.resolved()) {
            if self.directories.len() <= number {
                self.directories.resize(number + 1, 0);
            }
            self.directories[number] = dir;
        }
        let mut facts = self.prefixes.0.iter().filter_map(|prefix| prefix.fact()).peekable();
        if facts.peek().is_some() {
            table.learn(facts);
        }
    }

    /// Counts the paths whose directory the table knew, and those that were walked.
    pub(super) fn probes(&self) -> (u64, u64) {
        let sum = |is_known: bool| {
            let some = self.prefixes.0.iter().filter(|prefix| prefix.is_known() == is_known);
            some.map(|prefix| u64::from(prefix.paths)).sum()
        };
        (sum(true), sum(false))
    }

    /// Resolves the plain paths of a block; the others stay open.
    pub(super) fn resolve(
        &mut self,
        core: &Core<'_>,
        table: Option<TableView<'s>>,
        asked: Asked<'p>,
        first: usize,
        rows: &mut (impl Rows + ?Sized),
    ) {
        self.table = table;
        let epoch = table.map(|table| table.epoch());
        if self.epoch != epoch {
            self.directories.clear();
            self.epoch = epoch;
        }
        self.prefixes.0.clear();
        self.names.clear();
        self.hashes.clear();
        self.is_found.clear();
        self.is_found.resize(asked.len(), None);
        for start in [self.start.base, self.start.root] {
            let done = Inode::directory(core, start).map(|_| ());
            if done.is_err() {
                return self.note_miss(done);
            }
        }
        let waiting = self.split(core, asked);
        hash_all(core.seed, &self.names, &mut self.hashes);
        debug_assert_eq!(self.names.len(), self.hashes.len(), "a hash for each name");
        self.fly(core, waiting, &mut Sink { rows, first });
        if let Some(table) = &self.table {
            table.end_walks();
        }
    }

    /// Splits the plain paths into the components that must be walked, and returns a lane for each.
    fn split(&mut self, core: &Core<'_>, asked: Asked<'p>) -> Vec<Lane> {
        let mut parts = [None; BLOCK_OF_PATHS];
        match asked {
            Asked::Paths(paths) => {
                // A name with a NUL is refused without a lookup. Hardly any block has one.
                let has_nul = memchr::memchr(0, paths.text()).is_some();
                for (part, path) in parts.iter_mut().zip(paths.iter()) {
                    if !has_nul || memchr::memchr(0, path).is_none() {
                        *part = self.prefixes.split(self.start, path);
                    }
                }
            }
            Asked::Names(names) => self.split_names(names, &mut parts),
        }
        if let Some(table) = &self.table {
            self.prefixes.probe(core, table);
        }
        let mut waiting = Vec::with_capacity(asked.len());
        for (i, part) in parts.iter().enumerate().take(asked.len()) {
            let Some((prefix, name)) = *part else { continue };
            let known = self.prefixes.0.get(prefix as usize).map(|prefix| {
                let rest = prefix.key.path.get(prefix.known.bytes as usize..).unwrap_or(&[]);
                (prefix.known.dir, rest)
            });
            let (learns, ino, next) = match known {
                Some((dir, [])) => (NONE, dir, self.push(name)),
                Some((dir, rest)) => {
                    let Some(next) = self.push_all(rest) else { continue };
                    self.push(name);
                    (prefix, dir, next)
                }
                None => (NONE, asked.start_of(self.start, i), self.push(name)),
            };
            let (path, end) = (i as u32, self.names.len() as u32);
            waiting.push(Lane { path, next, end, prefix: learns, kind: FileKind::Directory, ino, at: 0 });
        }
        waiting
    }

    /// Finds the prefixes of the plain names of a block.
    fn split_names(&mut self, names: NamesUnder<'p>, parts: &mut [Option<(u32, &'p [u8])>]) {
        // Hardly any block has such a byte.
        let is_odd = memchr::memchr2(b'/', 0, names.names().text()).is_some();
        for (i, (part, name)) in parts.iter_mut().zip(names.names().iter()).enumerate() {
            let is_name = !name.is_empty() && is_plain(name);
            if !is_name || is_odd && memchr::memchr2(b'/', 0, name).is_some() {
                continue;
            }
            let Some(number) = names.number(i) else { continue };
            let resolved = self.directories.get(number).copied().filter(|dir| *dir != 0);
            let directory = names.directories().get(number).unwrap_or(&[]);
            let prefix = self.prefixes.enter(self.start, number as u32, directory, resolved);
            *part = prefix.map(|prefix| (prefix, name));
        }
    }

    /// Adds a component; returns its index.
    #[inline(always)]
    fn push(&mut self, name: &'p [u8]) -> u32 {
        self.names.push(name);
        self.names.len() as u32 - 1
    }

    /// Adds the components of a path; returns the index of the first, and `None` where one is not plain.
    #[inline(always)]
    fn push_all(&mut self, path: &'p [u8]) -> Option<u32> {
        let first = self.names.len();
        let (mut plain, mut begin) = (true, 0);
        for at in memchr::memchr_iter(b'/', path).chain([path.len()]) {
            let name = &path[begin..at];
            begin = at + 1;
            if !name.is_empty() {
                plain &= is_plain(name);
                self.names.push(name);
            }
        }
        if plain {
            return Some(first as u32);
        }
        self.names.truncate(first);
        None
    }

    /// Keeps [`LANES`] lookups in flight until all are answered or left open. A failure is not examined here:
    /// the same path fails by itself, too, and gets its code there.
    fn fly<R: Rows + ?Sized>(&mut self, core: &Core<'_>, waiting: Vec<Lane>, sink: &mut Sink<'_, R>) {
        let mut waiting = waiting.into_iter();
        let (mut lanes, mut now) = (Lanes::default(), Vec::with_capacity(LANES));
        loop {
            let flying = lanes.directories.len();
            lanes.directories.extend(waiting.by_ref().take(LANES - flying.min(LANES)));
            if lanes.directories.is_empty() {
                return;
            }
            std::mem::swap(&mut now, &mut lanes.directories);
            for lane in now.drain(..) {
                let done = self.search(core, lane, &mut lanes, sink);
                self.note_miss(done);
            }
            std::mem::swap(&mut now, &mut lanes.buckets);
            for lane in now.drain(..) {
                let done = self.look_in_bucket(core, lane, &mut lanes, sink);
                self.note_miss(done);
            }
            std::mem::swap(&mut now, &mut lanes.entries);
            for lane in now.drain(..) {
                let done = self.compare(core, lane, &mut lanes, sink);
                self.note_miss(done);
            }
            std::mem::swap(&mut now, &mut lanes.found);
            for lane in now.drain(..) {
                let done = self.finish(core, lane, sink);
                self.note_miss(done);
            }
        }
    }

    /// Notes the block that a lookup misses.
    #[inline(always)]
    fn note_miss(&mut self, done: Outcome<()>) {
        if let Err(Fault::Miss { at, want }) = done {
            self.misses.push((at, want));
        }
    }

    /// Returns the blocks that lookups missed since the last call.
    pub(super) fn take_misses(&mut self) -> Vec<(u64, Want)> {
        std::mem::take(&mut self.misses)
    }

    /// Continues with the inode of a directory: it leads to an entry, or to the index of a region.
    #[inline(always)]
    fn search<R: Rows + ?Sized>(
        &mut self,
        core: &Core<'_>,
        mut lane: Lane,
        lanes: &mut Lanes,
        sink: &mut Sink<'_, R>,
    ) -> Outcome<()> {
        if lane.prefix != NONE && lane.next + 1 == lane.end {
            self.learn_whole(&lane);
        }
        let store = &core.store;
        // The entry named a directory, so the line with the type of the inode need not be read.
        let inode = store.inode(lane.ino)?;
        let hash = self.hashes[lane.next as usize];
        lane.at = match dir::root_in(inode)? {
            DirRoot::Empty => {
                self.missing(&lane, sink);
                return Ok(());
            }
            DirRoot::Small(leaf) => {
                let size = store.inode_size();
                let slots = dir::candidates(inode, size, hash);
                if slots == 0 {
                    self.missing(&lane, sink);
                    return Ok(());
                }
                let unit = dir::unit_of(inode, size, slots.trailing_zeros());
                if unit == 0 {
                    return self.slowly(core, lane, lanes, sink);
                }
                self.await_entry(core, lane, leaf.wrapping_add(unit * UNIT), lanes);
                return Ok(());
            }
            DirRoot::Region(index) => index,
            DirRoot::Tree(root) => dir::region_of(core, root, hash)?,
        };
        store.prefetch(lane.at.wrapping_add(dir::bucket_at(hash) as u64));
        lanes.buckets.push(lane);
        Ok(())
    }

    #[inline(always)]
    fn look_in_bucket<R: Rows + ?Sized>(
        &mut self,
        core: &Core<'_>,
        lane: Lane,
        lanes: &mut Lanes,
        sink: &mut Sink<'_, R>,
    ) -> Outcome<()> {
        let hash = self.hashes[lane.next as usize];
        let view = core.store.block(lane.at, BlockKind::Index)?;
        let bucket = lanefs_format::dir::Slot::home(hash as u16);
        match dir::probe_bucket(view, bucket, hash) {
            (0, false) => self.missing(&lane, sink),
            (0, true) => return self.slowly(core, lane, lanes, sink),
            (at, _) => self.await_entry(core, lane, at, lanes),
        }
        Ok(())
    }

    /// Prefetches the lines of an entry that are compared: from its inode number to the end of the name.
    #[inline(always)]
    fn await_entry(&self, core: &Core<'_>, lane: Lane, at: u64, lanes: &mut Lanes) {
        let name_len = self.names[lane.next as usize].len();
        core.store.prefetch(at.wrapping_add(e::INODE.offset as u64));
        core.store.prefetch(at.wrapping_add((e::SIZE - 1 + name_len) as u64));
        lanes.entries.push(Lane { at, ..lane });
    }

    #[inline(always)]
    fn compare<R: Rows + ?Sized>(
        &mut self,
        core: &Core<'_>,
        lane: Lane,
        lanes: &mut Lanes,
        sink: &mut Sink<'_, R>,
    ) -> Outcome<()> {
        match Dentry::probe(core, lane.at, self.name(&lane))? {
            Some((ino, kind)) => self.enter(core, lane, ino, kind, lanes, sink),
            None => return self.slowly(core, lane, lanes, sink),
        }
        Ok(())
    }

    #[inline(always)]
    fn name(&self, lane: &Lane) -> Name<'p> {
        Name { bytes: self.names[lane.next as usize], hash: self.hashes[lane.next as usize] }
    }

    /// Searches the directory in the ordinary way, after the candidate was another name.
    #[cold]
    fn slowly<R: Rows + ?Sized>(
        &mut self,
        core: &Core<'_>,
        lane: Lane,
        lanes: &mut Lanes,
        sink: &mut Sink<'_, R>,
    ) -> Outcome<()> {
        let node = Inode::directory(core, lane.ino)?;
        match dir::find(core, &node, self.name(&lane))? {
            Some(entry) => self.enter(core, lane, entry.ino(), entry.kind()?, lanes, sink),
            None => self.missing(&lane, sink),
        }
        Ok(())
    }

    /// Continues with a component that was found.
    #[inline(always)]
    fn enter<R: Rows + ?Sized>(
        &mut self,
        core: &Core<'_>,
        lane: Lane,
        ino: u64,
        kind: FileKind,
        lanes: &mut Lanes,
        sink: &mut Sink<'_, R>,
    ) {
        let is_last = lane.next + 1 == lane.end;
        let entered = Lane { next: lane.next + 1, ino, kind, ..lane };
        let inode = ino.wrapping_mul(core.store.inode_size().bytes());
        match kind {
            // Links are followed where a path is resolved by itself.
            FileKind::Symlink if !is_last || self.start.follow => {}
            _ if is_last && !self.attributes => {
                self.is_found[lane.path as usize] = Some(true);
                sink.rows.found(sink.first + lane.path as usize, Ino(ino), kind, None);
            }
            _ if is_last => {
                core.store.prefetch(inode);
                core.store.prefetch(inode.wrapping_add(f::ATIME.offset as u64));
                lanes.found.push(entered);
            }
            FileKind::Directory => {
                if let Some(table) = &self.table {
                    table.pass(ino);
                }
                core.store.prefetch(inode.wrapping_add(core.store.inode_size().dir_root().offset as u64));
                lanes.directories.push(entered);
            }
            _ => {
                self.learn_part(&lane);
                self.fail(&lane, Code::NotDirectory, sink);
            }
        }
    }

    /// Answers with the attributes of the inode that was found.
    #[inline(always)]
    fn finish<R: Rows + ?Sized>(
        &mut self,
        core: &Core<'_>,
        lane: Lane,
        sink: &mut Sink<'_, R>,
    ) -> Outcome<()> {
        let attr = Inode::load(core, lane.ino)?.attr()?;
        self.is_found[lane.path as usize] = Some(true);
        sink.rows.found(sink.first + lane.path as usize, Ino(lane.ino), lane.kind, Some(&attr));
        Ok(())
    }

    #[inline(always)]
    fn missing<R: Rows + ?Sized>(&mut self, lane: &Lane, sink: &mut Sink<'_, R>) {
        if lane.next + 1 == lane.end {
            self.fail(lane, Code::NotFound, sink);
        } else {
            self.learn_part(lane);
            self.fail(lane, Code::ComponentNotFound, sink);
        }
    }

    #[inline(always)]
    fn fail<R: Rows + ?Sized>(&mut self, lane: &Lane, code: Code, sink: &mut Sink<'_, R>) {
        self.is_found[lane.path as usize] = Some(false);
        sink.rows.failed(sink.first + lane.path as usize, code);
    }

    /// The walk has reached the directory of the last name.
    fn learn_whole(&mut self, lane: &Lane) {
        let prefix = &mut self.prefixes.0[lane.prefix as usize];
        prefix.learned = Some(Known { dir: lane.ino, bytes: prefix.key.path.len() as u32 });
    }

    /// The walk ends in a directory above, where the next component is missing or no directory.
    fn learn_part(&mut self, lane: &Lane) {
        if let Some(prefix) = self.prefixes.0.get_mut(lane.prefix as usize) {
            let name = self.names[lane.next as usize];
            let bytes = name.as_ptr() as usize - prefix.key.path.as_ptr() as usize;
            prefix.learned = Some(Known { dir: lane.ino, bytes: bytes as u32 });
        }
    }
}
