//! Batches of paths.
//!
//! A lookup is a chain of dependent memory accesses, and its cost is the wait for memory. So a batch keeps
//! many lookups in flight. Each is a small state machine: it names the cache line that it needs next, has the
//! processor fetch it, and lets the others go on meanwhile. Names are hashed side by side first. Paths that
//! are not plain (links, `.` and `..`, a caller with an identity) are resolved one by one, with the same
//! results.

use crate::attempt::Core;
use crate::dir::{self, Entry, Name};
use crate::error::Outcome;
use crate::error::{Error, Result};
use crate::inode::Inode;
use crate::resolve::{self, Start};
use crate::types::{Ino, Resolution, ResolveOptions};
use crate::volume::Volume;
use lanefs_format::dir::entry as e;
use lanefs_format::{
    BlockKind, Code, DirRoot, FileKind, HASH_LANES, HashSeed, MAX_NAME, UNIT, half_md4_lanes, inode as f,
};
use lanefs_store::{Reader, prefetch};

/// Paths that are parsed and hashed at a time: their components fit into the first-level cache.
const BLOCK_OF_PATHS: usize = 256;

/// Lookups in flight.
const LANES: usize = 32;

impl Resolution {
    fn failed(code: Code) -> Self {
        Resolution { code, ino: None, kind: None, attr: None }
    }
}

impl Volume {
    /// Resolves many paths at once. The results are in the order of the paths, and one bad path never affects
    /// another.
    ///
    /// Paths are bytes; `a//b`, `.`, `..` and a slash at the end mean what POSIX says.
    ///
    /// # Errors
    /// Only the device's, or those of a damaged volume where no single path is to blame; all others are in
    /// the results.
    pub fn resolve_batch<P: AsRef<[u8]> + Sync>(
        &self,
        options: &ResolveOptions,
        paths: &[P],
    ) -> Result<Vec<Resolution>> {
        let mut answers = Vec::with_capacity(paths.len());
        let root = self.root().0;
        let start = Start {
            root,
            base: options.base.map_or(root, |ino| ino.0),
            follow: options.follow,
            who: &options.caller,
        };
        prefetch_text(&paths[..paths.len().min(BLOCK_OF_PATHS)]);
        for (i, block) in paths.chunks(BLOCK_OF_PATHS).enumerate() {
            let next = paths.get((i + 1) * BLOCK_OF_PATHS..).unwrap_or(&[]);
            prefetch_text(&next[..next.len().min(BLOCK_OF_PATHS)]);
            let first = answers.len();
            answers.resize(first + block.len(), Resolution::failed(Code::NotResident));
            if options.caller.user.is_none() {
                self.resolve_block(&start, options.attributes, block, &mut answers[first..]);
            }
            for (path, answer) in block.iter().zip(&mut answers[first..]) {
                if answer.code == Code::NotResident {
                    *answer = self.one(&start, options.attributes, path.as_ref())?;
                }
            }
        }
        Ok(answers)
    }

    /// Resolves the plain paths of a block, in one attempt, or in several small ones while writers are
    /// active: a conflict with a writer discards the whole attempt.
    fn resolve_block<P: AsRef<[u8]>>(
        &self,
        start: &Start<'_>,
        attributes: bool,
        block: &[P],
        answers: &mut [Resolution],
    ) {
        let store = &self.shared.state.store;
        let size = if Reader::reading(store).is_quiet() { BLOCK_OF_PATHS } else { LANES };
        for (paths, answers) in block.chunks(size).zip(answers.chunks_mut(size)) {
            let core = Core::new(&self.shared.state, Reader::reading(store));
            LookupBatch::new(start, attributes).interleave(&core, paths, answers);
            if core.store.validate().is_err() {
                answers.fill_with(|| Resolution::failed(Code::NotResident));
            } else if !core.store.is_quiet() {
                self.shared.state.gate.try_quiesce(store);
            }
        }
    }

    /// Resolves one path; misses are fetched.
    fn one(&self, start: &Start<'_>, attributes: bool, path: &[u8]) -> Result<Resolution> {
        let found = self.view(|core| {
            let (ino, kind) = resolve::resolve(core, start, path)?;
            let attr = if attributes { Some(Inode::load(core, ino)?.attr()?) } else { None };
            Ok(Resolution { code: Code::Success, ino: Some(Ino(ino)), kind: Some(kind), attr })
        });
        match found {
            Ok(answer) => Ok(answer),
            Err(Error::Code(code)) => Ok(Resolution::failed(code)),
            Err(Error::Damaged { .. }) => Ok(Resolution::failed(Code::InvariantViolated)),
            Err(error) => Err(error),
        }
    }
}

/// Prefetches the text of paths while the block before them is resolved: it may be anywhere in memory.
fn prefetch_text<P: AsRef<[u8]>>(paths: &[P]) {
    for path in paths {
        let text = path.as_ref();
        prefetch(text.as_ptr());
        if let Some(last) = text.last() {
            prefetch(last);
        }
    }
}

