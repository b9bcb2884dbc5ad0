//! The class `lanefs._lanefs.Volume`: one call of the library each, with paths as bytes.

use crate::batches::{self, ReadCall};
use crate::columns::Columns;
use crate::engine::{OpenError, OpenVolume};
use crate::error;
use crate::handle::{Handle, HandleError, Recipe, Source};
use crate::path_set::PathSet;
use crate::publication::{self, Remote, RemoteError};
use crate::signals::Signals;
use crate::views::Views;
use lanefs::{
    Access, Attr, ByteRange, Caller, Code, DirEntry, FileKind, Ino, MkdirAll, RenameMode, ResolveOptions,
    SetAttr, Time, WriteMany,
};
use lanefs_gpu::EngineChoice;
use lanefs_publish::MIN_CACHE;
use numpy::{IntoPyArray, PyArray1, PyReadwriteArray1};
use pyo3::exceptions::{PyRuntimeError, PyRuntimeWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Entries in one read of a directory.
const PAGE_ENTRIES: usize = 4096;

/// Levels of compression.
const LEVELS: std::ops::RangeInclusive<i32> = 1..=19;

/// `ENODEV`, for an engine without its device.
const NO_DEVICE: i32 = 19;
/// `EACCES`, for a cache that cannot be used.
const ACCESS: i32 = 13;

pub(crate) const OWNER: &Caller = &Caller::OWNER;

/// Bytes of many files, their offsets and codes.
type ReadArrays<'py> = (Bound<'py, PyArray1<u8>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<u8>>);

/// Offsets of many files, and their codes.
pub(crate) type LaidOut<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<u8>>);

/// Directory and bytes of the local cache, and the endpoint.
type StoreOptions = (Option<PathBuf>, Option<u64>, Option<String>);

/// Numbers of a `stat`, and its times in nanoseconds since 1970.
type StatNumbers = ([u64; 10], [i64; 4]);

/// A volume, across forks of the process.
#[pyclass(frozen, module = "lanefs._lanefs")]
pub(crate) struct Volume {
    /// Taken by `drop` only.
    handle: Option<Handle>,
}

impl Drop for Volume {
    fn drop(&mut self) {
        let handle = self.handle.take();
        // Closing a volume waits for its device, and other threads go on meanwhile. At the end of the
        // interpreter there are none.
        let mut handle = Some(handle);
        if Python::try_attach(|py| py.detach(|| drop(handle.take()))).is_none() {
            drop(handle);
        }
    }
}

/// A call that has no answer.
enum Failure {
    Handle(HandleError),
    Volume(lanefs::Error),
    /// A read of a store, which says why it failed.
    Store(lanefs::Error, String),
}

impl From<HandleError> for Failure {
    fn from(error: HandleError) -> Self {
        Failure::Handle(error)
    }
}

impl Volume {
    fn open_recipe(py: Python<'_>, recipe: Recipe) -> PyResult<Self> {
        let name = name_of(&recipe);
        let handle = py.detach(|| Handle::open(recipe)).map_err(|error| open_error(error, &name))?;
        Ok(Volume { handle: Some(handle) })
    }

    /// The file or device of the volume; none in memory.
    pub(crate) fn image(&self) -> Option<&Path> {
        match &self.handle.as_ref()?.recipe().source {
            Source::Path(path, _) | Source::New(path, ..) => Some(path),
            Source::Memory(_) | Source::Publication(_) => None,
        }
    }

    fn handle(&self) -> PyResult<&Handle> {
        self.handle.as_ref().ok_or_else(closed)
    }

    /// Works with the volume, detached from the interpreter. An error is about `path`, where there is one.
    pub(crate) fn with<T: Send>(
        &self,
        py: Python<'_>,
        path: Option<&[u8]>,
        work: impl FnOnce(&OpenVolume) -> lanefs::Result<T> + Send,
    ) -> PyResult<T> {
        let handle = self.handle()?;
        let outcome = py.detach(|| -> Result<T, Failure> {
            handle.with(|open| {
                work(open).map_err(|error| match open.take_failure() {
                    Some(why) if error.code() == Code::Io => Failure::Store(error, why),
                    _ => Failure::Volume(error),
                })
            })?
        });
        outcome.map_err(|failure| match failure {
            Failure::Store(error, why) => error::with_errno(error.errno(), why, path),
            Failure::Volume(error) => error::of(&error, path),
            Failure::Handle(HandleError::Closed) => closed(),
            Failure::Handle(HandleError::Forked) => PyRuntimeError::new_err(
                "this process was forked from the one that opened the volume, and only a volume that was \
                 opened from a path with mode 'r' opens itself again; open it in this process",
            ),
            Failure::Handle(HandleError::Open(error)) => open_error(error, &name_of(handle.recipe())),
        })
    }

