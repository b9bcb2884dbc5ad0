//! Files in place: the class `lanefs._lanefs.Views`.

use crate::batches::Viewed;
use crate::lent::lent;
use numpy::PyArray1;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use std::mem::ManuallyDrop;

/// The contents of many files. They pin the blocks of a volume, and keep it open.
#[pyclass(frozen, module = "lanefs._lanefs")]
pub(crate) struct Views {
    pid: u32,
    files: ManuallyDrop<Viewed>,
}

impl Views {
    pub(crate) fn new(files: Viewed) -> Self {
        Views { pid: std::process::id(), files: ManuallyDrop::new(files) }
    }
}

#[pymethods]
impl Views {
    /// Returns the bytes of a file as an array that nobody can write to, and that keeps all files alive.
    fn get<'py>(slf: &Bound<'py, Self>, file: usize) -> PyResult<Bound<'py, PyArray1<u8>>> {
        let bytes = slf.get().files.get(file);
        let bytes = bytes.ok_or_else(|| PyIndexError::new_err(format!("file {file} was not read")))?;
        // SAFETY: the bytes are part of this object, which never moves or changes them.
        unsafe { lent(bytes, slf.as_any()) }
    }

    /// Bytes that had to be copied.
    #[getter]
    fn copied_bytes(&self) -> u64 {
        self.files.copied_bytes
    }
}

impl Drop for Views {
    fn drop(&mut self) {
        // In a forked child the volume is the parent's, and nothing of it may be closed there. The bytes are
        // a copy that ends with the child.
        if self.pid == std::process::id() {
            // SAFETY: nobody uses the files after this.
            unsafe { ManuallyDrop::drop(&mut self.files) };
        }
    }
}
