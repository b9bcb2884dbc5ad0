//! Many paths: the class `PathSet`.

use crate::arrow::{ArrowBuffer, ArrowColumn};
use crate::error;
use crate::names::Names;
use crate::text::Text;
use lanefs::{NamesUnder, Paths};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyIndexError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PySlice};
use std::borrow::Cow;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Many paths, which every call on a batch takes.
#[pyclass(frozen, module = "lanefs")]
pub(crate) struct PathSet {
    memory: Memory,
}

enum Memory {
    Whole(Text),
    Under(Box<Names>),
}

impl From<lanefs::PathSet> for PathSet {
    fn from(set: lanefs::PathSet) -> Self {
        PathSet { memory: Memory::Whole(set.into()) }
    }
}

impl PathSet {
    /// The paths, for threads that use them after the call. Those that another object owns are copied.
    pub(crate) fn shared(&self) -> Arc<lanefs::PathSet> {
        match &self.memory {
            Memory::Whole(Text::Own(set)) => Arc::clone(set),
            _ => Arc::new(self.view().iter().collect()),
        }
    }

    /// The paths, for a call of the library.
    pub(crate) fn view(&self) -> Paths<'_> {
        match &self.memory {
            Memory::Whole(text) => text.view(),
            Memory::Under(names) => names.whole().view(),
        }
    }

    /// The paths as names under directories, where they were made so.
    pub(crate) fn names(&self) -> Option<NamesUnder<'_>> {
        match &self.memory {
            Memory::Whole(_) => None,
            Memory::Under(names) => Some(names.view()),
        }
    }

    /// The number of paths.
    pub(crate) fn count(&self) -> usize {
        self.names().map_or_else(|| self.view().len(), |names| names.len())
    }

    /// A path; `None` past the last.
    fn path(&self, index: usize) -> Option<Cow<'_, [u8]>> {
        let Some(names) = self.names() else { return self.view().get(index).map(Cow::Borrowed) };
        (index < names.len()).then(|| {
            let mut path = Vec::new();
            names.append_path(index, &mut path);
            Cow::Owned(path)
        })
    }

    /// The paths as a column of Arrow, whose text is not copied: strings where all are UTF-8, else bytes.
    pub(crate) fn column(slf: &Bound<'_, Self>, name: CString) -> ArrowColumn {
        let view = slf.get().view();
        let (mut offsets, mut end) = (Vec::with_capacity(view.len() + 1), 0);
        offsets.push(0);
        // Between the paths of a file there are delimiters, which a column has no place for.
        let mut is_dense = true;
        view.each_range(|range| {
            is_dense &= range.start as i64 == end;
            end = range.end as i64;
            offsets.push(end);
        });
        let text = if is_dense {
            let owner = Arc::new(slf.clone().unbind());
            // SAFETY: the text is that of this object, or of a set that this object keeps, and never changes.
            unsafe { ArrowBuffer::of(view.text(), owner) }
        } else {
            let mut text = Vec::with_capacity(view.text().len());
            offsets.truncate(1);
            for path in view.iter() {
                text.extend_from_slice(path);
                offsets.push(text.len() as i64);
            }
            ArrowBuffer::own(text)
        };
        let is_utf8 = view.iter().all(|path| std::str::from_utf8(path).is_ok());
        let format = if is_utf8 { c"U" } else { c"Z" };
        let buffers = vec![ArrowBuffer::none(), ArrowBuffer::own(offsets), text];
        ArrowColumn { name, format, nulls: 0, buffers }
    }
}

#[pymethods]
impl PathSet {
    /// Takes an iterable of str, bytes or os.PathLike, a numpy array of text, or an Arrow array of text,
    /// which is not copied where its layout is text with offsets.
    #[new]
    fn new(paths: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(PathSet { memory: Memory::Whole(Text::of(paths, "paths")?) })
    }

    /// Takes names in one directory; with an Arrow dictionary array of directories, or a sequence of them,
    /// each name in its own.
    #[staticmethod]
    fn under(directories: &Bound<'_, PyAny>, names: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(PathSet { memory: Memory::Under(Box::new(Names::of(directories, names)?)) })
    }