    /// As [`with`](Self::with), for a change.
    pub(crate) fn change<T: Send>(
        &self,
        py: Python<'_>,
        path: &[u8],
        work: impl FnOnce(&lanefs::Volume) -> lanefs::Result<T> + Send,
    ) -> PyResult<()> {
        self.with(py, Some(path), |open| {
            open.check_writes()?;
            work(open.volume()).map(drop)
        })
    }

    /// As [`with`](Self::with), for a long call that signals stop.
    pub(crate) fn with_signals<T: Send>(
        &self,
        py: Python<'_>,
        path: Option<&[u8]>,
        work: impl FnOnce(&OpenVolume, &Signals) -> lanefs::Result<T> + Send,
    ) -> PyResult<T> {
        let signals = Signals::new();
        let outcome = self.with(py, path, |open| work(open, &signals));
        signals.finish()?;
        outcome
    }
}

#[pymethods]
impl Volume {
    /// Opens a volume: `mode` is r, r+, w or x.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        mode: &str,
        size: Option<u64>,
        engine: &str,
        cache: Option<u64>,
        shared: bool,
    ) -> PyResult<Self> {
        if shared && mode != "r" {
            return Err(PyValueError::new_err("shared is for reading, with mode 'r'"));
        }
        let source = match (mode, size) {
            ("r", None) => Source::Path(path, Access::Read),
            ("r+", None) => Source::Path(path, Access::Write),
            ("w" | "x", Some(size)) => Source::New(path, size, mode == "w"),
            ("r" | "r+", Some(_)) => {
                return Err(PyValueError::new_err("size is for a new volume, with mode 'w' or 'x'"));
            }
            ("w" | "x", None) => {
                return Err(PyValueError::new_err("size is missing: the bytes of the new volume"));
            }
            _ => return Err(PyValueError::new_err(format!("mode is '{mode}'; it is 'r', 'r+', 'w' or 'x'"))),
        };
        Volume::open_recipe(py, Recipe { source, engine: engine_choice(engine)?, cache, shared })
    }

    /// Opens a publication by its URL. A local cache of 0 bytes is none.
    #[staticmethod]
    fn open_url(
        py: Python<'_>,
        url: &str,
        engine: &str,
        cache: Option<u64>,
        shared: bool,
        store: StoreOptions,
    ) -> PyResult<Self> {
        let (cache_dir, cache_size, endpoint) = store;
        if let Some(size) = cache_size.filter(|size| (1..MIN_CACHE).contains(size)) {
            let text = format!("cache_size is {size}; it is 0 for no cache, or at least {MIN_CACHE} bytes");
            return Err(PyValueError::new_err(text));
        }
        let remote = Remote::new(url, cache_dir, cache_size, endpoint)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let source = Source::Publication(remote);
        Volume::open_recipe(py, Recipe { source, engine: engine_choice(engine)?, cache, shared })
    }

    /// The URL of a publication, with the version that is open; `None` for any other volume.
    #[getter]
    fn url(&self) -> Option<String> {
        match &self.handle.as_ref()?.recipe().source {
            Source::Publication(remote) => Some(remote.url()),
            _ => None,
        }
    }

    /// Publishes the volume, and returns the URL of the version.
    fn publish(&self, py: Python<'_>, url: &str, level: i32, endpoint: Option<String>) -> PyResult<String> {
        if !LEVELS.contains(&level) {
            return Err(PyValueError::new_err(format!("level is {level}; it is 1 to 19")));
        }
        let published = self.with_signals(py, None, |open, signals| {
            Ok(publication::publish(open.volume(), url, endpoint, level, &|| signals.raised()))
        })?;
        published.map_err(publication_error)
    }

    /// Makes a volume in memory.
    #[staticmethod]
    fn memory(py: Python<'_>, size: u64, engine: &str) -> PyResult<Self> {
        let engine = engine_choice(engine)?;
        Volume::open_recipe(py, Recipe { source: Source::Memory(size), engine, cache: None, shared: false })
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let handle = self.handle()?;
        let name = name_of(handle.recipe());
        py.detach(|| handle.close()).map_err(|error| error::of(&error, Some(&name)))
    }

    #[getter]
    fn closed(&self) -> bool {
        self.handle.as_ref().is_none_or(Handle::is_closed)
    }

    /// The name of the engine that answers batches now.
    #[getter]
    fn engine(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, None, |open| Ok(open.engine_name()))
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, None, |open| open.volume().sync())
    }

    /// Resolves paths into one array for each of the columns.
    fn resolve<'py>(
        &self,
        py: Python<'py>,
        paths: &Bound<'py, PathSet>,
        columns: Vec<String>,
        follow: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let paths = paths.get();
        let mut columns = Columns::new(&columns, paths.count())?;
        let options = ResolveOptions { follow, ..ResolveOptions::default() };
        let failure = self.with_signals(py, None, |open, signals| {
            batches::resolve(open, &options, paths, &mut columns, signals)?;
            Ok(open.take_device_failure())
        })?;
        failure.map_or(Ok(()), |failure| warn_of_failure(py, &failure))?;
        columns.into_arrays(py)
    }

    /// Reads files, or the range of each from `starts` on with a length of `lens`.
    fn read<'py>(
        &self,
        py: Python<'py>,
        paths: &Bound<'py, PathSet>,
        ranges: Option<Vec<(u64, u64)>>,
        threads: usize,
    ) -> PyResult<ReadArrays<'py>> {
        let (paths, ranges) = (paths.get(), byte_ranges(ranges));
        let all = self.with_signals(py, None, |open, signals| {
            let (volume, paths, ranges) = (open.volume(), paths.view(), ranges.as_deref());
            ReadCall { volume, paths, ranges, threads, signals }.read()
        })?;
        Ok((all.bytes.into_pyarray(py), all.offsets.into_pyarray(py), all.codes.into_pyarray(py)))
    }

    /// Reads files in place where the volume allows it. Returns them, and the code of each.
    fn view<'py>(
        &self,
        py: Python<'py>,
        paths: &Bound<'py, PathSet>,
        ranges: Option<Vec<(u64, u64)>>,
        threads: usize,
    ) -> PyResult<(Views, Bound<'py, PyArray1<u8>>)> {
        let (paths, ranges) = (paths.get(), byte_ranges(ranges));
        let mut files = self.with_signals(py, None, |open, signals| {
            let (volume, paths, ranges) = (open.volume(), paths.view(), ranges.as_deref());
            ReadCall { volume, paths, ranges, threads, signals }.view()
        })?;
        let codes = std::mem::take(&mut files.codes);
        Ok((Views::new(files), codes.into_pyarray(py)))
    }

    /// As `read`, into memory that an array has. No other thread may use it meanwhile.
    fn read_into<'py>(
        &self,
        py: Python<'py>,
        paths: &Bound<'py, PathSet>,
        mut buffer: PyReadwriteArray1<'py, u8>,
        ranges: Option<Vec<(u64, u64)>>,
        threads: usize,
    ) -> PyResult<LaidOut<'py>> {
        let (paths, ranges) = (paths.get(), byte_ranges(ranges));
        let memory = buffer.as_slice_mut().map_err(|_| PyValueError::new_err("buffer is not contiguous"))?;
        let all = self.with_signals(py, None, |open, signals| {
            let (volume, paths, ranges) = (open.volume(), paths.view(), ranges.as_deref());
            ReadCall { volume, paths, ranges, threads, signals }.read_into(memory)
        })?;
        Ok((all.offsets.into_pyarray(py), all.codes.into_pyarray(py)))
    }

    /// Makes files, and returns the code of each.
    fn write_many<'py>(
        &self,
        py: Python<'py>,
        paths: &Bound<'py, PathSet>,
        data: &Bound<'py, PyBytes>,
        offsets: Vec<u64>,
        options: (u16, bool, bool),
    ) -> PyResult<Bound<'py, PyArray1<u8>>> {
        let (mode, make_directories, overwrite) = options;
        let (paths, data) = (paths.get(), data.as_bytes());
        let make_directories = make_directories.then_some(0o755);
        let options = WriteMany { perm: mode, make_directories, overwrite, ..WriteMany::default() };
        let codes = self.with_signals(py, None, |open, signals| {
            open.check_writes()?;
            batches::write_many(open.volume(), &options, paths.view(), data, &offsets, signals)
        })?;
        Ok(codes.into_pyarray(py))
    }

    /// Makes a file with this content, or replaces the content of a file.
    fn write(&self, py: Python<'_>, path: &[u8], data: &[u8]) -> PyResult<()> {
        self.change(py, path, |volume| volume.write_file(path, data))
    }

    fn stat(&self, py: Python<'_>, path: &[u8], follow: bool) -> PyResult<StatNumbers> {
        self.with(py, Some(path), |open| {
            let volume = open.volume();
            let attr = if follow { volume.resolve(path) } else { volume.resolve_no_follow(path) };
            attr.map(|attr| stat_numbers(&attr))
        })
    }

    /// Lists the names of a directory, and the types of the entries.
    fn list(&self, py: Python<'_>, path: &[u8]) -> PyResult<(Vec<OsString>, Vec<u8>)> {
        let entries = self.with_signals(py, Some(path), |open, signals| {
            let (volume, dir) = (open.volume(), open.volume().resolve(path)?.ino);
            let (mut entries, mut cookie) = (Vec::<DirEntry>::new(), 0);
            loop {
                let page = volume.readdir(OWNER, dir, cookie, PAGE_ENTRIES)?;
                cookie = page.last().map_or(cookie, |entry| entry.cookie);
                let is_last = page.is_empty() || signals.raised();
                entries.extend(page);
                if is_last {
                    return Ok(entries);
                }
            }
        })?;
        let kinds = entries.iter().map(|entry| entry.kind as u8).collect();
        Ok((entries.into_iter().map(|entry| OsString::from_vec(entry.name)).collect(), kinds))
    }

    fn mkdir(&self, py: Python<'_>, path: &[u8], mode: u16) -> PyResult<()> {
        self.in_parent(py, path, |volume, dir, name| volume.mkdir(OWNER, dir, name, mode).map(drop))
    }

    fn makedirs(&self, py: Python<'_>, path: &[u8], mode: u16) -> PyResult<()> {
        let options = MkdirAll { perm: mode, ..MkdirAll::default() };
        self.change(py, path, |volume| volume.mkdir_all_with(&options, path))
    }

    fn remove(&self, py: Python<'_>, path: &[u8]) -> PyResult<()> {
        self.in_parent(py, path, |volume, dir, name| volume.unlink(OWNER, dir, name))
    }

    fn rmdir(&self, py: Python<'_>, path: &[u8]) -> PyResult<()> {
        self.in_parent(py, path, |volume, dir, name| volume.rmdir(OWNER, dir, name))
    }

    /// Removes a file, or a directory with its whole content.
    fn remove_all(&self, py: Python<'_>, path: &[u8]) -> PyResult<()> {
        self.with_signals(py, Some(path), |open, signals| {
            open.check_writes()?;
            let volume = open.volume();
            let (dir, name) = volume.resolve_parent(path)?;
            let stopped = volume.remove_all_with(OWNER, dir, name, |_, done| match done {
                Ok(()) if signals.raised() => Err(None),
                Ok(()) => Ok(()),
                Err(error) => Err(Some(error)),
            });
            stopped.or_else(|error| error.map_or(Ok(()), Err))
        })
    }

    /// Renames; with `replace` in place of an existing file or empty directory.
    fn rename(&self, py: Python<'_>, from: &[u8], to: &[u8], replace: bool) -> PyResult<()> {
        let mode = if replace { RenameMode::Replace } else { RenameMode::NoReplace };
        self.change(py, from, |volume| {
            let ((dir, name), (new_dir, new_name)) =
                (volume.resolve_parent(from)?, volume.resolve_parent(to)?);
            volume.rename_at(OWNER, dir, name, new_dir, new_name, mode)
        })
    }

    fn symlink(&self, py: Python<'_>, target: &[u8], path: &[u8]) -> PyResult<()> {
        self.in_parent(py, path, |volume, dir, name| volume.symlink_at(OWNER, dir, name, target).map(drop))
    }

    fn readlink(&self, py: Python<'_>, path: &[u8]) -> PyResult<OsString> {
        let read = |open: &OpenVolume| open.volume().readlink(open.volume().resolve_no_follow(path)?.ino);
        self.with(py, Some(path), read).map(OsString::from_vec)
    }

    fn chmod(&self, py: Python<'_>, path: &[u8], mode: u16) -> PyResult<()> {
        self.set(py, path, SetAttr { perm: Some(mode & 0o7777), ..SetAttr::default() })
    }

    /// Sets the times of access and of the last change, in nanoseconds since 1970.
    fn utime(&self, py: Python<'_>, path: &[u8], atime_ns: i64, mtime_ns: i64) -> PyResult<()> {
        let (atime, mtime) = (Some(Time(atime_ns)), Some(Time(mtime_ns)));
        self.set(py, path, SetAttr { atime, mtime, ..SetAttr::default() })
    }
}

