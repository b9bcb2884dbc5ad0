//! Batches of paths.
//!
//! A lookup is a chain of dependent memory accesses, and its cost is the wait for memory. So a batch keeps
//! many lookups in flight, and walks as little as it can: the [directory-path table](crate::mounted::dir_table) leads
//! to the directory of a path at once, and only the last name is looked up.
//!
//! | module | |
//! |---|---|
//! | `asked` | the paths of a batch, whole or as names under directories |
//! | `prefixes` | splits the paths of a block, and finds their directories in the table |
//! | `hash` | hashes of names, side by side |
//! | `lanes` | lookups in flight, as small state machines |
//!
//! Paths that come as names under directories have each directory resolved once, and then a probe a name:
//! what an attempt has found of the directories holds for the next ones of the batch in the same epoch of the
//! directory tree, as the table's facts do.
//!
//! Paths that are not plain (links, `.` and `..`, a caller with an identity) are resolved one by one, with
//! the same results.

mod asked;
mod hash;
mod lanes;
mod prefixes;
#[cfg(test)]
mod tests;

use crate::attempt::Core;
use crate::files::inode::Inode;
use crate::mounted::dir_table::DirectoryTableStats;
use crate::names::resolve::{self, Start};
use crate::running::volume::Volume;
use crate::vocabulary::as_path::AsPath;
use crate::vocabulary::columns::{ColumnSet, ColumnsMut, Resolutions, Rows};
use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::name_set::NamesUnder;
use crate::vocabulary::path_set::{PathSet, Paths};
use crate::vocabulary::types::{Attr, Caller, Ino, Resolution, ResolveOptions};
use asked::Asked;
use lanefs_format::{Code, FileKind};
use lanefs_store::Reader;
use lanes::LookupBatch;

/// Paths that are split and hashed at a time: their components fit into the first-level cache.
const BLOCK_OF_PATHS: usize = 256;

/// Lookups in flight, and paths of an attempt while writers are active.
const LANES: usize = 32;

/// Attempts at a block whose lookups miss: the blocks that they need are fetched together. A lookup needs
/// some four blocks, one after the other, and more for each directory on the way.
const ROUNDS: usize = 24;

/// The directories of paths, by row.
struct DirectoryRows(Vec<Option<Ino>>);

impl Rows for DirectoryRows {
    fn wants(&self) -> ColumnSet {
        ColumnSet::ENTRIES
    }

    fn found(&mut self, row: usize, ino: Ino, kind: FileKind, _: Option<&Attr>) {
        self.0[row] = (kind == FileKind::Directory).then_some(ino);
    }

    fn failed(&mut self, row: usize, _: Code) {
        self.0[row] = None;
    }
}

/// # Many paths in a call
impl Volume {
    /// Resolves many paths at once. The results are in the order of the paths, and one bad path never affects
    /// another.
    ///
    /// Paths are bytes; `a//b`, `.`, `..` and a slash at the end mean what POSIX says. The paths are copied
    /// into a [`PathSet`] first; [`resolve_into`](Self::resolve_into) takes one, and writes no more than what
    /// is wanted.
    ///
    /// # Errors
    /// Only the device's, or those of a damaged volume where no single path is to blame; all others are in
    /// the results.
    pub fn resolve_batch<P: AsPath>(&self, options: &ResolveOptions, paths: &[P]) -> Result<Vec<Resolution>> {
        let paths: PathSet = paths.iter().collect();
        let mut list = vec![Resolution::failed(Code::NotResident); paths.len()];
        let mut rows = Resolutions { list: &mut list, attributes: options.attributes };
        self.resolve_rows(options, paths.view(), &mut rows)?;
        Ok(list)
    }