    /// The paths as an array of Arrow: of strings, or of bytes where one is not UTF-8.
    #[pyo3(signature = (requested_schema = None, /))]
    fn __arrow_c_array__<'py>(
        slf: &Bound<'py, Self>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // The consumer casts where it wants another type, as the interface allows.
        let _ = requested_schema;
        PathSet::column(slf, CString::default()).array(slf.get().count(), slf.py())
    }

    /// Reads a file of paths, each of which ends with `delimiter`: a newline, if it is not given, or a NUL.
    #[staticmethod]
    #[pyo3(signature = (file, delimiter = None))]
    fn from_file(py: Python<'_>, file: PathBuf, delimiter: Option<&[u8]>) -> PyResult<Self> {
        let [delimiter] = *delimiter.unwrap_or(b"\n") else {
            return Err(PyValueError::new_err("delimiter is one byte, such as b'\\n' or b'\\0'"));
        };
        let set = py.detach(|| lanefs::PathSet::read_file(&file, delimiter));
        let set = set.map_err(|error| match error.raw_os_error() {
            Some(errno) => error::with_errno(errno, error.to_string(), Some(file.as_os_str().as_bytes())),
            None => PyOSError::new_err(error.to_string()),
        })?;
        Ok(set.into())
    }

    fn __len__(&self) -> usize {
        self.count()
    }

    /// A path by its index, or a set of the paths of a slice.
    fn __getitem__<'py>(&self, py: Python<'py>, index: Item<'py>) -> PyResult<Bound<'py, PyAny>> {
        let count = self.count();
        match index {
            Item::Slice(slice) => {
                let (view, slice) = (self.view(), slice.indices(count as isize)?);
                let rows = (0..slice.slicelength as isize).map(|row| slice.start + row * slice.step);
                let paths = rows.filter_map(|row| view.get(usize::try_from(row).ok()?));
                let paths: lanefs::PathSet = paths.collect();
                Ok(Bound::new(py, PathSet::from(paths))?.into_any())
            }
            Item::Index(index) => {
                let at = if index < 0 { index.checked_add_unsigned(count) } else { Some(index) };
                let path = at.and_then(|at| usize::try_from(at).ok()).and_then(|at| self.path(at));
                let path = path.ok_or_else(|| {
                    PyIndexError::new_err(format!("index {index} of a set of {count} paths"))
                })?;
                Ok(error::name(&path).into_pyobject(py)?.into_any())
            }
        }
    }

    fn __iter__(slf: Bound<'_, Self>) -> PathIterator {
        PathIterator { paths: slf.unbind(), next: AtomicUsize::new(0) }
    }

    /// The paths of these indices, in their order.
    fn take(&self, rows: PyReadonlyArray1<'_, u32>) -> PyResult<Self> {
        let (view, mut set) = (self.view(), lanefs::PathSet::new());
        for row in rows.as_array() {
            let path = view.get(*row as usize).ok_or_else(|| {
                PyIndexError::new_err(format!("index {row} of a set of {} paths", view.len()))
            })?;
            set.push(path);
        }
        Ok(set.into())
    }

    /// Makes a set of text, and of the offsets of the paths in it, one more than there are paths.
    #[staticmethod]
    fn from_buffers(text: PyReadonlyArray1<'_, u8>, offsets: PyReadonlyArray1<'_, i64>) -> PyResult<Self> {
        let bad = |why: String| PyValueError::new_err(why);
        let text = text.as_slice().map_err(|_| bad("text is not contiguous".into()))?;
        let offsets = offsets.as_slice().map_err(|_| bad("offsets is not contiguous".into()))?;
        let paths = Paths::from_offsets(text, offsets).map_err(|error| bad(error.to_string()))?;
        Ok(paths.iter().collect::<lanefs::PathSet>().into())
    }

    /// A pickle has two arrays: the text, and the offsets of the paths in it. With protocol 5 they may travel
    /// out of band.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, TextAndOffsets<'py>)> {
        let (py, view) = (slf.py(), slf.get().view());
        let (mut text, mut offsets) = (Vec::with_capacity(view.text().len()), vec![0]);
        for path in view.iter() {
            text.extend_from_slice(path);
            offsets.push(text.len() as i64);
        }
        let make = slf.get_type().getattr("from_buffers")?;
        Ok((make, (text.into_pyarray(py), offsets.into_pyarray(py))))
    }

    fn __repr__(&self) -> String {
        format!("<PathSet of {} paths>", self.count())
    }
}

/// The argument of an index.
#[derive(FromPyObject)]
enum Item<'py> {
    Slice(Bound<'py, PySlice>),
    Index(isize),
}

/// The arrays of a pickle.
type TextAndOffsets<'py> = (Bound<'py, PyArray1<u8>>, Bound<'py, PyArray1<i64>>);

/// An iterator over the paths of a set.
#[pyclass(frozen, module = "lanefs._lanefs")]
pub(crate) struct PathIterator {
    paths: Py<PathSet>,
    next: AtomicUsize,
}

#[pymethods]
impl PathIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let path = self.paths.get().path(self.next.fetch_add(1, Ordering::Relaxed));
        path.map(|path| Ok(error::name(&path).into_pyobject(py)?.into_any())).transpose()
    }
}
