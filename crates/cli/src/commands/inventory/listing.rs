//! The walk of an inventory.

use super::rows::{OwnerNames, Rows};
use super::table::Table;
use crate::common::search_files::keep;
use crate::common::walk::{Visit, Walk, WalkOptions};
use crate::session::context::Context;
use crate::session::expansion::ExpansionArgs;
use crate::terminal::failure::{Failure, Outcome};
use crate::terminal::interrupt;
use crate::terminal::progress::Progress;
use lanefs::{Attr, FileKind};
use lanefs_search::{Candidate, ContentHash, Selection, hash_files};
use std::io;

/// Advice on a file that is not hashed.
const TOO_LARGE: &str = "it has no hash; --max-expansion 0 reads it";

/// Names of a tree, on their way to a table.
pub(super) struct Listing<'l> {
    pub(super) selection: Selection,
    /// The engine that hashes contents, if they are hashed.
    pub(super) digest: Option<&'l dyn ContentHash>,
    pub(super) threads: usize,
    pub(super) expansion: ExpansionArgs,
    pub(super) progress: Progress,
}

/// Files of the rows to come, and the index of the row of each.
#[derive(Default)]
struct FilesOfRows {
    files: Vec<Candidate>,
    rows: Vec<usize>,
}

impl Listing<'_> {
    /// Writes a row for each name below `path`, and one for itself.
    ///
    /// # Errors
    /// Failures that end the command; `failed` says those of the table.
    pub(super) fn write(
        mut self,
        context: &mut Context<'_>,
        path: &[u8],
        start: &Attr,
        mut table: Table,
        failed: &dyn Fn(io::Error) -> Failure,
    ) -> Result<Table, Failure> {
        let (mut rows, mut files) = (Rows::default(), FilesOfRows::default());
        let mut names = OwnerNames::default();
        let mut walk = Walk::new(context.volume, path, start.ino, start.kind, WalkOptions::default());
        while let Some(step) = walk.advance(context)? {
            if step.visit == Visit::Leave {
                continue;
            }
            let is_chosen = match step.kind {
                _ if step.depth == 0 => true,
                FileKind::Directory => self.selection.enters(walk.path()),
                _ => self.selection.takes(walk.path()),
            };
            if !is_chosen {
                if step.kind == FileKind::Directory {
                    walk.skip();
                }
                continue;
            }
            let attr = match context.attr(walk.path(), step.ino) {
                Ok(attr) => attr,
                Err(failure) => {
                    context.go_on(Err(failure))?;
                    continue;
                }
            };
            if self.digest.is_some() && attr.kind == FileKind::File {
                let outcome = self.add(context, walk.path(), &attr, rows.len(), &mut files);
                context.go_on(outcome)?;
            }
            rows.push(walk.path(), &attr, &mut names);
            self.progress.tick();
            if rows.is_full() {
                self.flush(context, &mut rows, &mut files, &mut table, failed)?;
            }
        }
        self.flush(context, &mut rows, &mut files, &mut table, failed)?;
        Ok(table)
    }

    /// Adds a file that is to be hashed.
    fn add(
        &self,
        context: &Context<'_>,
        path: &[u8],
        attr: &Attr,
        row: usize,
        files: &mut FilesOfRows,
    ) -> Outcome {
        let bytes = context.volume.superblock().volume_bytes;
        self.expansion.check(bytes, path, attr.size, TOO_LARGE)?;
        let path = path.to_vec();
        files.files.push(Candidate { path, shown: None, ino: attr.ino, size: attr.size, is_named: false });
        files.rows.push(row);
        Ok(())
    }

    /// Writes rows, with hashes if there are to be any.
    fn flush(
        &self,
        context: &mut Context<'_>,
        rows: &mut Rows,
        files: &mut FilesOfRows,
        table: &mut Table,
        failed: &dyn Fn(io::Error) -> Failure,
    ) -> Outcome {
        let (mut rows, files) = (std::mem::take(rows), std::mem::take(files));
        if let Some(hasher) = self.digest {
            let paths: Vec<Vec<u8>> = files.files.iter().map(|file| file.path.clone()).collect();
            let stops = interrupt::flag();
            let hashes = hash_files(hasher, context.volume, files.files, self.threads, &stops);
            let hashes = hashes.map_err(|_| Failure::Interrupted)?;
            let mut found = vec![None; rows.len()];
            let mut failures = Vec::new();
            for ((path, row), hash) in paths.iter().zip(files.rows).zip(hashes) {
                match hash {
                    Ok(hash) => found[row] = Some(hash),
                    Err(error) if keep(&mut failures, path, &error) => {}
                    Err(_) => break,
                }
            }
            for failure in failures {
                context.go_on(Err(failure))?;
            }
            found.iter().for_each(|hash| rows.push_digest(hash.as_ref()));
        }
        if rows.len() == 0 { Ok(()) } else { table.write(rows).map_err(failed) }
    }
}