impl Volume {
    /// Changes a name in the directory of a path.
    fn in_parent(
        &self,
        py: Python<'_>,
        path: &[u8],
        work: impl FnOnce(&lanefs::Volume, Ino, &[u8]) -> lanefs::Result<()> + Send,
    ) -> PyResult<()> {
        self.change(py, path, |volume| {
            let (dir, name) = volume.resolve_parent(path)?;
            work(volume, dir, name)
        })
    }

    fn set(&self, py: Python<'_>, path: &[u8], set: SetAttr) -> PyResult<()> {
        self.change(py, path, |volume| {
            let ino = volume.resolve(path)?.ino;
            volume.setattr(OWNER, ino, &set)
        })
    }
}

/// The name of a volume for messages.
fn name_of(recipe: &Recipe) -> Vec<u8> {
    match &recipe.source {
        Source::Path(path, _) | Source::New(path, ..) => path.clone().into_os_string().into_vec(),
        Source::Memory(_) => b"memory".to_vec(),
        Source::Publication(remote) => remote.url().into_bytes(),
    }
}

fn engine_choice(name: &str) -> PyResult<EngineChoice> {
    let unknown = || PyValueError::new_err(format!("engine is '{name}'; it is 'auto', 'cpu' or 'gpu'"));
    EngineChoice::from_name(name).ok_or_else(unknown)
}

