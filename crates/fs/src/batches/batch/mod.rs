//! Batches of paths.
//!
//! A lookup is a chain of dependent memory accesses, and its cost is the wait for memory. So a batch keeps
//! many lookups in flight, and walks as little as it can: the [directory-path table](crate::mounted::dir_table) leads
//! to the directory of a path at once, and only the last name is looked up.
//!
//! | module | |
//! |---|---|
//! | `prefixes` | splits the paths of a block, and finds their directories in the table |
//! | `hash` | hashes of names, side by side |
//! | `lanes` | lookups in flight, as small state machines |
//!
//! Paths that are not plain (links, `.` and `..`, a caller with an identity) are resolved one by one, with
//! the same results.

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
use crate::vocabulary::columns::{ColumnsMut, Resolutions, Rows};
use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::path_set::{PathSet, Paths};
use crate::vocabulary::types::{Ino, Resolution, ResolveOptions};
use lanefs_format::Code;
use lanefs_store::Reader;
use lanes::LookupBatch;

/// Paths that are split and hashed at a time: their components fit into the first-level cache.
const BLOCK_OF_PATHS: usize = 256;

/// Lookups in flight, and paths of an attempt while writers are active.
const LANES: usize = 32;

/// Attempts at a block whose lookups miss: the blocks that they need are fetched together. A lookup needs
/// some four blocks, one after the other, and more for each directory on the way.
const ROUNDS: usize = 24;

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
        let root = self.root().0;
        let start = Start {
            root,
            base: options.base.map_or(root, |ino| ino.0),
            follow: options.follow,
            caller: &options.caller,
        };
        let mut batch = LookupBatch::new(&start, !rows.wants().attributes().is_empty());
        let mut found = 0;
        for first in (0..paths.len()).step_by(BLOCK_OF_PATHS) {
            let block = paths.slice(first..paths.len().min(first + BLOCK_OF_PATHS));
            if options.caller.user.is_none() {
                found += self.resolve_block(&mut batch, block, first, rows)?;
            } else {
                for (i, path) in block.iter().enumerate() {
                    found += self.one(&start, path, first + i, rows)?;
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
        block: Paths<'p>,
        first: usize,
        rows: &mut (impl Rows + ?Sized),
    ) -> Result<usize> {
        let state = &self.shared.state;
        let size = if Reader::reading(&state.store).is_quiet() { BLOCK_OF_PATHS } else { LANES };
        let mut found = 0;
        for at in (0..block.len()).step_by(size) {
            let paths = block.slice(at..block.len().min(at + size));
            for _ in 0..ROUNDS {
                // A directory that moves meanwhile is a reason to try again once, not to give up the batch.
                if !self.attempt(batch, paths, first + at, rows)
                    && !self.attempt(batch, paths, first + at, rows)
                {
                    batch.discard();
                }
                let misses = batch.take_misses();
                // In a cache that is too small for all of them, each path is resolved by itself.
                if misses.is_empty() || misses.len() as u64 > state.store.stats().blocks_allowed / 4 {
                    break;
                }
                state.store.fetch_many(&misses);
            }
            for i in 0..paths.len() {
                found += match batch.is_found(i) {
                    Some(is_found) => usize::from(is_found),
                    None => self.one(batch.start(), paths.get(i).unwrap_or(&[]), first + at + i, rows)?,
                };
            }
        }
        Ok(found)
    }

    /// Makes one attempt at a block. Returns false where a directory has moved meanwhile: then nothing holds.
    fn attempt<'s, 'p>(
        &'s self,
        batch: &mut LookupBatch<'s, 'p>,
        paths: Paths<'p>,
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
