//! Whole directories, many at a time: their entries, and the attributes of the entries' inodes.

use super::find::Match;
use super::mirrored::Mirrored;
use crate::error::Result;
use crate::inputs::filter::Filter;
use crate::resident::mirror::Mirror;
use crate::resident::tables::{MirrorTables, PARAMETERS_BYTES};
use crate::shared::layout::LEAF_DEPTH_SHIFT;
use crate::shared::structures::{LeafRequest, Parameters};
use crate::twin::kernels::leaves::MapBlock;
use crate::vulkan::{Commands, Direction, Kernel, Staged};
use lanefs::format::{BLOCK, FileKind, INODE_CORE, INODE_DEPTH_MASK, INODE_DEPTH_SHIFT, inode as f};
use lanefs::{Attr, BatchReport, Caller, DirEntry, Ino, ResolveOptions};
use std::collections::HashMap;

/// Requests of one dispatch at most: blocks of file maps, or inodes.
const MAX_REQUESTS: usize = 1 << 18;

/// Blocks of file maps of one call at most, with holes; directories with more are left to the host.
const MAX_BLOCKS: u64 = 1 << 22;

/// An entry of a directory.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The entry.
    pub entry: DirEntry,
    /// Attributes of its inode, where the caller wants them; `None` where they cannot be read.
    pub attr: Option<Attr>,
}

/// Entries of a directory; `None` where the device cannot decide.
type DirectoryEntries = Option<Vec<Listed>>;

impl Mirrored<'_> {
    /// Lists the entries of many directories, each in the order of `readdir`, with the attributes of their
    /// inodes if wanted. The host lists a directory that the device cannot decide about, as it is then. The
    /// report counts directories.
    pub fn list(&self, dirs: &[Ino], attributes: bool) -> (Vec<lanefs::Result<Vec<Listed>>>, BatchReport) {
        let on_device = self.on_device(|mirror| self.list_on(mirror, dirs, attributes));
        let (listings, copied) = on_device.unwrap_or_else(|| (vec![None; dirs.len()], 0));
        let mut report = BatchReport { copied, ..BatchReport::default() };
        let listed = dirs.iter().zip(listings).map(|(dir, listings)| match listings {
            Some(mut entries) => {
                report.by_device += 1;
                // Inodes that the mirror does not have.
                for one in entries.iter_mut().filter(|one| attributes && one.attr.is_none()) {
                    one.attr = self.volume().getattr(one.entry.ino).ok();
                }
                Ok(entries)
            }
            None => {
                report.by_host += 1;
                let entries = self.volume().readdir(&Caller::OWNER, *dir, 0, usize::MAX)?;
                let attr = |entry: &DirEntry| attributes.then(|| self.volume().getattr(entry.ino).ok());
                Ok(entries.into_iter().map(|entry| Listed { attr: attr(&entry).flatten(), entry }).collect())
            }
        });
        (listed.collect(), report)
    }

    fn list_on(&self, mirror: &Mirror, dirs: &[Ino], attributes: bool) -> Result<Vec<DirectoryEntries>> {
        let mut listings: Vec<DirectoryEntries> = vec![None; dirs.len()];
        let mut numbers = HashMap::new();
        let (mut blocks, mut owners) = (Vec::new(), Vec::new());
        let inos: Vec<u64> = dirs.iter().map(|dir| dir.0).collect();
        for (number, core) in self.cores_of(mirror, &inos)?.iter().enumerate() {
            let Some((map, depth, end)) = directory_in(core) else { continue };
            // A directory that the caller names twice is listed once, and given twice.
            if end > MAX_BLOCKS - (blocks.len() as u64).min(MAX_BLOCKS) || numbers.contains_key(&inos[number])
            {
                continue;
            }
            numbers.insert(inos[number], number);
            listings[number] = Some(Vec::new());
            blocks.extend((0..end).map(|block| MapBlock { map, depth, block }));
            owners.resize(blocks.len(), number);
        }
        let mut leaves = HashMap::new();
        for ((block, number), at) in blocks.iter().zip(&owners).zip(self.leaves_at(mirror, &blocks)?) {
            match at {
                Some(0) => {}
                // Two directories with one leaf: a damaged volume.
                Some(at) => {
                    if let Some((other, _)) = leaves.insert(at, (*number, block.block)) {
                        (listings[*number], listings[other]) = (None, None);
                    }
                }
                None => listings[*number] = None,
            }
        }
        let mut positions: Vec<u64> = leaves.keys().copied().collect();
        positions.sort_unstable();
        let everything = Filter::default();
        let (found, undecided) = self.entries(mirror, &everything, &positions)?;
        for at in undecided {
            if let Some((number, _)) = leaves.get(&at) {
                listings[*number] = None;
            }
        }
        for Match { dir, ino, kind, cookie, name } in found {
            // A leaf that names another directory as its owner is damage, and none of its entries are
            // wanted.
            let Some(number) = numbers.get(&dir.0) else { return Ok(vec![None; dirs.len()]) };
            if let Some(entries) = &mut listings[*number] {
                entries.push(Listed { entry: DirEntry { ino, kind, cookie, name }, attr: None });
            }
        }
        listings
            .iter_mut()
            .flatten()
            .for_each(|entries| entries.sort_unstable_by_key(|one| one.entry.cookie));
        if attributes {
            let wanted: Vec<u64> = listings.iter().flatten().flatten().map(|one| one.entry.ino.0).collect();
            let cores = self.cores_of(mirror, &wanted)?;
            for (one, core) in listings.iter_mut().flatten().flatten().zip(cores) {
                one.attr = Attr::of_inode(one.entry.ino, &core).filter(|attr| attr.kind == one.entry.kind);
            }
        }
        for number in 0..dirs.len() {
            if let Some(first) = numbers.get(&inos[number]).filter(|first| **first != number) {
                listings[number] = listings[*first].clone();
            }
        }
        Ok(listings)
    }

    /// Reads the first bytes of inodes; zeros for an inode that is not resident or not in use.
    pub(crate) fn cores_of(&self, mirror: &Mirror, inos: &[u64]) -> Result<Vec<[u8; INODE_CORE]>> {
        let mut cores = Vec::with_capacity(inos.len());
        for some in inos.chunks(MAX_REQUESTS) {
            let write = |to: &mut [u8]| {
                for (to, ino) in to.as_chunks_mut().0.iter_mut().zip(some) {
                    *to = ino.to_le_bytes();
                }
            };
            let requests_size = (some.len(), size_of::<u64>());
            let answers = self.request(mirror, &self.kernels().stat, requests_size, write, INODE_CORE)?;
            cores.extend_from_slice(answers.as_chunks().0);
        }
        Ok(cores)
    }

    /// Returns the positions of blocks of file maps, 0 for holes.
    pub(crate) fn leaves_at(&self, mirror: &Mirror, blocks: &[MapBlock]) -> Result<Vec<Option<u64>>> {
        let mut found = Vec::with_capacity(blocks.len());
        for some in blocks.chunks(MAX_REQUESTS) {
            let request = |block: &MapBlock| LeafRequest {
                map: block.map,
                block: block.block | u64::from(block.depth) << LEAF_DEPTH_SHIFT,
            };
            let requests: Vec<LeafRequest> = some.iter().map(request).collect();
            let write = |to: &mut [u8]| LeafRequest::write_all(to, &requests);
            let requests_size = (some.len(), LeafRequest::SIZE);
            let answers =
                self.request(mirror, &self.kernels().leaves, requests_size, write, size_of::<u64>())?;
            let positions = answers.as_chunks::<8>().0.iter().map(|eight| u64::from_le_bytes(*eight));
            found.extend(positions.map(|at| Some(at).filter(|at| *at != u64::MAX)));
        }
        Ok(found)
    }

    /// Dispatches a kernel on `count` requests of `size` bytes each, which `write` writes, with results of
    /// `bytes` bytes each.
    fn request(
        &self,
        mirror: &Mirror,
        kernel: &Kernel,
        (count, size): (usize, usize),
        write: impl FnOnce(&mut [u8]),
        bytes: usize,
    ) -> Result<Vec<u8>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let device = self.device();
        let mut input = Staged::new(device, PARAMETERS_BYTES + (count * size) as u64, Direction::ToDevice)?;
        let output = Staged::new(device, (count * bytes) as u64, Direction::ToHost)?;
        let address = input.address();
        let query = self.query(&ResolveOptions::default());
        let parameters = Parameters {
            starts: address + PARAMETERS_BYTES,
            count: count as u32,
            answers: output.address(),
            ..MirrorTables::of(mirror).parameters(&query, self.cache())
        };
        let (parameter_bytes, request_bytes) = input.bytes_mut().split_at_mut(PARAMETERS_BYTES as usize);
        parameters.write(parameter_bytes);
        write(request_bytes);
        let mut work = Commands::new(device)?;
        work.record(|commands| {
            input.transfer(commands, input.len());
            commands.dispatch(kernel, address, count as u64);
            output.transfer(commands, output.len());
        })?;
        work.submit()?;
        work.wait()?;
        Ok(output.bytes().get(..count * bytes).unwrap_or(&[]).to_vec())
    }
}

