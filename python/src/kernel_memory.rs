//! Memory of a device for kernels of the user's, by `lanefs_device.h`: a mirror of the volume's metadata, and
//! a table of files. The classes `KernelMirror` and `KernelFiles` of `lanefs._lanefs`.

use crate::device::InThisProcess;
use crate::device_memory::no_device;
use crate::engine::OpenVolume;
use crate::error;
use crate::volume::Volume;
use lanefs::{Ino, Result};
use lanefs_gpu::{
    BroughtFiles, DEVICE_HEADER, DeviceFileTable, ExportedMemory, FileTableOptions, MirrorExport,
    MirrorExportOptions, Mirrored,
};
use lanefs_sync::lock::Mutex;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::os::fd::IntoRawFd;

/// Files that were brought, that failed, that are left, and whether a new round has begun.
type Brought = (usize, usize, usize, bool);

/// Returns the text of `lanefs_device.h`.
#[pyfunction]
pub(crate) fn device_header() -> &'static str {
    DEVICE_HEADER
}

/// Memory that only the process which made it uses, until it is closed.
struct Closable<T>(InThisProcess<Mutex<Option<T>>>);

impl<T: Send> Closable<T> {
    fn new(memory: T) -> Self {
        Closable(InThisProcess::new(Mutex::new(Some(memory))))
    }

    /// Works with the memory, detached from the interpreter.
    fn with<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut T) -> Result<R> + Send) -> PyResult<R> {
        let memory = self.memory()?;
        let done = py.detach(|| memory.lock().as_mut().map(work));
        done.ok_or_else(closed)?.map_err(|error| error::of(&error, None))
    }

    /// Works with the memory and the device's copy of a volume's metadata, detached from the interpreter.
    fn with_mirrored<R: Send>(
        &self,
        py: Python<'_>,
        volume: &Volume,
        work: impl FnOnce(&mut T, &Mirrored<'_>) -> lanefs_gpu::Result<R> + Send,
    ) -> PyResult<R> {
        let memory = self.memory()?;
        let done = volume.with(py, None, |open| {
            let mut memory = memory.lock();
            memory.as_mut().map(|memory| on_mirror(open, |mirrored| work(memory, mirrored))).transpose()
        })?;
        done.ok_or_else(closed)
    }

    fn memory(&self) -> PyResult<&Mutex<Option<T>>> {
        self.0.get().ok_or_else(|| {
            let text = "this process was forked from the one that has the memory of the device";
            PyRuntimeError::new_err(text)
        })
    }

    /// Ends the memory of this process; importers keep theirs.
    fn close(&self, py: Python<'_>) {
        if let Some(memory) = self.0.get() {
            py.detach(|| drop(memory.lock().take()));
        }
    }
}

fn closed() -> PyErr {
    PyValueError::new_err("the memory of the device is closed")
}

