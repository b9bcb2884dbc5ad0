//! Batches of paths.
//!
//! A lookup is a chain of dependent memory accesses, and waiting for memory is its cost. So a batch keeps many lookups
//! in flight: each is a small state machine that names the line it needs next, has the processor fetch it, and lets the
//! others go on in between. Names are hashed side by side first. What is not plain (links, `.` and `..`, a caller with
//! an identity) goes the ordinary way, path by path, with the same answers.

use crate::dir::{self, Entry, Name};
use crate::edit::{Core, Outcome};
use crate::inode::Node;
use crate::path::{self, Start};
use crate::{Ino, Resolution, ResolveOptions, Result, Volume};
use lanefs_format::dir::entry as e;
use lanefs_format::{
    BlockKind, Code, DirRoot, FileKind, HASH_LANES, HashSeed, MAX_NAME, UNIT, half_md4_lanes, inode as f,
};
use lanefs_store::{Fault, prefetch};

/// Paths that are parsed and hashed at a time: their components fit the first-level cache.
const BLOCK_OF_PATHS: usize = 256;

/// Lookups in flight.
const LANES: usize = 24;

/// Paths that are answered under one hold of the volume's lock.
const HOLD: usize = 4096;

impl Resolution {
    fn failed(code: Code) -> Self {
        Resolution { code, ino: None, kind: None, attr: None }
    }
}

impl Volume {
    /// Resolves many paths at once. The answers come in the order of the paths, and one bad path never harms another.
    ///
    /// Paths are bytes; `a//b`, `.`, `..` and a slash at the end mean what POSIX says.
    ///
    /// # Errors
    /// Only the device's, or those of a damaged volume where no single path is to blame; all else is in the answers.
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
        let mut batch = Batch::new(&start, options.attributes);
        for part in paths.chunks(HOLD) {
            let _readers = self.writer.read();
            prefetch_text(&part[..part.len().min(BLOCK_OF_PATHS)]);
            for (i, block) in part.chunks(BLOCK_OF_PATHS).enumerate() {
                let next = part.get((i + 1) * BLOCK_OF_PATHS..).unwrap_or(&[]);
                prefetch_text(&next[..next.len().min(BLOCK_OF_PATHS)]);
                let first = answers.len();
                answers.resize(first + block.len(), Resolution::failed(Code::NotResident));
                batch.run(&self.core, block, &mut answers[first..]);
                for (path, answer) in block.iter().zip(&mut answers[first..]) {
                    if answer.code == Code::NotResident {
                        *answer = self.one(&start, options.attributes, path.as_ref())?;
                    }
                }
            }
        }
        Ok(answers)
    }

    /// The ordinary way, misses fetched. The caller holds the lock.
    fn one(&self, start: &Start<'_>, attributes: bool, path: &[u8]) -> Result<Resolution> {
        loop {
            let found = path::resolve(&self.core, start, path).and_then(|(ino, kind)| {
                let attr = if attributes { Some(Node::load(&self.core, ino)?.attr()?) } else { None };
                Ok(Resolution { code: Code::Success, ino: Some(Ino(ino)), kind: Some(kind), attr })
            });
            match found {
                Ok(answer) => return Ok(answer),
                Err(Fault::Miss { at, kind }) => match self.core.store.fetch(at, kind) {
                    Ok(()) => {}
                    Err(Fault::Damaged { .. }) => return Ok(Resolution::failed(Code::InvariantViolated)),
                    Err(fault) => return Err(fault.into()),
                },
                Err(Fault::Code(code)) => return Ok(Resolution::failed(code)),
                Err(Fault::Damaged { .. }) => return Ok(Resolution::failed(Code::InvariantViolated)),
                Err(fault) => return Err(fault.into()),
            }
        }
    }
}

/// The paths themselves may lie anywhere in memory; they come in while the block before is worked on.
fn prefetch_text<P: AsRef<[u8]>>(paths: &[P]) {
    for path in paths {
        let text = path.as_ref();
        prefetch(text.as_ptr());
        if let Some(last) = text.last() {
            prefetch(last);
        }
    }
}

/// What a lane waits for.
#[derive(Clone, Copy)]
enum Stage {
    /// The inode of the directory in which the next component is looked up.
    Directory,
    /// A bucket of this region index block.
    Bucket(u64),
    /// An entry that is probably the one.
    Entry(u64),
    /// The inode found, for its attributes.
    Found(FileKind),
}

