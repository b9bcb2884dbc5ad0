//! Scrubbing: all used blocks are read from the device, in its order, and verified.
//!
//! Other operations continue. A block that seems wrong may only be changing, so it is verified again with the
//! gate closed, and reported where a file or the volume's own structures still name it.

use crate::attempt::Core;
use crate::files::data;
use crate::files::inode::Inode;
use crate::lifecycle::mkfs;
use crate::running::volume::Volume;
use crate::space;
use crate::vocabulary::error::{Outcome, Result};
use crate::vocabulary::types::{Caller, Ino};
use lanefs_format::{
    BLOCK, BLOCKS_PER_CHUNK, BLOCKS_PER_GROUP, BlockKind, CHUNK, CHUNK_HEADER_BLOCKS, CHUNKS_PER_GROUP,
    FileKind, GROUP, JOURNAL_HEADERS, SUPERBLOCK_COPY, chunk_entry, group as g,
};
use lanefs_store::{Fault, IdleReads};
use std::collections::{BTreeMap, BTreeSet};

/// Most blocks of one read: 1 MiB.
const PIECE_BLOCKS: u64 = 256;

/// Wrong blocks after which a scrub stops: what it keeps of them has a bound, whatever an image claims.
const MOST_WRONG: usize = 100_000;

/// Entries of a directory that are listed at a time.
const PAGE_ENTRIES: usize = 1024;

/// A block that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongBlock {
    /// Byte position on the volume.
    pub at: u64,
    /// The content.
    pub content: WrongContent,
}

/// The content of a wrong block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrongContent {
    /// Metadata.
    Metadata(BlockKind),
    /// Data of a file.
    Data {
        /// The file.
        ino: Ino,
        /// Byte offset in it.
        offset: u64,
        /// A path of the file; `None` for a file without a name.
        path: Option<Vec<u8>>,
    },
}

/// Result of a scrub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// Data blocks that match their checksums.
    pub data: u64,
    /// Data blocks without a checksum.
    pub without: u64,
    /// Metadata blocks that were verified.
    pub metadata: u64,
    /// Blocks that are wrong, or cannot be read.
    pub wrong: Vec<WrongBlock>,
    /// Position at which a stopped scrub continues; `None` where it reached the end.
    pub next: Option<u64>,
}

/// A block that seems wrong.
type Suspect = (u64, Option<BlockKind>);

/// # Checksums of all data
impl Volume {
    /// Reads all used blocks from position `from` on from the device and verifies them. `go_on` is called now
    /// and then with the position reached and the volume's size; where it returns false the scrub stops, and
    /// also after 100,000 blocks that are wrong.
    ///
    /// # Errors
    /// The device's for metadata that the scrub itself needs. Data that cannot be read is a wrong block.
    /// [`Error::Image`](crate::Error::Image) for a [join](Self::is_joined).
    pub fn scrub(&self, from: u64, go_on: &mut dyn FnMut(u64, u64) -> bool) -> Result<ScrubReport> {
        self.refuse_join("has no checksums of its own")?;
        let mut report = ScrubReport::default();
        let mut suspects = Vec::new();
        let mut at = from & !(CHUNK - 1);
        let idle = IdleReads::begin();
        let mut wrong = if at == 0 { self.scrub_fixed(&mut report) } else { Vec::new() };
        while at < self.shared.state.store.bytes() {
            if !go_on(at, self.shared.state.store.bytes()) || suspects.len() >= MOST_WRONG {
                report.next = Some(at);
                break;
            }
            at = self.scrub_chunk(at, &mut report, &mut suspects)?;
        }
        // Others wait for the thread that closes the gate.
        drop(idle);
        wrong.extend(self.confirm(suspects)?);
        wrong.sort_unstable_by_key(|block| block.at);
        report.wrong = wrong;
        Ok(report)
    }

    /// Verifies the superblocks and the headers of the journal. They are not part of any chunk's used blocks,
    /// and are written under locks of their own, so a wrong one is wrong at once.
    fn scrub_fixed(&self, report: &mut ScrubReport) -> Vec<WrongBlock> {
        let store = &self.shared.state.store;
        let superblock = self.shared.superblock.lock();
        let copies = [0, SUPERBLOCK_COPY].into_iter().filter(|at| *at < store.bytes());
        let mut blocks: Vec<_> =
            copies.map(|at| (at, BlockKind::Superblock, store.scrub_superblock(at))).collect();
        if superblock.journal_blocks > 0 {
            let wrong = store.scrub_journal(superblock.journal, superblock.journal_blocks);
            let headers = (0..JOURNAL_HEADERS).map(|copy| superblock.journal + copy * BLOCK);
            blocks.extend(headers.map(|at| (at, BlockKind::Journal, !wrong.contains(&at))));
        }
        report.metadata += blocks.iter().filter(|(_, _, is_good)| *is_good).count() as u64;
        let wrong = blocks.into_iter().filter(|(_, _, is_good)| !is_good);
        wrong.map(|(at, kind, _)| WrongBlock { at, content: WrongContent::Metadata(kind) }).collect()
    }