/// One lookup in flight.
#[derive(Clone, Copy)]
struct Lane {
    /// Number of the path in its block.
    path: u32,
    /// Next component, and the end of the path's.
    next: u32,
    end: u32,
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

/// A block of paths, split and hashed.
struct LookupBatch<'s, 'p> {
    start: &'s Start<'s>,
    attributes: bool,
    names: Vec<&'p [u8]>,
    hashes: Vec<u32>,
}

impl<'s, 'p> LookupBatch<'s, 'p> {
    fn new(start: &'s Start<'s>, attributes: bool) -> Self {
        let components = 8 * BLOCK_OF_PATHS;
        LookupBatch {
            start,
            attributes,
            names: Vec::with_capacity(components),
            hashes: Vec::with_capacity(components),
        }
    }

    /// Splits a path into plain components; `None` for a path that is not plain.
    #[inline(always)]
    fn parse(&mut self, path: &'p [u8]) -> Option<(u32, u32)> {
        let first = self.names.len();
        // A name with a NUL is refused without a lookup; a slash at the end requires a directory.
        let mut plain = path.last().is_some_and(|b| *b != b'/') && memchr::memchr(0, path).is_none();
        let mut begin = 0;
        for at in memchr::memchr_iter(b'/', path).chain([path.len()]) {
            let name = &path[begin..at];
            begin = at + 1;
            if !name.is_empty() {
                plain &= (name[0] != b'.' || name != b"." && name != b"..") && name.len() <= MAX_NAME;
                self.names.push(name);
            }
        }
        if plain {
            return Some((first as u32, self.names.len() as u32));
        }
        self.names.truncate(first);
        None
    }

    /// Resolves plain paths; the results of the others stay [`Code::NotResident`].
    fn interleave<P: AsRef<[u8]>>(&mut self, core: &Core, paths: &'p [P], answers: &mut [Resolution]) {
        if Inode::directory(core, self.start.base).is_err()
            || Inode::directory(core, self.start.root).is_err()
        {
            return;
        }
        let mut waiting = Vec::with_capacity(paths.len());
        for (i, path) in paths.iter().enumerate() {
            let path = path.as_ref();
            if let Some((next, end)) = self.parse(path) {
                let ino = if path[0] == b'/' { self.start.root } else { self.start.base };
                waiting.push(Lane { path: i as u32, next, end, kind: FileKind::Directory, ino, at: 0 });
            }
        }
        hash_all(core.seed, &self.names, &mut self.hashes);
        debug_assert_eq!(self.names.len(), self.hashes.len(), "a hash for each name");
        self.fly(core, waiting, answers);
    }

