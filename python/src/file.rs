//! An open file of a volume: the class `lanefs._lanefs.OpenFile`.

use crate::engine::OpenVolume;
use crate::volume::{OWNER, Volume};
use lanefs::{Attr, Code, FileKind, Ino, SetAttr};
use numpy::PyReadwriteArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::atomic::{AtomicBool, Ordering};

/// A regular file, held open: it lives on without a name.
#[pyclass(frozen, module = "lanefs._lanefs")]
pub(crate) struct OpenFile {
    volume: Py<Volume>,
    path: Vec<u8>,
    ino: Ino,
    is_open: AtomicBool,
}

/// The way to open a file.
#[derive(Clone, Copy)]
struct HowToOpen {
    writes: bool,
    creates: bool,
    is_exclusive: bool,
    truncates: bool,
}

#[pymethods]
impl OpenFile {
    /// Opens a file, or makes it: `mode` is r, w, x or a, with a plus sign for both reading and writing.
    #[staticmethod]
    fn open(py: Python<'_>, volume: Py<Volume>, path: &[u8], mode: &str) -> PyResult<Self> {
        let how = HowToOpen {
            writes: mode != "r",
            creates: !mode.starts_with('r'),
            is_exclusive: mode.starts_with('x'),
            truncates: mode.starts_with('w'),
        };
        let attr = volume.get().with(py, Some(path), |open| hold(open, path, how))?;
        Ok(OpenFile { volume, path: path.to_vec(), ino: attr.ino, is_open: AtomicBool::new(true) })
    }

    /// Reads at an offset into an array, and returns the number of bytes: fewer than the array has at the end
    /// of the file only.
    fn read_into(
        &self,
        py: Python<'_>,
        offset: u64,
        mut buffer: PyReadwriteArray1<'_, u8>,
    ) -> PyResult<usize> {
        let memory = buffer.as_slice_mut().map_err(|_| PyValueError::new_err("buffer is not contiguous"))?;
        self.with(py, |open| {
            let mut done = 0;
            while done < memory.len() {
                let got = open.volume().read(OWNER, self.ino, offset + done as u64, &mut memory[done..])?;
                done += got;
                if got == 0 {
                    break;
                }
            }
            Ok(done)
        })
    }

    /// Writes at an offset; without one, at the end of the file. Returns the offset behind the bytes.
    fn write(&self, py: Python<'_>, offset: Option<u64>, data: &Bound<'_, PyBytes>) -> PyResult<u64> {
        let data = data.as_bytes();
        self.with(py, |open| {
            let volume = open.volume();
            let offset = offset.map_or_else(|| volume.getattr(self.ino).map(|attr| attr.size), Ok)?;
            volume.write(OWNER, self.ino, offset, data)?;
            Ok(offset + data.len() as u64)
        })
    }

    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |open| open.volume().getattr(self.ino).map(|attr| attr.size))
    }

    fn truncate(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        self.with(py, |open| open.volume().setattr(OWNER, self.ino, &set).map(drop))
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |open| open.volume().fsync(self.ino, false))
    }

    /// Ends the hold. A closed volume has ended it already, and that of a parent process is not this one's.
    fn close(&self, py: Python<'_>) {
        if self.is_open.swap(false, Ordering::AcqRel) {
            let _ = self.volume.get().with(py, None, |open| open.volume().release(self.ino, 1));
        }
    }
}

impl OpenFile {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&OpenVolume) -> lanefs::Result<T> + Send,
    ) -> PyResult<T> {
        if !self.is_open.load(Ordering::Acquire) {
            return Err(PyValueError::new_err("the file is closed"));
        }
        self.volume.get().with(py, Some(&self.path), work)
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // At the end of the interpreter the volume ends as well, and all holds with it.
        Python::try_attach(|py| self.close(py));
    }
}

/// Finds or makes a file, and holds it.
fn hold(open: &OpenVolume, path: &[u8], how: HowToOpen) -> lanefs::Result<Attr> {
    let volume = open.volume();
    if how.writes && volume.is_read_only() {
        return Err(Code::ReadOnly.into());
    }
    loop {
        let found = match volume.resolve(path) {
            Ok(_) if how.is_exclusive => return Err(Code::Exists.into()),
            Err(error) if how.creates && error.code() == Code::NotFound => {
                let (dir, name) = volume.resolve_parent(path)?;
                // Where the name is there by now, it may be a symbolic link to nothing.
                match volume.create_file(OWNER, dir, name, 0o644) {
                    Err(error) if error.code() == Code::Exists && !how.is_exclusive => {
                        volume.resolve(path)?
                    }
                    made => made?,
                }
            }
            found => found?,
        };
        match found.kind {
            FileKind::File => {}
            FileKind::Directory => return Err(Code::IsDirectory.into()),
            _ => return Err(Code::Unsupported.into()),
        }
        let held = match volume.hold(found.ino) {
            Err(error) if error.code() == Code::StaleInode => continue,
            held => held?,
        };
        if held.generation != found.generation {
            volume.release(found.ino, 1)?;
            continue;
        }
        if how.truncates
            && let Err(error) =
                volume.setattr(OWNER, held.ino, &SetAttr { size: Some(0), ..SetAttr::default() })
        {
            volume.release(held.ino, 1)?;
            return Err(error);
        }
        return Ok(held);
    }
}