/// One lookup in flight.
#[derive(Clone, Copy)]
struct Lane {
    /// Number of the path in its block.
    path: u32,
    /// Next component, and the end of the path's.
    next: u32,
    end: u32,
    stage: Stage,
    ino: u64,
}

/// What a step leads to.
enum Step {
    Wait,
    Done(Resolution),
    /// Not plain: the ordinary way answers.
    Ordinary,
}

struct Batch<'s, 'p> {
    start: &'s Start<'s>,
    attributes: bool,
    names: Vec<&'p [u8]>,
    hashes: Vec<u32>,
}

impl<'s> Batch<'s, '_> {
    fn new(start: &'s Start<'s>, attributes: bool) -> Self {
        Batch { start, attributes, names: Vec::new(), hashes: Vec::new() }
    }

    /// Answers what it can; the others stay [`Code::NotResident`].
    fn run<P: AsRef<[u8]>>(&mut self, core: &Core, paths: &[P], answers: &mut [Resolution]) {
        if self.start.who.user.is_some() {
            return;
        }
        // The vectors keep their memory from block to block; the names' lifetime is this block's.
        let mut block = Batch {
            start: self.start,
            attributes: self.attributes,
            names: std::mem::take(&mut self.names).into_iter().map(|_| &[][..]).collect(),
            hashes: std::mem::take(&mut self.hashes),
        };
        block.names.clear();
        block.hashes.clear();
        block.interleave(core, paths, answers);
        self.hashes = block.hashes;
        let mut names = block.names;
        names.clear();
        self.names = names.into_iter().map(|_| &[][..]).collect();
    }
}