    /// Keeps [`LANES`] lookups in flight until all are resolved or left for [`Volume::one`]. A failure is not
    /// examined here: the same path fails there too, and gets its code there.
    fn fly(&self, core: &Core, waiting: Vec<Lane>, answers: &mut [Resolution]) {
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
                let _ = self.search(core, lane, &mut lanes, answers);
            }
            std::mem::swap(&mut now, &mut lanes.buckets);
            for lane in now.drain(..) {
                let _ = self.look_in_bucket(core, lane, &mut lanes, answers);
            }
            std::mem::swap(&mut now, &mut lanes.entries);
            for lane in now.drain(..) {
                let _ = self.compare(core, lane, &mut lanes, answers);
            }
            std::mem::swap(&mut now, &mut lanes.found);
            for lane in now.drain(..) {
                let _ = finish(core, lane, answers);
            }
        }
    }

    /// Continues with the inode of a directory: it leads to an entry, or to the index of a region.
    #[inline(always)]
    fn search(
        &self,
        core: &Core,
        mut lane: Lane,
        lanes: &mut Lanes,
        answers: &mut [Resolution],
    ) -> Outcome<()> {
        let store = &core.store;
        // The entry named a directory, so the line with the type of the inode need not be read.
        let inode = store.inode(lane.ino)?;
        let hash = self.hashes[lane.next as usize];
        lane.at = match dir::root_in(inode)? {
            DirRoot::Empty => {
                missing(&lane, answers);
                return Ok(());
            }
            DirRoot::Small(leaf) => {
                let size = store.inode_size();
                let slots = dir::candidates(inode, size, hash);
                if slots == 0 {
                    missing(&lane, answers);
                    return Ok(());
                }
                let unit = dir::unit_of(inode, size, slots.trailing_zeros());
                if unit == 0 {
                    return self.slowly(core, lane, lanes, answers);
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
    fn look_in_bucket(
        &self,
        core: &Core,
        lane: Lane,
        lanes: &mut Lanes,
        answers: &mut [Resolution],
    ) -> Outcome<()> {
        let hash = self.hashes[lane.next as usize];
        let view = core.store.block(lane.at, BlockKind::Index)?;
        let bucket = lanefs_format::dir::Slot::home(hash as u16);
        match dir::probe_bucket(view, bucket, hash) {
            (0, false) => missing(&lane, answers),
            (0, true) => return self.slowly(core, lane, lanes, answers),
            (at, _) => self.await_entry(core, lane, at, lanes),
        }
        Ok(())
    }

    /// Prefetches the lines of an entry that are compared: from its inode number to the end of the name.
    #[inline(always)]
    fn await_entry(&self, core: &Core, lane: Lane, at: u64, lanes: &mut Lanes) {
        let name_len = self.names[lane.next as usize].len();
        core.store.prefetch(at.wrapping_add(e::INODE.offset as u64));
        core.store.prefetch(at.wrapping_add((e::SIZE - 1 + name_len) as u64));
        lanes.entries.push(Lane { at, ..lane });
    }

    #[inline(always)]
    fn compare(&self, core: &Core, lane: Lane, lanes: &mut Lanes, answers: &mut [Resolution]) -> Outcome<()> {
        match Entry::probe(core, lane.at, self.name(&lane))? {
            Some((ino, kind)) => self.enter(core, lane, ino, kind, lanes, answers),
            None => return self.slowly(core, lane, lanes, answers),
        }
        Ok(())
    }

    #[inline(always)]
    fn name(&self, lane: &Lane) -> Name<'p> {
        Name { bytes: self.names[lane.next as usize], hash: self.hashes[lane.next as usize] }
    }

    /// Searches the directory in the ordinary way, after the candidate was another name.
    #[cold]
    fn slowly(&self, core: &Core, lane: Lane, lanes: &mut Lanes, answers: &mut [Resolution]) -> Outcome<()> {
        let node = Inode::directory(core, lane.ino)?;
        match dir::find(core, &node, self.name(&lane))? {
            Some(entry) => self.enter(core, lane, entry.ino(), entry.kind()?, lanes, answers),
            None => missing(&lane, answers),
        }
        Ok(())
    }

    /// Continues with a component that was found.
    #[inline(always)]
    fn enter(
        &self,
        core: &Core,
        mut lane: Lane,
        ino: u64,
        kind: FileKind,
        lanes: &mut Lanes,
        answers: &mut [Resolution],
    ) {
        lane.next += 1;
        (lane.ino, lane.kind) = (ino, kind);
        let is_last = lane.next == lane.end;
        let inode = ino.wrapping_mul(core.store.inode_size().bytes());
        match kind {
            // `Volume::one` follows links.
            FileKind::Symlink if !is_last || self.start.follow => {}
            _ if is_last && !self.attributes => {
                answers[lane.path as usize] =
                    Resolution { code: Code::Success, ino: Some(Ino(ino)), kind: Some(kind), attr: None };
            }
            _ if is_last => {
                core.store.prefetch(inode);
                core.store.prefetch(inode.wrapping_add(f::ATIME.offset as u64));
                lanes.found.push(lane);
            }
            FileKind::Directory => {
                core.store.prefetch(inode.wrapping_add(core.store.inode_size().dir_root().offset as u64));
                lanes.directories.push(lane);
            }
            _ => answers[lane.path as usize] = Resolution::failed(Code::NotDirectory),
        }
    }
}

/// Fills in the attributes of the inode that was found.
#[inline(always)]
fn finish(core: &Core, lane: Lane, answers: &mut [Resolution]) -> Outcome<()> {
    let attr = Inode::load(core, lane.ino)?.attr()?;
    answers[lane.path as usize] =
        Resolution { code: Code::Success, ino: Some(Ino(lane.ino)), kind: Some(lane.kind), attr: Some(attr) };
    Ok(())
}

fn missing(lane: &Lane, answers: &mut [Resolution]) {
    let is_last = lane.next + 1 == lane.end;
    answers[lane.path as usize] =
        Resolution::failed(if is_last { Code::NotFound } else { Code::ComponentNotFound });
}

/// Hashes all names, [`HASH_LANES`] at a time, with the widest vectors that the processor has.
fn hash_all(seed: HashSeed, names: &[&[u8]], hashes: &mut Vec<u32>) {
    #[cfg(all(target_arch = "x86_64", not(lanefs_no_asm)))]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
            // SAFETY: the processor has the features.
            return unsafe { hash_avx512(seed, names, hashes) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { hash_avx2(seed, names, hashes) };
        }
    }
    hash_each(seed, names, hashes);
}

#[cfg(all(target_arch = "x86_64", not(lanefs_no_asm)))]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2")]
fn hash_avx512(seed: HashSeed, names: &[&[u8]], hashes: &mut Vec<u32>) {
    hash_each(seed, names, hashes);
}

#[cfg(all(target_arch = "x86_64", not(lanefs_no_asm)))]
#[target_feature(enable = "avx2")]
fn hash_avx2(seed: HashSeed, names: &[&[u8]], hashes: &mut Vec<u32>) {
    hash_each(seed, names, hashes);
}

#[inline(always)]
fn hash_each(seed: HashSeed, names: &[&[u8]], hashes: &mut Vec<u32>) {
    for part in names.chunks(HASH_LANES) {
        let mut lanes: [&[u8]; HASH_LANES] = [b"-"; HASH_LANES];
        lanes[..part.len()].copy_from_slice(part);
        hashes.extend_from_slice(&half_md4_lanes(seed, &lanes)[..part.len()]);
    }
}
