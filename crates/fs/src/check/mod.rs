//! Checks a volume, and repairs it.
//!
//! A check is one pass over the volume. It reads the group table and the chunk tables, surveys the inodes,
//! then visits each inode and walks the structures that it owns: map, attributes, directory. Every block is
//! claimed once, so every walk ends. At last it compares bitmaps, chunk tables, links and counts with the
//! claims.
//!
//! | module | checks |
//! |---|---|
//! | `journal` | the journal, and the position of a new one |
//! | `groups` | the group table and chunk tables as they are; the blocks of inodes |
//! | `inodes` | each inode's fields |
//! | `walk` | each inode in turn: `maps`, `xattrs`, `directories` |
//! | `owners` | which of two inodes keeps a block that both name |
//! | `directories` | one directory: `leaves`, `lists`, `trees` |
//! | `space` | bitmaps and chunk tables against the blocks in use |
//! | `rebuild` | directories and attributes that a repair makes again |
//! | `names` | links, parents, reachability; `links` counts names |
//! | `lost_and_found` | names for inodes without one |
//!
//! # Repair
//!
//! A pass with the writer's lock repairs as it goes, each step in a transaction of its own. A wrong word is
//! corrected in place; bad pointers become holes; a directory with a broken structure is emptied, and its
//! entries are inserted again in the ordinary way, once bitmaps and chunk tables are correct; an inode
//! without a name goes to lost+found. Then another pass checks the volume, until nothing is found.
//!
//! Repairs without a need of space come first: pointers, bitmaps and chunk tables. They give space back.
//! Where space runs out then, each repair that fails is an [obstacle](CheckReport::obstacles), and the others
//! go on.
//!
//! A block that two inodes name stays with the one that it belongs to ([`owners`]).
//!
//! A repair that ends at any point leaves the volume as it was or repaired so far: what it still needs stays
//! in use until the commit that makes it again.
//!
//! # Memory
//!
//! Memory goes with what an image holds, not with the size that it claims. A pass keeps some bytes for each
//! extent in use, and a bit for each block at most ([`block_set`]); a byte for each inode, 20 bytes more for
//! each directory, and 8 for each block of inodes; names are counted for as many inodes at a time as the
//! caller has memory for, with 4 bytes each. A repair keeps 24 bytes for each metadata block, and commits
//! when its changes fill a part of the journal or of the cache. Blocks stay in the block cache as far as it
//! goes, except those of the directory that is being checked, with 50 bytes for each of its entries: the
//! largest directory must fit. Blocks that are only tried, such as the tables of chunks of which no group
//! says that they have one, never enter it ([`group_block`]). A pass that only checks works in several
//! threads, in batches of blocks or chunks ([`batches`]).
//!
//! # Limits
//!
//! A check reads no file data: it compares no checksums of them, and does not verify that the bytes after a
//! file's end in its last block are zero. A block of pointers whose chunk table is lost has lost
//! its checksum with it; a repair then accepts it as it is when all its pointers are valid.

mod blocks;
mod directories;
mod inodes;
mod outcome;
mod pass;
mod repair;
mod walk;

use crate::attempt::Core;
use crate::mounted::hints::Hints;
use crate::mounted::moves::MoveCause;
use crate::mounted::prealloc::Prealloc;
use crate::mounted::writer::Writer;
use crate::running::volume::Volume;
use crate::vocabulary::error::Result;
use crate::vocabulary::options::Access;
use lanefs_format::{BLOCK, Code};
use lanefs_store::{Reader, Totals};
use outcome::journal_state::JournalState;
use outcome::obstacles::{MAKE_ROOM, Obstacles};
use outcome::progress::Progress;
pub use outcome::report::{CheckReport, Finding};
use pass::{Pass, Tables};
use std::collections::BTreeSet;

/// Most passes of a repair: one repairs the faults that the one before uncovered.
const ROUNDS: usize = 8;
/// Memory for counts of names in bytes, where the caller sets none.
const NAME_COUNT_BYTES: u64 = 1 << 30;
/// Metadata chunks below which threads cost more than they save.
const SMALL: usize = 32;