/// Reads root and depth of a directory's file map, and its end in blocks.
fn directory_in(core: &[u8; INODE_CORE]) -> Option<(u64, u8, u64)> {
    let mode = f::MODE.read(core)?;
    let depth = (f::FLAGS.read(core)? & INODE_DEPTH_MASK) >> INODE_DEPTH_SHIFT;
    (FileKind::from_mode(mode) == Some(FileKind::Directory)).then_some((
        f::MAP.read(core)?,
        depth as u8,
        f::BYTES.read(core)? / BLOCK,
    ))
}

impl Mirrored<'_> {
    /// Lists directories as [`list`](Self::list) does, and all directories below them, level by level, down
    /// to `depth` levels. A directory that cannot be read is left out.
    pub fn list_below(
        &self,
        tops: &[Ino],
        depth: Option<usize>,
        attributes: bool,
    ) -> (HashMap<Ino, Vec<Listed>>, BatchReport) {
        let (mut found, mut sum) = (HashMap::new(), BatchReport::default());
        let mut level = tops.to_vec();
        for _ in 0..=depth.unwrap_or(usize::MAX - 1) {
            // A damaged volume may name a directory more than once.
            level.sort_unstable();
            level.dedup();
            level.retain(|dir| !found.contains_key(dir));
            if level.is_empty() {
                break;
            }
            let (listed, report) = self.list(&level, attributes);
            sum.by_device += report.by_device;
            sum.by_host += report.by_host;
            sum.copied += report.copied;
            let mut below = Vec::new();
            for (dir, entries) in level.iter().zip(listed) {
                let Ok(entries) = entries else { continue };
                let dirs = entries.iter().filter(|one| one.entry.kind == FileKind::Directory);
                below.extend(dirs.map(|one| one.entry.ino));
                found.insert(*dir, entries);
            }
            level = below;
        }
        (found, sum)
    }
}