/// Warns that the device has failed. The CPU engine has answered, and does so from now on.
fn warn_of_failure(py: Python<'_>, failure: &str) -> PyResult<()> {
    let text = CString::new(format!("{failure}; the CPU engine continues"))?;
    PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 2)
}

fn closed() -> PyErr {
    PyValueError::new_err("the volume is closed")
}

fn open_error(error: OpenError, name: &[u8]) -> PyErr {
    match error {
        OpenError::Volume(error) | OpenError::Remote(RemoteError::Volume(error)) => {
            error::of(&error, Some(name))
        }
        OpenError::Remote(RemoteError::Publication(error)) => publication_error(error),
        OpenError::Remote(RemoteError::Cache(path, error)) => {
            let errno = error.raw_os_error().unwrap_or(ACCESS);
            error::with_errno(errno, error.to_string(), Some(path.as_os_str().as_bytes()))
        }
        OpenError::Gpu(error) => {
            error::with_errno(NO_DEVICE, format!("{error} (engine='cpu' gives the same answers)"), None)
        }
    }
}

fn publication_error(error: lanefs_publish::Error) -> PyErr {
    match error {
        lanefs_publish::Error::Url(_) => PyValueError::new_err(error.to_string()),
        error => error::with_errno(publication::errno(&error), error.to_string(), None),
    }
}

pub(crate) fn byte_ranges(ranges: Option<Vec<(u64, u64)>>) -> Option<Vec<ByteRange>> {
    Some(ranges?.into_iter().map(|(offset, len)| ByteRange { offset, len }).collect())
}

/// The numbers of a `stat`, in the order that `lanefs.Stat` has.
pub(crate) fn stat_numbers(attr: &Attr) -> StatNumbers {
    let is_device = matches!(attr.kind, FileKind::CharDevice | FileKind::BlockDevice);
    let numbers = [
        attr.mode().into(),
        attr.ino.0,
        attr.links.into(),
        attr.uid.into(),
        attr.gid.into(),
        attr.size,
        attr.blocks,
        if is_device { attr.rdev } else { 0 },
        attr.kind as u64,
        attr.generation.into(),
    ];
    (numbers, [attr.atime.0, attr.mtime.0, attr.ctime.0, attr.btime.0])
}