    /// Resolves many paths at once, as [`resolve_batch`](Self::resolve_batch), and writes the answers to
    /// columns, whose kinds decide what is read: [`ResolveOptions::attributes`] does not matter. Returns the
    /// number of paths that name an inode.
    ///
    /// # Errors
    /// As [`resolve_batch`](Self::resolve_batch); [`Code::Invalid`] for a column that is too short.
    pub fn resolve_into<'p>(
        &self,
        options: &ResolveOptions,
        paths: impl Into<Paths<'p>>,
        columns: &mut ColumnsMut<'_>,
    ) -> Result<usize> {
        let paths = paths.into();
        columns.check(paths.len())?;
        self.resolve_rows(options, paths, columns)
    }

    /// Resolves paths for any receiver of answers, which gets one for each path. Returns the number of paths
    /// that name an inode.
    ///
    /// # Errors
    /// As [`resolve_batch`](Self::resolve_batch).
    pub fn resolve_rows(
        &self,
        options: &ResolveOptions,
        paths: Paths<'_>,
        rows: &mut (impl Rows + ?Sized),
    ) -> Result<usize> {
        self.resolve_asked(options, Asked::Paths(paths), rows)
    }

    /// Resolves names under directories, with the answers that [`resolve_rows`](Self::resolve_rows) gives to
    /// their whole paths. Each directory is walked once, if its path has no links, `.` or `..`.
    ///
    /// # Errors
    /// As [`resolve_batch`](Self::resolve_batch).
    pub fn resolve_names(
        &self,
        options: &ResolveOptions,
        names: NamesUnder<'_>,
        rows: &mut (impl Rows + ?Sized),
    ) -> Result<usize> {
        self.resolve_asked(options, Asked::Names(names), rows)
    }

    /// Finds the directories of paths that lead through directories alone, without links, `.` and `..`, as a
    /// caller without an identity; `None` for all others. For relative paths `base` is where they begin
    /// [default: the root]. Two calls of [`Watch::changes`](crate::Watch::changes) that give the same number,
    /// one before and one after this call, tell that the paths have led to these directories between them.
    ///
    /// # Errors
    /// As [`resolve_batch`](Self::resolve_batch).
    pub fn plain_directories(&self, base: Option<Ino>, directories: Paths<'_>) -> Result<Vec<Option<Ino>>> {
        let root = self.root();
        let base = base.unwrap_or(root);
        let start = Start { root: root.0, base: base.0, follow: false, caller: &Caller::OWNER };
        let mut found = DirectoryRows(vec![None; directories.len()]);
        // A slash at the end says nothing more of a directory.
        let end = |path: &[u8]| path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        let trimmed: PathSet = directories.iter().map(|path| &path[..end(path)]).collect();
        let (paths, mut batch) = (trimmed.view(), LookupBatch::new(&start, false));
        for first in (0..paths.len()).step_by(BLOCK_OF_PATHS) {
            let block = paths.slice(first..paths.len().min(first + BLOCK_OF_PATHS));
            self.resolve_plain(&mut batch, Asked::Paths(block), first, &mut found);
            for i in 0..block.len() {
                let row = &mut found.0[first + i];
                // A discarded attempt may have left an answer.
                row.take_if(|_| batch.is_found(i) != Some(true));
                if block.get(i).is_some_and(<[u8]>::is_empty) {
                    let is_absolute = directories.get(first + i).is_some_and(|path| !path.is_empty());
                    *row = Some(if is_absolute { root } else { base });
                }
            }
        }
        Ok(found.0)
    }

    fn resolve_asked(
        &self,
        options: &ResolveOptions,
        asked: Asked<'_>,
        rows: &mut (impl Rows + ?Sized),
    ) -> Result<usize> {
        let root = self.root().0;
        let start = Start {
            root,
            base: options.base.map_or(root, |ino| ino.0),
            follow: options.follow,
            caller: &options.caller,
        };
        let mut batch = LookupBatch::new(&start, !rows.wants().attributes().is_empty());
        let (mut found, mut buffer) = (0, Vec::new());
        for first in (0..asked.len()).step_by(BLOCK_OF_PATHS) {
            let block = asked.slice(first..asked.len().min(first + BLOCK_OF_PATHS));
            if options.caller.user.is_none() {
                found += self.resolve_block(&mut batch, block, first, rows)?;
            } else {
                for i in 0..block.len() {
                    found += self.one(&start, block.path(i, &mut buffer), first + i, rows)?;
                }
            }
        }
        Ok(found)
    }

    /// Resolves the paths of a block: the plain ones in one attempt, or in several small ones while writers
    /// are active, because a conflict with a writer discards the whole attempt; the others one by one.
    fn resolve_block<'s, 'p>(
        &'s self,
        batch: &mut LookupBatch<'s, 'p>,
        block: Asked<'p>,
        first: usize,
        rows: &mut (impl Rows + ?Sized),
    ) -> Result<usize> {
        let state = &self.shared.state;
        let size = if Reader::reading(&state.store).is_quiet() { BLOCK_OF_PATHS } else { LANES };
        let (mut found, mut buffer) = (0, Vec::new());
        for at in (0..block.len()).step_by(size) {
            let paths = block.slice(at..block.len().min(at + size));
            self.resolve_plain(batch, paths, first + at, rows);
            for i in 0..paths.len() {
                found += match batch.is_found(i) {
                    Some(is_found) => usize::from(is_found),
                    None => self.one(batch.start(), paths.path(i, &mut buffer), first + at + i, rows)?,
                };
            }
        }
        Ok(found)
    }

    /// Resolves the plain paths of a part of a block; the others stay open.
    fn resolve_plain<'s, 'p>(
        &'s self,
        batch: &mut LookupBatch<'s, 'p>,
        paths: Asked<'p>,
        first: usize,
        rows: &mut (impl Rows + ?Sized),
    ) {
        let store = &self.shared.state.store;
        for _ in 0..ROUNDS {
            // A directory that moves meanwhile is a reason to try again once, not to give up the batch.
            if !self.attempt(batch, paths, first, rows) && !self.attempt(batch, paths, first, rows) {
                batch.discard();
            }
            let misses = batch.take_misses();
            // In a cache that is too small for all of them, each path is resolved by itself.
            if misses.is_empty() || misses.len() as u64 > store.stats().blocks_allowed / 4 {
                break;
            }
            store.fetch_many(&misses);
        }
    }

    /// Makes one attempt at a block. Returns false where a directory has moved meanwhile: then nothing holds.
    fn attempt<'s, 'p>(
        &'s self,
        batch: &mut LookupBatch<'s, 'p>,
        paths: Asked<'p>,
        first: usize,
        rows: &mut (impl Rows + ?Sized),
    ) -> bool {
        let state = &self.shared.state;
        let table = state.directories.begin();
        let core = Core::new(state, Reader::reading(&state.store));
        batch.resolve(&core, table, paths, first, rows);
        if core.store.validate().is_err() {
            batch.discard();
        } else if !core.store.is_quiet() {
            state.gate.try_quiesce(&core.store);
        }
        let Some(table) = table else { return true };
        let (hits, misses) = batch.probes();
        state.directories.count(hits, misses);
        let is_valid = table.is_valid();
        if is_valid {
            batch.learn(&table);
        }
        is_valid
    }

    /// Resolves one path; misses are fetched. Returns the number of inodes found.
    fn one(
        &self,
        start: &Start<'_>,
        path: &[u8],
        row: usize,
        rows: &mut (impl Rows + ?Sized),
    ) -> Result<usize> {
        let attributes = !rows.wants().attributes().is_empty();
        let found = self.view(|core| {
            let (ino, kind) = resolve::resolve(core, start, path)?;
            let attr = if attributes { Some(Inode::load(core, ino)?.attr()?) } else { None };
            Ok((Ino(ino), kind, attr))
        });
        match found {
            Ok((ino, kind, attr)) => {
                rows.found(row, ino, kind, attr.as_ref());
                return Ok(1);
            }
            Err(Error::Code(code)) => rows.failed(row, code),
            Err(Error::Damaged { .. }) => rows.failed(row, Code::InvariantViolated),
            Err(error) => return Err(error),
        }
        Ok(0)
    }

    /// Counts the paths in the directory-path table, and its use.
    pub fn directory_table(&self) -> DirectoryTableStats {
        self.shared.state.directories.stats()
    }
}