/// Options of a check.
pub struct CheckOptions<'p> {
    /// Repair the faults.
    pub repair: bool,
    /// Memory in bytes, of which a quarter counts names; `None`: 1 GiB for that. Where it is too little for
    /// the inodes of the volume, the leaf blocks are read several times. The block cache is apart
    /// ([`OpenOptions::cache`](crate::OpenOptions::cache)), and so are the tables whose size follows from the
    /// volume: a bit for each block in use, a byte for each inode, 20 for each directory.
    pub memory: Option<u64>,
    /// Threads; 0: one for each processor, or a single one for a small volume. A repair uses one.
    pub threads: usize,
    /// Called often, with the units of work that are done and all units, for each pass.
    pub progress: &'p (dyn Fn(u64, u64) + Sync),
}

impl CheckOptions<'_> {
    /// Number of inodes whose names are counted at a time.
    fn names_at_once(&self) -> usize {
        let bytes = self.memory.map_or(NAME_COUNT_BYTES, |memory| memory / 4);
        usize::try_from(bytes / 4).unwrap_or(usize::MAX)
    }

    fn threads(&self, metadata_chunks: usize) -> usize {
        match self.threads {
            0 if metadata_chunks < SMALL => 1,
            0 => std::thread::available_parallelism().map_or(1, |count| count.get()),
            threads => threads,
        }
    }
}

/// The result of a pass, and suspect chunks for the next one.
struct PassResult {
    /// Without obstacles.
    report: CheckReport,
    obstacles: Obstacles,
    suspects: BTreeSet<u64>,
    journal: JournalState,
}

