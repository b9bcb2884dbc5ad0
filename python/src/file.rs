//! An open file of a volume: the class `lanefs._lanefs.OpenFile`.

use crate::engine::OpenVolume;
use crate::volume::{OWNER, Volume};
use crate::writers::WriterId;
use lanefs::{Attr, Code, FileKind, Ino, Replacement, SetAttr};
use numpy::PyReadwriteArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::atomic::{AtomicBool, Ordering};

/// A regular file that is open.
#[pyclass(frozen, module = "lanefs._lanefs")]
pub(crate) struct OpenFile {
    volume: Py<Volume>,
    path: Vec<u8>,
    content: Content,
    is_open: AtomicBool,
}

/// The bytes that a file object reads and writes.
#[derive(Clone, Copy)]
enum Content {
    /// Those of a file, which is held: it lives on without a name.
    InPlace(Ino),
    /// Those that the file gets when it is closed.
    Whole(WriterId),
}

#[pymethods]
impl OpenFile {
    /// Opens a file, or makes it: `mode` is r, w, x or a, with a plus sign for both reading and writing. With
    /// w and x the file appears, or changes, when it is closed.
    #[staticmethod]
    fn open(py: Python<'_>, volume: Py<Volume>, path: &[u8], mode: &str) -> PyResult<Self> {
        let content = volume.get().with(py, Some(path), |open| {
            if mode != "r" {
                open.check_writes()?;
            }
            let new = match mode.as_bytes().first() {
                Some(b'w') => Replacement::begin(open.shared(), path)?,
                Some(b'x') => Replacement::begin_new(open.shared(), path)?,
                _ => return hold(open, path, mode).map(|attr| Content::InPlace(attr.ino)),
            };
            Ok(Content::Whole(open.writers().add(new)))
        })?;
        Ok(OpenFile { volume, path: path.to_vec(), content, is_open: AtomicBool::new(true) })
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
                let (at, rest) = (offset + done as u64, &mut memory[done..]);
                let got = match self.content {
                    Content::InPlace(ino) => open.volume().read(OWNER, ino, at, rest),
                    Content::Whole(id) => open.writers().with(id, |new| new.read_at(at, rest)),
                }?;
                done += got;
                if got == 0 {
                    break;
                }
            }
            Ok(done)
        })
    }

    /// Writes at an offset; without one, at the end of the file. Returns the offset after the bytes.
    fn write(&self, py: Python<'_>, offset: Option<u64>, data: &Bound<'_, PyBytes>) -> PyResult<u64> {
        let data = data.as_bytes();
        self.with(py, |open| {
            let offset = match offset {
                Some(offset) => offset,
                None => self.size_of(open)?,
            };
            match self.content {
                Content::InPlace(ino) => open.volume().write(OWNER, ino, offset, data).map(drop),
                Content::Whole(id) => open.writers().with(id, |new| new.write_at(offset, data)),
            }?;
            Ok(offset + data.len() as u64)
        })
    }

    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |open| self.size_of(open))
    }

    fn truncate(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        self.with(py, |open| match self.content {
            Content::InPlace(ino) => open.volume().setattr(OWNER, ino, &set).map(drop),
            Content::Whole(id) => open.writers().with(id, |new| new.set_len(size)),
        })
    }

    /// Makes the content durable; one that has no place yet cannot be.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |open| match self.content {
            Content::InPlace(ino) => open.volume().fsync(ino, false),
            Content::Whole(_) => Err(Code::Unsupported.into()),
        })
    }

    /// Ends the use of the file. A content that has no place yet takes it, or the call fails. A closed volume
    /// has ended a hold already, and that of a parent process is not this one's.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if !self.is_open.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        if let Content::Whole(id) = self.content {
            return self.volume.get().with(py, Some(&self.path), |open| open.writers().finish(id).map(drop));
        }
        self.end(py);
        Ok(())
    }

    /// Ends the use of the file. A content that has no place yet is forgotten.
    fn discard(&self, py: Python<'_>) {
        if self.is_open.swap(false, Ordering::AcqRel) {
            self.end(py);
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

    fn size_of(&self, open: &OpenVolume) -> lanefs::Result<u64> {
        match self.content {
            Content::InPlace(ino) => open.volume().getattr(ino).map(|attr| attr.size),
            Content::Whole(id) => open.writers().with(id, |new| new.len()),
        }
    }

    /// Gives up what the open volume has for this file, where that is still open.
    fn end(&self, py: Python<'_>) {
        let _ = self.volume.get().with(py, None, |open| match self.content {
            Content::InPlace(ino) => open.release(ino),
            Content::Whole(id) => {
                open.writers().discard(id);
                Ok(())
            }
        });
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // At the end of the interpreter the volume ends as well, and all holds with it.
        Python::try_attach(|py| self.discard(py));
    }
}

/// Finds a file, or makes one to append to it, and holds it.
fn hold(open: &OpenVolume, path: &[u8], mode: &str) -> lanefs::Result<Attr> {
    let volume = open.volume();
    if mode != "r" && volume.is_read_only() {
        return Err(Code::ReadOnly.into());
    }
    loop {
        let found = match volume.resolve(path) {
            Err(error) if mode.starts_with('a') && error.code() == Code::NotFound => {
                let (dir, name) = volume.resolve_parent(path)?;
                // Where the name is there by now, it may be a symbolic link to nothing.
                match volume.create_file(OWNER, dir, name, 0o644) {
                    Err(error) if error.code() == Code::Exists => volume.resolve(path)?,
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
        let held = match open.hold(found.ino) {
            Err(error) if error.code() == Code::StaleInode => continue,
            held => held?,
        };
        if held.generation == found.generation {
            return Ok(held);
        }
        open.release(found.ino)?;
    }
}