impl<'p> Batch<'_, 'p> {
    /// Splits a path into plain components; `None` where it is not plain.
    fn parse(&mut self, path: &'p [u8]) -> Option<(u32, u32)> {
        let first = self.names.len();
        let mut begin = 0;
        let mut plain = path.last().is_some_and(|b| *b != b'/');
        for at in 0..=path.len() {
            if at == path.len() || path[at] == b'/' {
                let name = &path[begin..at];
                begin = at + 1;
                if !name.is_empty() {
                    plain &= name != b"." && name != b".." && name.len() <= MAX_NAME && !name.contains(&0);
                    self.names.push(name);
                }
            }
        }
        if plain {
            return Some((first as u32, self.names.len() as u32));
        }
        self.names.truncate(first);
        None
    }

    fn interleave<P: AsRef<[u8]>>(&mut self, core: &Core, paths: &'p [P], answers: &mut [Resolution]) {
        if Node::directory(core, self.start.base).is_err() || Node::directory(core, self.start.root).is_err()
        {
            return;
        }
        let mut waiting = Vec::with_capacity(paths.len());
        for (i, path) in paths.iter().enumerate() {
            let path = path.as_ref();
            if let Some((next, end)) = self.parse(path) {
                let ino = if path[0] == b'/' { self.start.root } else { self.start.base };
                waiting.push(Lane { path: i as u32, next, end, stage: Stage::Directory, ino });
            }
        }
        hash_all(core.seed, &self.names, &mut self.hashes);
        let mut waiting = waiting.into_iter();
        let mut lanes: Vec<Lane> = waiting.by_ref().take(LANES).collect();
        while !lanes.is_empty() {
            let mut i = 0;
            while i < lanes.len() {
                let step = self.step(core, &mut lanes[i]).unwrap_or(Step::Ordinary);
                let answer = match step {
                    Step::Wait => {
                        i += 1;
                        continue;
                    }
                    Step::Done(answer) => Some(answer),
                    Step::Ordinary => None,
                };
                if let Some(answer) = answer {
                    answers[lanes[i].path as usize] = answer;
                }
                match waiting.next() {
                    Some(lane) => lanes[i] = lane,
                    None => {
                        lanes.swap_remove(i);
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn step(&self, core: &Core, lane: &mut Lane) -> Outcome<Step> {
        let store = &core.store;
        match lane.stage {
            Stage::Directory => {
                // The entry said that it is a directory, so the line with its type need not be read.
                let inode = store.inode(lane.ino)?;
                let hash = self.hashes[lane.next as usize];
                let index = match dir::root_in(inode)? {
                    DirRoot::Empty => return Ok(self.missing(lane)),
                    DirRoot::Small(leaf) => {
                        let size = store.inode_size();
                        let places = dir::candidates(inode, size, hash);
                        let unit =
                            if places == 0 { 0 } else { dir::unit_of(inode, size, places.trailing_zeros()) };
                        return match unit {
                            0 if places == 0 => Ok(self.missing(lane)),
                            0 => self.slowly(core, lane),
                            unit => {
                                self.await_entry(core, lane, leaf + unit * UNIT);
                                Ok(Step::Wait)
                            }
                        };
                    }
                    DirRoot::Region(index) => index,
                    DirRoot::Tree(root) => dir::region_of(core, root, hash)?,
                };
                store.prefetch(index.wrapping_add(dir::bucket_at(hash) as u64));
                lane.stage = Stage::Bucket(index);
                Ok(Step::Wait)
            }
            Stage::Bucket(index) => {
                let hash = self.hashes[lane.next as usize];
                let view = store.block(index, BlockKind::Index)?;
                let bucket = lanefs_format::dir::Slot::home(hash as u16);
                let (found, more) = dir::probe_bucket(view, bucket, hash);
                let Some(at) = found.into_iter().find(|at| *at != 0) else {
                    return if more { self.slowly(core, lane) } else { Ok(self.missing(lane)) };
                };
                self.await_entry(core, lane, at);
                Ok(Step::Wait)
            }
            Stage::Entry(at) => {
                let entry = Entry::at(core, at)?;
                let name =
                    Name { bytes: self.names[lane.next as usize], hash: self.hashes[lane.next as usize] };
                if !entry.is(name) {
                    return self.slowly(core, lane);
                }
                self.enter(core, lane, entry.ino(), entry.kind()?)
            }
            Stage::Found(kind) => {
                let attr = Node::load(core, lane.ino)?.attr()?;
                Ok(Step::Done(Resolution {
                    code: Code::Success,
                    ino: Some(Ino(lane.ino)),
                    kind: Some(kind),
                    attr: Some(attr),
                }))
            }
        }
    }

    /// Asks for the lines of an entry that are compared: from its inode number to the end of the name.
    #[inline(always)]
    fn await_entry(&self, core: &Core, lane: &mut Lane, at: u64) {
        core.store.prefetch(at + e::INODE.offset as u64);
        core.store.prefetch(at + (e::SIZE - 1 + self.names[lane.next as usize].len()) as u64);
        lane.stage = Stage::Entry(at);
    }

    /// A candidate that was not the one: the directory's ordinary search decides.
    #[cold]
    fn slowly(&self, core: &Core, lane: &mut Lane) -> Outcome<Step> {
        let node = Node::directory(core, lane.ino)?;
        let name = Name { bytes: self.names[lane.next as usize], hash: self.hashes[lane.next as usize] };
        match dir::find(core, &node, name)? {
            Some(entry) => self.enter(core, lane, entry.ino(), entry.kind()?),
            None => Ok(self.missing(lane)),
        }
    }

    /// The component was found.
    #[inline(always)]
    fn enter(&self, core: &Core, lane: &mut Lane, ino: u64, kind: FileKind) -> Outcome<Step> {
        lane.next += 1;
        lane.ino = ino;
        let is_last = lane.next == lane.end;
        let inode = ino.wrapping_mul(core.store.inode_size().bytes());
        match kind {
            FileKind::Symlink if !is_last || self.start.follow => return Ok(Step::Ordinary),
            _ if is_last && !self.attributes => {
                return Ok(Step::Done(Resolution {
                    code: Code::Success,
                    ino: Some(Ino(ino)),
                    kind: Some(kind),
                    attr: None,
                }));
            }
            _ if is_last => lane.stage = Stage::Found(kind),
            FileKind::Directory => {
                lane.stage = Stage::Directory;
                core.store.prefetch(inode + core.store.inode_size().dir_root().offset as u64);
                return Ok(Step::Wait);
            }
            _ => return Ok(Step::Done(Resolution::failed(Code::NotDirectory))),
        }
        core.store.prefetch(inode);
        core.store.prefetch(inode + f::ATIME.offset as u64);
        Ok(Step::Wait)
    }

    fn missing(&self, lane: &Lane) -> Step {
        let is_last = lane.next + 1 == lane.end;
        Step::Done(Resolution::failed(if is_last { Code::NotFound } else { Code::ComponentNotFound }))
    }
}

/// Hashes all names, [`HASH_LANES`] at a time, with the widest vectors that the processor has.
fn hash_all(seed: HashSeed, names: &[&[u8]], hashes: &mut Vec<u32>) {
    #[cfg(target_arch = "x86_64")]
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

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2")]
fn hash_avx512(seed: HashSeed, names: &[&[u8]], hashes: &mut Vec<u32>) {
    hash_each(seed, names, hashes);
}

#[cfg(target_arch = "x86_64")]
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
