//! Many paths: the class `PathSet`.

use crate::arrow::ArrowPaths;
use crate::error;
use lanefs::Paths;
use pyo3::exceptions::{PyIndexError, PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyType};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

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

    fn __getitem__(&self, index: isize) -> PyResult<&OsStr> {
        let count = self.view().len();
        let at = if index < 0 { index.checked_add_unsigned(count) } else { Some(index) };
        let path = at.and_then(|at| usize::try_from(at).ok()).and_then(|at| self.view().get(at));
        path.map(error::name)
            .ok_or_else(|| PyIndexError::new_err(format!("index {index} of a set of {count} paths")))
    }

    /// A pickle has the paths one by one.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyType>, (Vec<Bound<'py, PyBytes>>,)) {
        let paths = slf.get().view().iter().map(|path| PyBytes::new(slf.py(), path)).collect();
        (slf.get_type(), (paths,))
    }

    fn __repr__(&self) -> String {
        format!("<PathSet of {} paths>", self.view().len())
    }
}

/// Appends an item of a list.
fn push(set: &mut lanefs::PathSet, item: &Bound<'_, PyAny>, index: usize) -> PyResult<()> {
    if let Ok(text) = item.cast::<PyString>() {
        match text.to_str() {
            Ok(text) => set.push(text),
            // Surrogates stand for bytes that are no UTF-8.
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