/// # Check and repair
impl Volume {
    /// Checks every invariant of the format; with `repair`, repairs the faults. See
    /// [`check_with`](Self::check_with).
    ///
    /// # Errors
    /// As [`check_with`](Self::check_with).
    pub fn check(&self, repair: bool, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<CheckReport> {
        self.check_with(&CheckOptions { repair, memory: None, threads: 0, progress })
    }

    /// Checks every invariant of the format; repairs the faults if the options say so. The volume is locked
    /// meanwhile.
    ///
    /// A report whose findings are all `repaired` describes a volume that another pass found clean. The
    /// superblock then no longer says that damage was met, unless the volume is open for reading only.
    ///
    /// # Errors
    /// The device's; [`Error::Image`](crate::Error::Image) for a [join](Volume::is_joined);
    /// [`Error::Damaged`](crate::Error::Damaged) for a volume with neither a readable group table nor a
    /// readable metadata chunk; of a repair also [`Code::ReadOnly`](crate::Code::ReadOnly). A
    /// repair that the volume has no space for is none: the others are made, and
    /// [`obstacles`](CheckReport::obstacles) says what is left.
    pub fn check_with(&self, options: &CheckOptions<'_>) -> Result<CheckReport> {
        let report = self.check_and_repair(options)?;
        if report.findings.iter().all(|finding| finding.repaired) {
            self.shared.clear_damage()?;
        }
        Ok(report)
    }

    fn check_and_repair(&self, options: &CheckOptions<'_>) -> Result<CheckReport> {
        self.refuse_join("is as sound as they are")?;
        self.sync()?;
        let shared = &self.shared;
        if options.repair && self.access() == Access::Read {
            return Err(Code::ReadOnly.into());
        }
        let _lock = shared.lock_commits();
        let mut closed = shared.state.gate.close_to_change(&shared.state.store);
        let writer = shared.recall_prealloc(&mut closed)?;
        // Space that other writers freed since counts as used until the device knows.
        shared.commit_exclusive(writer)?;
        let first = self.run_pass(writer, false, BTreeSet::new(), options)?;
        if options.repair && first.report.findings.is_empty() && !self.superblock().clean {
            // A volume that was not closed is sound; the end of this use closes it.
            shared.begin_changes()?;
        }
        if !options.repair || first.report.findings.is_empty() {
            return Ok(first.report);
        }
        // The journal comes first: the transactions of the repair need it. Only then the volume counts as
        // changed, so that an interruption does not make a closed volume one that lost its log.
        self.renew_journal(first.journal)?;
        shared.begin_changes()?;
        self.update_superblock(|_| ())?;
        // A repair removes names without a look at what they name.
        let moves = &shared.state.directories.moves;
        moves.note();
        let _moving = moves.begin(MoveCause::Repair);
        self.repair(writer, first, options)
    }

    /// Repairs what a pass has found, and what the next ones find, until nothing is found any more.
    fn repair(
        &self,
        writer: &mut Writer,
        first: PassResult,
        options: &CheckOptions<'_>,
    ) -> Result<CheckReport> {
        let PassResult { mut report, mut suspects, .. } = first;
        let keys = |findings: &[Finding]| -> BTreeSet<(u64, &'static str)> {
            findings.iter().map(|finding| (finding.at, finding.invariant)).collect()
        };
        let mut before = BTreeSet::new();
        for _ in 0..ROUNDS {
            let done = self
                .run_pass(writer, true, std::mem::take(&mut suspects), options)
                .map_err(|error| error.at("mending the volume"))?;
            self.shared.commit_exclusive(writer)?;
            let mut again = self.run_pass(writer, false, BTreeSet::new(), options)?;
            let found = std::mem::take(&mut again.report.findings);
            report = CheckReport { findings: report.findings, ..again.report };
            let (known, now) = (keys(&report.findings), keys(&found));
            report.findings.extend(found.into_iter().filter(|f| !known.contains(&(f.at, f.invariant))));
            for finding in &mut report.findings {
                finding.repaired = !now.contains(&(finding.at, finding.invariant));
            }
            let mut obstacles = done.obstacles;
            if again.journal == JournalState::Damaged(None) {
                obstacles.note(format!("the journal: no space for a new one; {MAKE_ROOM}"));
            }
            report.obstacles = obstacles.into_list();
            if now.is_empty() {
                report.obstacles.clear();
                return Ok(report);
            }
            if now == before {
                // Another round would do the same again.
                return Ok(report);
            }
            (before, suspects) = (now, again.suspects);
        }
        Ok(report)
    }

    /// One pass over the volume.
    fn run_pass(
        &self,
        writer: &mut Writer,
        mends: bool,
        suspects: BTreeSet<u64>,
        options: &CheckOptions<'_>,
    ) -> Result<PassResult> {
        let core = Core::new(&self.shared.state, Reader::exclusive(&self.shared.state.store, Some(0)));
        let writer = mends.then_some(writer);
        let mut pass = Pass::new(&core, &self.shared, writer, self.superblock(), Tables::new(&core));
        pass.suspects = suspects;
        let progress = Progress::new(options.progress);
        self.check_superblock(&mut pass)?;
        let damage = self.shared.journal_damage.lock().clone();
        pass.check_journal(damage)?;
        pass.read_groups()?;
        pass.threads = options.threads(pass.metadata_chunks().len());
        pass.read_chunks()?;
        pass.check_sums()?;
        pass.survey_inodes()?;
        let inodes = pass.used_inodes;
        progress.begin(0, 2 * inodes);
        pass.walk_inodes(&progress)?;
        pass.place_journal();
        let free = pass.check_space()?;
        pass.check_counts(self.shared.state.counts.sum(), free);
        if let Some(writer) = pass.writer.as_deref_mut() {
            // The bitmaps were rebuilt from the blocks in use: preallocated blocks are free.
            (writer.hints, writer.prealloc) = (Hints::default(), Prealloc::default());
            self.shared.state.counts.set(Totals { free_blocks: free, inodes });
            // Free space may be used from here on, so the device must know.
            self.shared.commit_exclusive(writer)?;
        }
        pass.rebuild()?;
        let new_orphans = pass.check_orphan_directory()?;
        progress.begin(inodes, 2 * inodes);
        let new_root = pass.check_names_space(options.names_at_once(), &progress)?;
        if let Some(writer) = pass.writer.as_deref_mut() {
            // The superblock names an inode only when the device has it.
            self.shared.commit_exclusive(writer)?;
            if let Some(root) = new_root {
                self.set_root(root);
            }
            if let Some(orphans) = new_orphans {
                self.set_orphans(orphans);
            }
            self.update_superblock(|_| ())?;
        } else {
            pass.check_suspects()?;
        }
        let (mut findings, more) = (pass.findings.list, pass.findings.more);
        if let Some(last) = findings.last_mut().filter(|_| more > 0) {
            last.text = format!("{} (and {more} more findings)", last.text);
        }
        let blocks = self.shared.state.store.bytes() / BLOCK - free;
        let (directories, orphans) = (pass.directories, pass.orphans);
        let (notes, obstacles) = (std::mem::take(&mut pass.notes), Vec::new());
        let report = CheckReport { findings, obstacles, notes, inodes, directories, orphans, blocks };
        let (obstacles, suspects, journal) = (pass.obstacles, pass.suspects, pass.journal);
        Ok(PassResult { report, obstacles, suspects, journal })
    }
}
