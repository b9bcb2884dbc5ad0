//! Many paths: the class `PathSet`.

use crate::arrow::ArrowPaths;
use crate::error;
use lanefs::Paths;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyIndexError, PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PySlice, PyString};
use std::ffi::OsStr;
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
    Own(Arc<lanefs::PathSet>),
    Arrow(ArrowPaths),
}

impl PathSet {
    /// The paths, for threads that use them after the call. Those of Arrow are copied.
    pub(crate) fn shared(&self) -> Arc<lanefs::PathSet> {
        match &self.memory {
            Memory::Own(set) => Arc::clone(set),
            Memory::Arrow(paths) => Arc::new(paths.view().iter().collect()),
        }
    }

    /// The paths, for a call of the library.
    pub(crate) fn view(&self) -> Paths<'_> {
        match &self.memory {
            Memory::Own(set) => set.view(),
            Memory::Arrow(paths) => paths.view(),
        }
    }
}

#[pymethods]
impl PathSet {
    /// Takes an iterable of str, bytes or os.PathLike, a numpy array of text, or an Arrow array of text,
    /// which is not copied.
    #[new]
    fn new(paths: &Bound<'_, PyAny>) -> PyResult<Self> {
        if paths.is_instance_of::<PyString>() || paths.is_instance_of::<PyBytes>() {
            let text = "paths is one path; give a list of them";
            return Err(PyTypeError::new_err(text));
        }
        if paths.hasattr("__arrow_c_array__")? {
            return Ok(PathSet { memory: Memory::Arrow(ArrowPaths::import(paths)?) });
        }
        // Text of a numpy array becomes str or bytes in one call.
        let list = match paths.hasattr("__array_interface__")? {
            true => paths.call_method0("tolist")?,
            false => paths.clone(),
        };
        let items = list.try_iter().map_err(|_| {
            let kind = paths.get_type().name().map_or_else(|_| "object".into(), |name| name.to_string());
            PyTypeError::new_err(format!(
                "paths is {kind}; give a list of paths, an array of text or a PathSet"
            ))
        })?;
        let mut set = lanefs::PathSet::new();
        for (index, item) in items.enumerate() {
            push(&mut set, &item?, index)?;
        }
        Ok(PathSet { memory: Memory::Own(set.into()) })
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
        Ok(PathSet { memory: Memory::Own(set.into()) })
    }

    fn __len__(&self) -> usize {
        self.view().len()
    }

    /// A path by its index, or a set of the paths of a slice.
    fn __getitem__<'py>(&self, py: Python<'py>, index: Item<'py>) -> PyResult<Bound<'py, PyAny>> {
        let view = self.view();
        let count = view.len();
        match index {
            Item::Slice(slice) => {
                let slice = slice.indices(count as isize)?;
                let rows = (0..slice.slicelength as isize).map(|row| slice.start + row * slice.step);
                let paths = rows.filter_map(|row| view.get(usize::try_from(row).ok()?));
                Ok(Bound::new(py, PathSet { memory: Memory::Own(Arc::new(paths.collect())) })?.into_any())
            }
            Item::Index(index) => {
                let at = if index < 0 { index.checked_add_unsigned(count) } else { Some(index) };
                let path = at.and_then(|at| usize::try_from(at).ok()).and_then(|at| view.get(at));
                let path = path.ok_or_else(|| {
                    PyIndexError::new_err(format!("index {index} of a set of {count} paths"))
                })?;
                Ok(error::name(path).into_pyobject(py)?.into_any())
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
        Ok(PathSet { memory: Memory::Own(set.into()) })
    }

    /// Makes a set of text, and of the offsets of the paths in it, one more than there are paths.
    #[staticmethod]
    fn from_buffers(text: PyReadonlyArray1<'_, u8>, offsets: PyReadonlyArray1<'_, i64>) -> PyResult<Self> {
        let bad = |why: String| PyValueError::new_err(why);
        let text = text.as_slice().map_err(|_| bad("text is not contiguous".into()))?;
        let offsets = offsets.as_slice().map_err(|_| bad("offsets is not contiguous".into()))?;
        let paths = Paths::from_offsets(text, offsets).map_err(|error| bad(error.to_string()))?;
        Ok(PathSet { memory: Memory::Own(Arc::new(paths.iter().collect())) })
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
        format!("<PathSet of {} paths>", self.view().len())
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

    fn __next__(&self) -> Option<&OsStr> {
        self.paths.get().view().get(self.next.fetch_add(1, Ordering::Relaxed)).map(error::name)
    }
}

/// Appends an item of a list.
fn push(set: &mut lanefs::PathSet, item: &Bound<'_, PyAny>, index: usize) -> PyResult<()> {
    if let Ok(text) = item.cast::<PyString>() {
        match text.to_str() {
            Ok(text) => set.push(text),
            // Surrogates stand for bytes that are not UTF-8.
            Err(_) => set.push(
                item.py().import("os")?.call_method1("fsencode", (text,))?.cast::<PyBytes>()?.as_bytes(),
            ),
        }
    } else if let Ok(bytes) = item.cast::<PyBytes>() {
        set.push(bytes.as_bytes());
    } else {
        let encoded = item.py().import("os")?.call_method1("fsencode", (item,)).map_err(|_| {
            let kind = item.get_type().name().map_or_else(|_| "object".into(), |name| name.to_string());
            PyTypeError::new_err(format!("paths[{index}] is {kind}; a path is str, bytes or os.PathLike"))
        })?;
        set.push(encoded.cast::<PyBytes>()?.as_bytes());
    }
    Ok(())
}
