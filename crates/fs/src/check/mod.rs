//! Checks a volume, and repairs it.
//!
//! A check is one pass over the volume. It reads the group table and the chunk tables, surveys the inodes,
//! then visits each inode and walks the structures that it owns: map, attributes, directory. Every block is
//! claimed once, so every walk ends. At last it compares bitmaps, chunk tables, links and counts with the
//! claims.
//!
//! | module | checks |
//! |---|---|
//! | `journal` | the journal, and the place of a new one |
//! | `groups` | the group table and chunk tables as they are; the blocks of inodes |
//! | `inodes` | each inode's fields |
//! | `walk` | each inode in turn: `maps`, `xattrs`, `directories` |
//! | `directories` | one directory: `leaves`, `lists`, `trees` |
//! | `space` | bitmaps and chunk tables against the blocks in use |
//! | `names` | links, parents, reachability |
//!
//! # Repair
//!
//! A pass with the writer's lock repairs as it goes, each step in a transaction of its own. A wrong word is
//! corrected in place; bad pointers become holes; a directory with a broken structure is emptied, and its
//! entries are inserted again in the ordinary way, once bitmaps and chunk tables are correct; an inode
//! without a name goes to lost+found. Then another pass checks the volume, until nothing is found.
//!
//! # Limits
//!
//! File data have no checksum. Nor does a check verify that the bytes after a file's end in its last block
//! are zero, because it would have to read every file. A block of pointers whose chunk table is lost has lost
//! its checksum with it; a repair then accepts it as it is when all its pointers are valid.

mod bits;
mod directories;
mod findings;
mod groups;
mod inode_table;
mod inodes;
mod invariants;
mod journal;
mod journal_state;
mod leaves;
mod lists;
mod maps;
mod names;
mod pass;
mod report;
mod space;
mod sums;
mod trees;
mod volume;
mod walk;
mod xattrs;

use crate::attempt::Core;
use crate::error::Result;
use crate::hints::Hints;
use crate::options::Access;
use crate::prealloc::Prealloc;
use crate::volume::Volume;
use crate::writer::Writer;
use journal_state::JournalState;
use lanefs_format::{BLOCK, Code};
use lanefs_store::Reader;
use pass::Pass;
pub use report::{CheckReport, Finding};
use std::collections::BTreeSet;

/// Most passes of a repair: one repairs the faults that the one before uncovered.
const ROUNDS: usize = 8;

/// The result of a pass, and suspect chunks for the next one.
struct PassResult {
    report: CheckReport,
    suspects: BTreeSet<u64>,
    journal: JournalState,
}

impl Volume {
    /// Checks every invariant of the format; with `repair`, repairs the faults. The volume is locked
    /// meanwhile. `progress` gets the inodes done and all inodes, for each pass.
    ///
    /// A report whose findings are all `repaired` describes a volume that another pass found clean. The
    /// superblock then no longer says that damage was met, unless the volume is open for reading only.
    ///
    /// # Errors
    /// The device's; [`Error::Damaged`](crate::Error::Damaged) for a volume with neither a readable group
    /// table nor a readable metadata chunk; with `repair` also [`Code::ReadOnly`](crate::Code::ReadOnly), and
    /// [`Code::NoSpace`](crate::Code::NoSpace) where lost+found does not fit.
    pub fn check(&self, repair: bool, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<CheckReport> {
        let report = self.check_and_repair(repair, progress)?;
        if report.findings.iter().all(|finding| finding.repaired) {
            self.shared.clear_damage()?;
        }
        Ok(report)
    }

    fn check_and_repair(&self, repair: bool, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<CheckReport> {
        self.sync()?;
        let shared = &self.shared;
        if repair && self.access() == Access::Read {
            return Err(Code::ReadOnly.into());
        }
        let _lock = shared.lock_commits();
        let mut closed = shared.state.gate.close_to_change(&shared.state.store);
        let writer = shared.recall_prealloc(&mut closed)?;
        // Space that other writers freed since counts as used until the device knows.
        shared.commit_exclusive(writer)?;
        let first = self.run_pass(writer, false, BTreeSet::new(), progress)?;
        let mut report = first.report;
        if !repair || report.findings.is_empty() {
            return Ok(report);
        }
        // The journal comes first: the transactions of the repair need it. Only then the volume counts as
        // changed, so that an interruption does not make a closed volume one that lost its log.
        self.renew_journal(first.journal)?;
        shared.begin_changes()?;
        self.update_superblock(|_| ())?;
        let mut suspects = first.suspects;
        for _ in 0..ROUNDS {
            self.run_pass(writer, true, std::mem::take(&mut suspects), progress)
                .map_err(|error| error.at("mending the volume"))?;
            shared.commit_exclusive(writer)?;
            let mut again = self.run_pass(writer, false, BTreeSet::new(), progress)?;
            let found = std::mem::take(&mut again.report.findings);
            report = CheckReport { findings: report.findings, ..again.report };
            if found.is_empty() {
                for finding in &mut report.findings {
                    finding.repaired = true;
                }
                return Ok(report);
            }
            let known: BTreeSet<_> = report.findings.iter().map(|f| (f.at, f.invariant)).collect();
            let mut new = found;
            new.retain(|f| !known.contains(&(f.at, f.invariant)));
            report.findings.append(&mut new);
            suspects = again.suspects;
        }
        Ok(report)
    }

    /// One pass over the volume.
    fn run_pass(
        &self,
        writer: &mut Writer,
        mends: bool,
        suspects: BTreeSet<u64>,
        progress: &dyn Fn(u64, u64),
    ) -> Result<PassResult> {
        let core = Core::new(&self.shared.state, Reader::exclusive(&self.shared.state.store, Some(0)));
        let mut pass = Pass::new(&core, &self.shared, mends.then_some(writer), self.superblock(), suspects);
        self.check_superblock(&mut pass)?;
        let damage = self.shared.journal_damage.lock().clone();
        pass.check_journal(damage)?;
        pass.read_groups()?;
        pass.read_chunks()?;
        pass.check_sums()?;
        pass.survey_inodes()?;
        pass.walk_inodes(progress)?;
        pass.place_journal();
        let free = pass.check_space()?;
        let inodes = pass.inodes.used;
        pass.check_counts(self.shared.state.counts.sum(), free);
        if let Some(writer) = pass.writer.as_deref_mut() {
            // The bitmaps were rebuilt from the blocks in use: preallocated blocks are free.
            (writer.hints, writer.prealloc) = (Hints::default(), Prealloc::default());
            self.shared.state.counts.set(free, inodes);
            // Free space may be used from here on, so the device must know.
            self.shared.commit_exclusive(writer)?;
        }
        pass.put_back()?;
        let new_orphans = pass.check_orphan_directory()?;
        let new_root = pass.check_names_space()?;
        if mends {
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
        let orphans = pass.inodes.listed.iter().filter(|listed| **listed).count() as u64;
        let report = CheckReport { findings, inodes, directories: pass.directories, orphans, blocks };
        Ok(PassResult { report, suspects: pass.suspects, journal: pass.journal })
    }
}
