//! Answers about many paths as columns of Arrow: the class `ArrowBatch`.

use crate::arrow::{ArrowBuffer, ArrowColumn, ArrowColumns};
use crate::path_set::PathSet;
use numpy::{Element, PyArray1, PyArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::{CStr, CString};
use std::sync::Arc;

/// Columns about many paths, which libraries take by Arrow's protocols without a copy.
#[pyclass(frozen, module = "lanefs")]
pub(crate) struct ArrowBatch {
    columns: Arc<ArrowColumns>,
}

#[pymethods]
impl ArrowBatch {
    /// Makes columns of arrays: `path`, `exists`, and one for each array, with nulls where a path names no
    /// file.
    #[staticmethod]
    fn of_lookup(
        paths: &Bound<'_, PathSet>,
        codes: &Bound<'_, PyArray1<u8>>,
        arrays: Vec<(String, Bound<'_, PyAny>)>,
    ) -> PyResult<Self> {
        let bits = Bits::of(paths, codes)?;
        let exists = ArrowColumn {
            name: c"exists".into(),
            format: c"b",
            nulls: 0,
            buffers: vec![ArrowBuffer::none(), bits.buffer.clone()],
        };
        let mut columns = vec![PathSet::column(paths, c"path".into()), exists];
        for (name, array) in arrays {
            let (format, values) = numbers(&array, bits.rows)?;
            let buffers = vec![bits.nulls(), values];
            columns.push(ArrowColumn { name: CString::new(name)?, format, nulls: bits.zeros, buffers });
        }
        Ok(ArrowBatch { columns: Arc::new(ArrowColumns { rows: bits.rows, columns }) })
    }

    /// Makes columns of files: `path`, `code` and `content`, which is null for a file that was not read. File
    /// `i` lies from `offsets[i]` to `offsets[i + 1]` of the bytes.
    #[staticmethod]
    fn of_files(
        paths: &Bound<'_, PathSet>,
        codes: &Bound<'_, PyArray1<u8>>,
        bytes: &Bound<'_, PyArray1<u8>>,
        offsets: &Bound<'_, PyArray1<i64>>,
    ) -> PyResult<Self> {
        let bits = Bits::of(paths, codes)?;
        // Another library believes the offsets, and a program may write to its array: a copy is checked and
        // given.
        let ends = offsets.try_readonly()?.as_slice()?.to_vec();
        if ends.len() != bits.rows + 1
            || lanefs::Paths::from_offsets(bytes.try_readonly()?.as_slice()?, &ends).is_err()
        {
            return Err(PyValueError::new_err("the offsets are not those of the files"));
        }
        let code = vec![ArrowBuffer::none(), memory(codes, bits.rows)?];
        let content = vec![bits.nulls(), ArrowBuffer::own(ends), memory(bytes, bytes.len()?)?];
        let columns = vec![
            PathSet::column(paths, c"path".into()),
            ArrowColumn { name: c"code".into(), format: c"C", nulls: 0, buffers: code },
            ArrowColumn { name: c"content".into(), format: c"Z", nulls: bits.zeros, buffers: content },
        ];
        Ok(ArrowBatch { columns: Arc::new(ArrowColumns { rows: bits.rows, columns }) })
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        self.columns.schema(py)
    }

    /// The batch as an array of structures. Another type that the consumer asks for is its to make.
    #[pyo3(signature = (requested_schema = None, /))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema;
        self.columns.array(py)
    }

    /// The batch as a stream of one.
    #[pyo3(signature = (requested_schema = None, /))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        self.columns.stream(py)
    }

    fn __len__(&self) -> usize {
        self.columns.rows
    }

    /// The names of the columns.
    #[getter]
    fn names(&self) -> Vec<String> {
        let names = self.columns.columns.iter().map(|column| column.name.to_string_lossy().into_owned());
        names.collect()
    }

    fn __repr__(&self) -> String {
        format!("<ArrowBatch: {} rows of {}>", self.columns.rows, self.names().join(", "))
    }
}

/// A bit for each path that has an answer.
struct Bits {
    rows: usize,
    /// Paths without an answer.
    zeros: usize,
    buffer: ArrowBuffer,
}

impl Bits {
    /// Takes the codes of paths, of which 0 is success.
    fn of(paths: &Bound<'_, PathSet>, codes: &Bound<'_, PyArray1<u8>>) -> PyResult<Self> {
        let codes = codes.try_readonly()?;
        let codes = codes.as_slice()?;
        let rows = codes.len();
        if paths.get().count() != rows {
            return Err(PyValueError::new_err("there is not one code for each path"));
        }
        let (mut bits, mut zeros) = (vec![0u8; rows.div_ceil(8)], 0);
        for (row, code) in codes.iter().enumerate() {
            bits[row / 8] |= u8::from(*code == 0) << (row % 8);
            zeros += usize::from(*code != 0);
        }
        Ok(Bits { rows, zeros, buffer: ArrowBuffer::own(bits) })
    }

    /// The bits as those of a column with nulls; `None` without nulls.
    fn nulls(&self) -> ArrowBuffer {
        if self.zeros == 0 { ArrowBuffer::none() } else { self.buffer.clone() }
    }
}

/// The memory of an array of so many numbers, and their type in the letters of Arrow.
fn numbers(array: &Bound<'_, PyAny>, rows: usize) -> PyResult<(&'static CStr, ArrowBuffer)> {
    macro_rules! of_type {
        ($($type:ty: $format:literal),*) => {
            $(if let Ok(array) = array.cast::<PyArray1<$type>>() {
                return Ok(($format, memory(array, rows)?));
            })*
        };
    }
    of_type!(u8: c"C", u16: c"S", u32: c"I", u64: c"L", i64: c"l");
    Err(PyTypeError::new_err("a column is an array of numbers"))
}

/// The memory of an array of so many numbers, which is not copied.
fn memory<T: Element + 'static>(array: &Bound<'_, PyArray1<T>>, rows: usize) -> PyResult<ArrowBuffer> {
    let view = array.try_readonly()?;
    let numbers = view.as_slice()?;
    if numbers.len() != rows {
        return Err(PyValueError::new_err(format!("a column has {} values for {rows} rows", numbers.len())));
    }
    // SAFETY: the array has this memory until the owner, which is the array, is dropped. Rust writes to it
    // through numpy's borrows only; a program of Python that does is on its own, as with every array that two
    // objects share.
    Ok(unsafe { ArrowBuffer::of(numbers, Arc::new(array.clone().unbind())) })
}
