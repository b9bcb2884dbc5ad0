//! Engines answer batches of lookups: the volume itself, a device beside it, or a program's own layer before
//! both.

use crate::running::volume::Volume;
use crate::vocabulary::as_path::AsPath;
use crate::vocabulary::columns::{ColumnsMut, Resolutions, Rows};
use crate::vocabulary::error::Result;
use crate::vocabulary::name_set::NamesUnder;
use crate::vocabulary::path_set::{PathSet, Paths};
use crate::vocabulary::types::{Resolution, ResolveOptions};
use lanefs_format::Code;

/// Counts of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchReport {
    /// Paths answered by a device.
    pub by_device: u64,
    /// Paths answered by the CPU engine: all of them without a device. A device leaves open links whose
    /// targets are long, and blocks that are not in its memory.
    pub by_host: u64,
    /// Paths that name an inode; 0 where the batch is not one of paths.
    pub found: u64,
    /// Blocks copied to the device before it.
    pub copied: u64,
}

impl BatchReport {
    /// Adds the counts of another batch.
    pub fn add(&mut self, other: BatchReport) {
        self.by_device += other.by_device;
        self.by_host += other.by_host;
        self.found += other.found;
        self.copied += other.copied;
    }
}

/// An engine that resolves batches of paths: a [`Volume`], or a device beside it. All give the same answers.
///
/// One method is to be written; [`EngineExt`] makes the others of it, also for `&dyn Engine`:
///
/// ```
/// use lanefs::{CreateOptions, Engine, EngineExt, ResolveOptions, Volume};
///
/// # fn main() -> lanefs::Result<()> {
/// let volume = Volume::create_memory(&CreateOptions { size: 64 << 20, ..CreateOptions::default() })?;
/// volume.write_file("/a", b"")?;
/// let engine: &dyn Engine = &volume;
/// let (answers, report) = engine.resolve_batch(&ResolveOptions::default(), &["/a", "/b"])?;
/// assert!(answers[0].ino.is_some() && answers[1].ino.is_none());
/// assert_eq!((report.found, report.by_host), (1, 2));
/// # Ok(())
/// # }
/// ```
pub trait Engine {
    /// Resolves paths for any receiver of answers, which gets one for each path.
    ///
    /// # Errors
    /// An error of the volume, which may be that of one path; all others are in the answers. A
    /// [`LookupService`](crate::LookupService) asks for each path of a batch that failed, except after
    /// [`Error::Io`](crate::Error::Io), which it gives to all of them.
    fn resolve_rows(
        &self,
        options: &ResolveOptions,
        paths: Paths<'_>,
        rows: &mut dyn Rows,
    ) -> Result<BatchReport>;

    /// Resolves names under directories, with the answers that [`resolve_rows`](Self::resolve_rows) gives to
    /// their whole paths, which this puts together; an engine may do better.
    ///
    /// # Errors
    /// As [`resolve_rows`](Self::resolve_rows).
    fn resolve_names(
        &self,
        options: &ResolveOptions,
        names: NamesUnder<'_>,
        rows: &mut dyn Rows,
    ) -> Result<BatchReport> {
        self.resolve_rows(options, names.to_paths().view(), rows)
    }
}

/// Calls of every [`Engine`], made of its one method.
pub trait EngineExt: Engine {
    /// Resolves paths and writes the answers to columns, whose kinds decide what is read:
    /// [`ResolveOptions::attributes`] does not matter.
    ///
    /// # Errors
    /// As [`resolve_rows`](Engine::resolve_rows); [`Code::Invalid`] for a column that is too short.
    fn resolve_into<'p>(
        &self,
        options: &ResolveOptions,
        paths: impl Into<Paths<'p>>,
        columns: &mut ColumnsMut<'_>,
    ) -> Result<BatchReport> {
        let paths = paths.into();
        columns.check(paths.len())?;
        self.resolve_rows(options, paths, columns)
    }

    /// As [`resolve_into`](Self::resolve_into), for names under directories.
    ///
    /// # Errors
    /// As there.
    fn resolve_names_into<'n>(
        &self,
        options: &ResolveOptions,
        names: impl Into<NamesUnder<'n>>,
        columns: &mut ColumnsMut<'_>,
    ) -> Result<BatchReport> {
        let names = names.into();
        columns.check(names.len())?;
        self.resolve_names(options, names, columns)
    }

    /// Resolves paths, and lists the answers in their order. The paths are copied into a [`PathSet`] first.
    ///
    /// # Errors
    /// As [`resolve_rows`](Engine::resolve_rows).
    fn resolve_batch<P: AsPath>(
        &self,
        options: &ResolveOptions,
        paths: &[P],
    ) -> Result<(Vec<Resolution>, BatchReport)> {
        let paths: PathSet = paths.iter().collect();
        let mut list = vec![Resolution::failed(Code::NotResident); paths.len()];
        let mut rows = Resolutions { list: &mut list, attributes: options.attributes };
        let report = self.resolve_rows(options, paths.view(), &mut rows)?;
        Ok((list, report))
    }
}

impl<E: Engine + ?Sized> EngineExt for E {}

/// The CPU engine.
impl Engine for Volume {
    fn resolve_rows(
        &self,
        options: &ResolveOptions,
        paths: Paths<'_>,
        rows: &mut dyn Rows,
    ) -> Result<BatchReport> {
        let found = Volume::resolve_rows(self, options, paths, rows)? as u64;
        Ok(BatchReport { by_host: paths.len() as u64, found, ..BatchReport::default() })
    }

    fn resolve_names(
        &self,
        options: &ResolveOptions,
        names: NamesUnder<'_>,
        rows: &mut dyn Rows,
    ) -> Result<BatchReport> {
        let found = Volume::resolve_names(self, options, names, rows)? as u64;
        Ok(BatchReport { by_host: names.len() as u64, found, ..BatchReport::default() })
    }
}