    /// Verifies the used blocks of one chunk, and with a group's first chunk its block of the group table.
    /// Returns the position of the next chunk to verify.
    fn scrub_chunk(&self, chunk: u64, report: &mut ScrubReport, suspects: &mut Vec<Suspect>) -> Result<u64> {
        let (number, index) = (chunk / GROUP, chunk % GROUP / CHUNK);
        if index == 0 {
            let table = self.shared.state.groups() + number * BLOCK;
            self.scrub_metadata(table, BlockKind::Group, report, suspects)?;
        }
        let of_group = self.view(|core| {
            let view = space::group(core, number)?;
            let words: [u64; (BLOCKS_PER_CHUNK / 64) as usize] = std::array::from_fn(|i| {
                view.get(g::BITMAP.index((index * BLOCKS_PER_CHUNK / 64) as usize + i))
            });
            Ok((view.get(g::METADATA) >> index & 1 != 0, words))
        });
        let (is_metadata, words) = match of_group {
            Ok(found) => found,
            // The group's own block is wrong; it is reported, and its chunks cannot be told apart.
            Err(error) if error.is_damage() => return Ok((number + 1) * GROUP),
            Err(error) => return Err(error),
        };
        if is_metadata {
            self.scrub_metadata_chunk(chunk, report, suspects)?;
            return Ok(chunk + CHUNK);
        }
        let reserved = mkfs::reserved(&self.superblock());
        let used = |block: u64| {
            let (i, bit) = (block / 64, block % 64);
            let fixed = reserved.word(number, index * BLOCKS_PER_CHUNK / 64 + i);
            words[i as usize] & !fixed & 1 << bit != 0
        };
        let mut block = 0;
        while block < BLOCKS_PER_CHUNK {
            let count = (block..BLOCKS_PER_CHUNK)
                .take_while(|block| used(*block))
                .take(PIECE_BLOCKS as usize)
                .count();
            if count > 0 {
                self.scrub_extent(chunk / BLOCK + block, count as u64, report, suspects)?;
            }
            block += (count as u64).max(1);
        }
        Ok(chunk + CHUNK)
    }

    fn scrub_extent(
        &self,
        first: u64,
        count: u64,
        report: &mut ScrubReport,
        suspects: &mut Vec<Suspect>,
    ) -> Result<()> {
        match self.shared.state.store.scrub_data(first, count) {
            Ok(done) => {
                report.data += done.good;
                report.without += done.without;
                suspects.extend(done.wrong.into_iter().map(|at| (at, None)));
            }
            // Their checksums are wrong, which is reported there.
            Err(Fault::Damaged { .. }) => {}
            Err(fault) => return Err(fault.into()),
        }
        Ok(())
    }