/// Works with the device's copy of a volume's metadata.
///
/// # Errors
/// There is none; the device's.
fn on_mirror<R>(open: &OpenVolume, work: impl FnOnce(&Mirrored<'_>) -> lanefs_gpu::Result<R>) -> Result<R> {
    Ok(open.with_mirrored(work).ok_or_else(no_device)??)
}

/// Returns a descriptor, the bytes of the allocation, and the offset in it.
fn parts(exported: ExportedMemory) -> (i32, u64, u64) {
    (exported.fd.into_raw_fd(), exported.allocation_bytes, exported.offset)
}

/// Returns the UUID of the volume's device.
fn uuid(open: &OpenVolume) -> Result<[u8; 16]> {
    Ok(open.gpu().ok_or_else(no_device)?.info().uuid.into_bytes())
}

/// A mirror of one generation.
#[pyclass(frozen, module = "lanefs._lanefs")]
pub(crate) struct KernelMirror {
    /// Bytes of the memory, which stay the same.
    #[pyo3(get)]
    capacity: u64,
    #[pyo3(get)]
    uuid: [u8; 16],
    export: Closable<MirrorExport>,
}

#[pymethods]
impl KernelMirror {
    #[new]
    fn new(py: Python<'_>, volume: &Volume, caches: bool, spare: u64) -> PyResult<Self> {
        let options = MirrorExportOptions { caches, spare };
        let (uuid, export) = volume.with(py, None, |open| {
            Ok((uuid(open)?, on_mirror(open, |mirrored| mirrored.export(&options))?))
        })?;
        Ok(KernelMirror { capacity: export.capacity(), uuid, export: Closable::new(export) })
    }

    /// Bytes that are in use, and their generation.
    fn state(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        self.export.with(py, |export| Ok((export.bytes(), export.generation())))
    }

    /// Copies the metadata as they are now, and returns their generation.
    fn refresh(&self, py: Python<'_>, volume: &Volume) -> PyResult<u64> {
        self.export.with_mirrored(py, volume, |export, mirrored| export.refresh(mirrored))
    }

    /// Returns the generation of the metadata as they are now.
    fn newest(&self, py: Python<'_>, volume: &Volume) -> PyResult<u64> {
        self.export.with_mirrored(py, volume, |_, mirrored| mirrored.generation())
    }

    /// Exports the memory.
    fn export_fd(&self, py: Python<'_>) -> PyResult<(i32, u64, u64)> {
        self.export.with(py, |export| Ok(parts(export.export_fd()?)))
    }

    fn close(&self, py: Python<'_>) {
        self.export.close(py);
    }
}

/// Files that kernels find by inode number.
#[pyclass(frozen, module = "lanefs._lanefs")]
pub(crate) struct KernelFiles {
    /// Bytes of the memory.
    #[pyo3(get)]
    nbytes: u64,
    #[pyo3(get)]
    uuid: [u8; 16],
    table: Closable<DeviceFileTable>,
}

#[pymethods]
impl KernelFiles {
    #[new]
    fn new(py: Python<'_>, volume: &Volume, capacity: u64, files: u64, misses: u64) -> PyResult<Self> {
        let [files, misses] = [files, misses].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        let options = FileTableOptions { files, misses, ..FileTableOptions::default() };
        let (uuid, table) = volume.with(py, None, |open| {
            let gpu = open.gpu().ok_or_else(no_device)?;
            Ok((uuid(open)?, gpu.file_table(capacity, &options)?))
        })?;
        Ok(KernelFiles { nbytes: table.bytes(), uuid, table: Closable::new(table) })
    }

    /// Number of files that are there.
    fn count(&self, py: Python<'_>) -> PyResult<usize> {
        self.table.with(py, |table| Ok(table.len()))
    }

    /// Returns the inode numbers that kernels have missed.
    fn missed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u64>>> {
        let missed = self.table.with(py, |table| Ok(table.missed()?))?;
        Ok(missed.into_iter().map(|ino| ino.0).collect::<Vec<u64>>().into_pyarray(py))
    }

    /// Brings the files that kernels have missed.
    fn bring_missed(&self, py: Python<'_>, volume: &Volume) -> PyResult<Brought> {
        let brought = self.table.with_mirrored(py, volume, |table, mirrored| mirrored.bring_missed(table));
        brought.map(counts)
    }

    /// Brings files by their inode numbers.
    fn bring_files(
        &self,
        py: Python<'_>,
        volume: &Volume,
        inodes: PyReadonlyArray1<'_, u64>,
    ) -> PyResult<Brought> {
        let inodes: Vec<Ino> = inodes.as_array().iter().map(|number| Ino(*number)).collect();
        let brought =
            self.table.with_mirrored(py, volume, |table, mirrored| mirrored.bring_files(&inodes, table));
        brought.map(counts)
    }

    /// Exports the memory.
    fn export_fd(&self, py: Python<'_>) -> PyResult<(i32, u64, u64)> {
        self.table.with(py, |table| Ok(parts(table.export_fd()?)))
    }

    fn close(&self, py: Python<'_>) {
        self.table.close(py);
    }
}

fn counts(brought: BroughtFiles) -> Brought {
    (brought.files, brought.failed, brought.left, brought.is_new_round)
}
