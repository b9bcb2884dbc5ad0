//! The files of an epoch, read ahead: the class `lanefs._lanefs.Epoch`.

use crate::error;
use crate::lent::lent;
use crate::path_set::PathSet;
use crate::volume::Volume;
use lanefs::{EpochBatch, EpochOptions, EpochOrder, EpochReader};
use lanefs_sync::lock::Mutex;
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::mem::ManuallyDrop;

/// Rows, bytes, offsets and codes of the files of a batch.
type BatchArrays<'py> = (
    Bound<'py, PyArray1<u32>>,
    Bound<'py, PyArray1<u8>>,
    Bound<'py, PyArray1<u64>>,
    Bound<'py, PyArray1<u8>>,
);

/// A pass over many files, whose threads read ahead.
#[pyclass(frozen, module = "lanefs._lanefs")]
pub(crate) struct Epoch {
    /// The process of the threads.
    pid: u32,
    /// `None` once it is closed.
    reader: Mutex<Option<EpochReader>>,
}

#[pymethods]
impl Epoch {
    /// Starts an epoch: in the order of the seed, in that of the rows, or as the paths are given.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "one for each argument of the call in Python")]
    fn new(
        py: Python<'_>,
        volume: &Bound<'_, Volume>,
        paths: &Bound<'_, PathSet>,
        batch: usize,
        seed: Option<u64>,
        rows: Option<Vec<u32>>,
        memory: u64,
        start: u64,
        threads: usize,
    ) -> PyResult<Self> {
        let order = match (seed, rows) {
            (_, Some(rows)) => EpochOrder::Rows(rows.into()),
            (Some(seed), None) => EpochOrder::Shuffled(seed),
            (None, None) => EpochOrder::AsGiven,
        };
        let options = EpochOptions { order, batch, memory, start, threads, ..EpochOptions::default() };
        let paths = paths.get();
        let reader =
            volume.get().with(py, None, |open| EpochReader::new(open.shared(), paths.shared(), options))?;
        Ok(Epoch { pid: std::process::id(), reader: Mutex::new(Some(reader)) })
    }

    /// Returns the next batch; `None` at the end. Its memory serves another batch once its arrays are gone.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<BatchArrays<'py>>> {
        if self.is_foreign() {
            return Err(PyRuntimeError::new_err(
                "this process was forked from the one that reads the epoch; start one in this process",
            ));
        }
        let next = py.detach(|| self.reader.lock().as_mut().and_then(Iterator::next));
        let Some(batch) = next.transpose().map_err(|error| error::of(&error, None))? else { return Ok(None) };
        let owner = Bound::new(py, BatchMemory { pid: self.pid, batch: ManuallyDrop::new(batch) })?;
        let batch = &owner.get().batch;
        let contents = batch.contents();
        let codes: Vec<u8> = contents.codes().iter().map(|code| code.number()).collect();
        let rows = batch.rows().to_vec().into_pyarray(py);
        // SAFETY: both are memory of `owner`, which never moves or changes it.
        let (bytes, offsets) =
            unsafe { (lent(contents.bytes(), owner.as_any())?, lent(contents.offsets(), owner.as_any())?) };
        Ok(Some((rows, bytes, offsets, codes.into_pyarray(py))))
    }

    /// Number of files before the next batch.
    #[getter]
    fn position(&self, py: Python<'_>) -> Option<u64> {
        if self.is_foreign() {
            return None;
        }
        py.detach(|| self.reader.lock().as_ref().map(EpochReader::position))
    }

    /// Ends the threads.
    fn close(&self, py: Python<'_>) {
        if !self.is_foreign() {
            py.detach(|| drop(self.reader.lock().take()));
        }
    }
}

impl Epoch {
    /// True in a forked child, where the threads do not exist. Nothing may wait for them there, and the lock
    /// may be held by one that does not exist either.
    fn is_foreign(&self) -> bool {
        self.pid != std::process::id()
    }
}

impl Drop for Epoch {
    fn drop(&mut self) {
        let reader = self.reader.get_mut().take();
        if self.is_foreign() {
            // Dropping it would wait for its threads.
            std::mem::forget(reader);
            return;
        }
        let mut reader = Some(reader);
        if Python::try_attach(|py| py.detach(|| drop(reader.take()))).is_none() {
            drop(reader);
        }
    }
}

/// A batch that has been handed out: the memory of its arrays.
#[pyclass(frozen)]
struct BatchMemory {
    pid: u32,
    batch: ManuallyDrop<EpochBatch>,
}

impl Drop for BatchMemory {
    fn drop(&mut self) {
        // In a forked child a thread that does not exist may hold the lock of the memory.
        if self.pid == std::process::id() {
            // SAFETY: nobody uses the batch after this.
            unsafe { ManuallyDrop::drop(&mut self.batch) };
        }
    }
}

/// Returns the rows of so many paths in the order of a seed, which is the same for ever.
#[pyfunction]
pub(crate) fn shuffled(py: Python<'_>, count: u32, seed: u64) -> Bound<'_, PyArray1<u32>> {
    py.detach(|| EpochOrder::shuffled(count, seed)).into_pyarray(py)
}