    fn scrub_metadata_chunk(
        &self,
        chunk: u64,
        report: &mut ScrubReport,
        suspects: &mut Vec<Suspect>,
    ) -> Result<()> {
        for block in 0..BLOCKS_PER_CHUNK {
            let at = chunk + block * BLOCK;
            let kind = if block < CHUNK_HEADER_BLOCKS {
                Ok(BlockKind::ChunkHeader as u8)
            } else {
                self.view(|core| Ok(space::table_entry(core, at)?.get(chunk_entry::KIND)))
            };
            match kind {
                Ok(kind) => {
                    if let Some(kind) = BlockKind::from_number(kind) {
                        self.scrub_metadata(at, kind, report, suspects)?;
                    }
                }
                // The table is wrong, which is reported there.
                Err(error) if error.is_damage() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn scrub_metadata(
        &self,
        at: u64,
        kind: BlockKind,
        report: &mut ScrubReport,
        suspects: &mut Vec<Suspect>,
    ) -> Result<()> {
        match self.shared.state.store.scrub_block(at, kind) {
            Ok(true) => report.metadata += 1,
            Ok(false) => suspects.push((at, Some(kind))),
            Err(Fault::Damaged { .. }) => {}
            Err(fault) => return Err(fault.into()),
        }
        Ok(())
    }

    /// Verifies suspects again while nothing changes, and names their files.
    fn confirm(&self, suspects: Vec<Suspect>) -> Result<Vec<WrongBlock>> {
        if suspects.is_empty() {
            return Ok(Vec::new());
        }
        let mut wrong = Vec::new();
        {
            let shared = &self.shared;
            let store = &shared.state.store;
            let _lock = shared.lock_commits();
            let closed = shared.state.gate.close(store);
            store.settle_data();
            let mut data = BTreeSet::new();
            for (at, kind) in suspects {
                match kind {
                    None if store.scrub_data(at / BLOCK, 1)?.wrong.contains(&at) => drop(data.insert(at)),
                    Some(kind) if !store.scrub_block(at, kind)? => {
                        wrong.push(WrongBlock { at, content: WrongContent::Metadata(kind) });
                    }
                    _ => {}
                }
            }
            let owners = shared.view_exclusive(&closed, |core| owners(core, &data))?;
            wrong.extend(owners.into_iter().map(|(at, (ino, offset))| WrongBlock {
                at,
                content: WrongContent::Data { ino: Ino(ino), offset, path: None },
            }));
        }
        self.name_files(&mut wrong)?;
        Ok(wrong)
    }

    /// Adds paths, in one walk over the names.
    fn name_files(&self, wrong: &mut [WrongBlock]) -> Result<()> {
        let mut files: BTreeMap<u64, Vec<&mut Option<Vec<u8>>>> = BTreeMap::new();
        for block in wrong {
            if let WrongContent::Data { ino, path, .. } = &mut block.content {
                files.entry(ino.0).or_default().push(path);
            }
        }
        let mut directories = vec![(self.root(), Vec::new())];
        let mut seen = BTreeSet::new();
        while let Some((dir, prefix)) = directories.pop() {
            if files.is_empty() || !seen.insert(dir.0) {
                continue;
            }
            let mut cookie = 0;
            // A damaged directory names no more files.
            while let Ok(page) = self.readdir(&Caller::OWNER, dir, cookie, PAGE_ENTRIES) {
                let Some(last) = page.last() else { break };
                cookie = last.cookie;
                for entry in page.iter().filter(|entry| !matches!(entry.name.as_slice(), b"." | b"..")) {
                    let full = [&prefix[..], b"/", &entry.name].concat();
                    if entry.kind == FileKind::Directory {
                        directories.push((entry.ino, full));
                    } else {
                        for path in files.remove(&entry.ino.0).into_iter().flatten() {
                            *path = Some(full.clone());
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// The files that have these blocks as written data, with the offset. The caller has exclusive access.
fn owners(core: &Core<'_>, blocks: &BTreeSet<u64>) -> Outcome<BTreeMap<u64, (u64, u64)>> {
    let mut owners = BTreeMap::new();
    if blocks.is_empty() {
        return Ok(owners);
    }
    let size = core.store.inode_size().bytes();
    for number in 0..core.group_count() {
        let metadata = match space::group(core, number) {
            Ok(view) => view.get(g::METADATA),
            Err(Fault::Damaged { .. }) => continue,
            Err(fault) => return Err(fault),
        };
        for chunk in (0..CHUNKS_PER_GROUP).filter(|chunk| metadata >> chunk & 1 != 0) {
            for slot in CHUNK_HEADER_BLOCKS..BLOCKS_PER_CHUNK {
                let at = (number * BLOCKS_PER_GROUP + chunk * BLOCKS_PER_CHUNK + slot) * BLOCK;
                match space::may_hold_inodes(core, at) {
                    Ok(true) => {}
                    Ok(false) | Err(Fault::Damaged { .. }) => continue,
                    Err(fault) => return Err(fault),
                }
                for ino in at / size..(at + BLOCK) / size {
                    match of_inode(core, ino, blocks, &mut owners) {
                        Ok(()) | Err(Fault::Damaged { .. } | Fault::Code(_)) => {}
                        Err(fault) => return Err(fault),
                    }
                }
            }
        }
    }
    Ok(owners)
}

fn of_inode(
    core: &Core<'_>,
    ino: u64,
    blocks: &BTreeSet<u64>,
    owners: &mut BTreeMap<u64, (u64, u64)>,
) -> Outcome<()> {
    let node = Inode::load(core, ino)?;
    if !matches!(node.kind()?, FileKind::File | FileKind::Symlink) {
        return Ok(());
    }
    for extent in data::extents(core, node)?.into_iter().filter(|extent| !extent.unwritten) {
        let end = extent.position.saturating_add(extent.bytes);
        for at in blocks.range(extent.position..end) {
            owners.insert(*at, (ino, extent.offset + at - extent.position));
        }
    }
    Ok(())
}
