//! Memory of a device with the contents of many files: the class `lanefs._lanefs.DeviceMemory`.

use crate::engine::OpenVolume;
use crate::error;
use crate::path_set::PathSet;
use crate::volume::{LaidOut, Volume, byte_ranges};
use lanefs::{Code, Error, ReadFiles, Result};
use lanefs_gpu::{DeviceFiles, DeviceFilesOptions};
use lanefs_sync::lock::Mutex;
use numpy::IntoPyArray;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::mem::ManuallyDrop;
use std::os::fd::IntoRawFd;

/// Memory of a device, for one batch of files after the other.
#[pyclass(frozen, module = "lanefs._lanefs")]
pub(crate) struct DeviceMemory {
    pid: u32,
    #[pyo3(get)]
    capacity: u64,
    /// UUID of the device, by which other interfaces know it.
    #[pyo3(get)]
    uuid: [u8; 16],
    batch: ManuallyDrop<Mutex<Batch>>,
}

/// The batch that the memory has.
struct Batch {
    files: DeviceFiles,
    /// Its number.
    number: u64,
}

#[pymethods]
impl DeviceMemory {
    /// Makes memory of the volume's device.
    #[new]
    fn new(py: Python<'_>, volume: &Volume, capacity: u64, exportable: bool) -> PyResult<Self> {
        let options = DeviceFilesOptions { exportable, ..DeviceFilesOptions::default() };
        let (files, uuid) = volume.with(py, None, |open| {
            let gpu = open.gpu().ok_or_else(no_device)?;
            Ok((gpu.device_files(capacity, &options)?, gpu.info().uuid.into_bytes()))
        })?;
        let batch = ManuallyDrop::new(Mutex::new(Batch { files, number: 0 }));
        Ok(DeviceMemory { pid: std::process::id(), capacity, uuid, batch })
    }

    /// Reads files, and returns the number of the batch, offsets and codes. Without `waits` the device may
    /// still copy the last bytes, where it has a timeline.
    fn read_files<'py>(
        &self,
        py: Python<'py>,
        volume: &Volume,
        paths: &Bound<'py, PathSet>,
        ranges: Option<Vec<(u64, u64)>>,
        threads: usize,
        waits: bool,
    ) -> PyResult<(u64, LaidOut<'py>)> {
        let (batch, paths, ranges) = (self.batch()?, paths.get(), byte_ranges(ranges));
        let options = ReadFiles { ranges: ranges.as_deref(), threads, ..ReadFiles::default() };
        let (number, offsets, codes) = volume.with(py, None, |open| {
            let mut batch = batch.lock();
            // Also where the call fails: the files of the last batch are gone.
            batch.number += 1;
            open.read_to_device(&options, paths.view(), &mut batch.files, waits)?;
            let layout = batch.files.layout();
            let offsets: Vec<i64> = layout.offsets().iter().map(|offset| *offset as i64).collect();
            let codes: Vec<u8> = layout.codes().iter().map(|code| code.number()).collect();
            Ok((batch.number, offsets, codes))
        })?;
        Ok((number, (offsets.into_pyarray(py), codes.into_pyarray(py))))
    }

    /// Copies bytes of the files of a batch to the host.
    fn read<'py>(&self, py: Python<'py>, number: u64, start: u64, end: u64) -> PyResult<Bound<'py, PyBytes>> {
        let batch = self.batch()?;
        let read = py.detach(|| {
            let batch = batch.lock();
            (batch.number == number).then(|| batch.files.read(start..end).map_err(Error::from))
        });
        match read {
            None => Err(PyValueError::new_err("the memory has the files of a later batch")),
            Some(bytes) => Ok(PyBytes::new(py, &bytes.map_err(|error| error::of(&error, None))?)),
        }
    }

    /// Waits until the bytes of the last batch are on the device.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        let batch = self.batch()?;
        let waited = py.detach(|| batch.lock().files.wait().map_err(Error::from));
        waited.map_err(|error| error::of(&error, None))
    }

    /// Exports the timeline of the batches that were begun; `None` where the device exports none.
    fn export_timeline(&self, py: Python<'_>) -> PyResult<Option<i32>> {
        let batch = self.batch()?;
        match py.detach(|| batch.lock().files.export_timeline()) {
            Ok(fd) => Ok(Some(fd.into_raw_fd())),
            Err(lanefs_gpu::Error::NotExportable(_)) => Ok(None),
            Err(error) => Err(error::of(&error.into(), None)),
        }
    }

    /// Returns the value of the timeline when the last batch that was begun has arrived.
    fn arrival(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        let batch = self.batch()?;
        Ok(py.detach(|| batch.lock().files.arrival()))
    }

    /// Exports the memory: a file descriptor, the bytes of the allocation, and the offset in it.
    fn export_fd(&self, py: Python<'_>) -> PyResult<(i32, u64, u64)> {
        let batch = self.batch()?;
        let exported = py.detach(|| batch.lock().files.export_fd().map_err(Error::from));
        let exported = exported.map_err(|error| error::of(&error, None))?;
        Ok((exported.fd.into_raw_fd(), exported.allocation_bytes, exported.offset))
    }
}

impl DeviceMemory {
    /// The memory, which only the process that made it may use.
    fn batch(&self) -> PyResult<&Mutex<Batch>> {
        if self.pid == std::process::id() {
            return Ok(&self.batch);
        }
        let text = "this process was forked from the one that has the memory of the device";
        Err(PyRuntimeError::new_err(text))
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // A forked child has no right to the parent's device.
        if self.pid == std::process::id() {
            // SAFETY: nobody uses the memory after this.
            unsafe { ManuallyDrop::drop(&mut self.batch) };
        }
    }
}

impl OpenVolume {
    /// Reads files into memory of the device.
    ///
    /// # Errors
    /// The volume has no device; its errors, and the device's.
    fn read_to_device(
        &self,
        options: &ReadFiles<'_>,
        paths: lanefs::Paths<'_>,
        target: &mut DeviceFiles,
        waits: bool,
    ) -> Result<()> {
        let read = self.with_mirrored(|mirrored| match waits {
            true => mirrored.read_files(options, paths, target).map(drop),
            false => mirrored.begin_files(options, paths, target).map(drop),
        });
        Ok(read.ok_or_else(no_device)??)
    }
}

pub(crate) fn no_device() -> Error {
    let what = "memory of a device is for a volume that was opened with engine='gpu' in this process";
    Error::At { code: Code::Invalid, what: what.into() }
}
