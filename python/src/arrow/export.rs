//! Columns for other libraries, in the memory that they have.

use super::interface::{ArrowArray, ArrowSchema, ArrowStream, Owned, Structure};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

/// `ARROW_FLAG_NULLABLE`.
const NULLABLE: i64 = 2;

/// Memory that somebody owns.
#[derive(Clone)]
pub(crate) struct ArrowBuffer {
    start: *const c_void,
    /// `None` for a buffer that is missing.
    _owner: Option<Arc<dyn Send + Sync>>,
}

// SAFETY: the memory is only read, and its owner may be dropped by any thread.
unsafe impl Send for ArrowBuffer {}
// SAFETY: as above.
unsafe impl Sync for ArrowBuffer {}

impl ArrowBuffer {
    /// No memory, such as that of the nulls of a column without any.
    pub(crate) fn none() -> Self {
        ArrowBuffer { start: ptr::null(), _owner: None }
    }

    /// Takes memory.
    pub(crate) fn own<T: Send + Sync + 'static>(memory: Vec<T>) -> Self {
        let owner = Arc::new(memory);
        ArrowBuffer { start: owner.as_ptr().cast(), _owner: Some(owner) }
    }

    /// Takes memory of an owner.
    ///
    /// # Safety
    /// The memory stays where it is, and Rust does not change it, as long as `owner` lives.
    pub(crate) unsafe fn of<T>(memory: &[T], owner: Arc<dyn Send + Sync>) -> Self {
        ArrowBuffer { start: memory.as_ptr().cast(), _owner: Some(owner) }
    }
}

/// A column, with a value or a null for each row.
pub(crate) struct ArrowColumn {
    pub(crate) name: CString,
    /// Its type, in the letters of the interface.
    pub(crate) format: &'static CStr,
    pub(crate) nulls: usize,
    /// Those of the type, of which the first has a bit for each row that is not null.
    pub(crate) buffers: Vec<ArrowBuffer>,
}

/// Columns of the same number of rows: a batch of records.
pub(crate) struct ArrowColumns {
    pub(crate) rows: usize,
    pub(crate) columns: Vec<ArrowColumn>,
}

impl ArrowColumns {
    /// The type, as a capsule.
    ///
    /// # Errors
    /// The interpreter's.
    pub(crate) fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        self.to_schema().into_capsule(py)
    }

    /// The type and the memory, as capsules.
    ///
    /// # Errors
    /// The interpreter's.
    pub(crate) fn array<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        Ok((self.to_schema().into_capsule(py)?, self.to_array().into_capsule(py)?))
    }

    /// A stream of one batch, as a capsule.
    ///
    /// # Errors
    /// The interpreter's.
    pub(crate) fn stream<'py>(self: &Arc<Self>, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let source = Box::new(StreamState { columns: Arc::clone(self), is_read: false });
        let stream = ArrowStream {
            get_schema: Some(get_schema),
            get_next: Some(get_next),
            get_last_error: Some(get_last_error),
            release: Some(release_stream),
            private_data: Box::into_raw(source).cast(),
        };
        Owned(stream).into_capsule(py)
    }

    fn to_schema(&self) -> Owned<ArrowSchema> {
        let columns = self
            .columns
            .iter()
            .map(|column| schema(column.name.clone(), column.format, NULLABLE, Vec::new()));
        schema(CString::default(), c"+s", 0, columns.collect())
    }

    fn to_array(&self) -> Owned<ArrowArray> {
        let columns = self.columns.iter().map(|column| column.to_array(self.rows));
        array(self.rows, 0, vec![ArrowBuffer::none()], columns.collect())
    }
}

impl ArrowColumn {
    /// The type and the memory of the column alone, as capsules.
    ///
    /// # Errors
    /// The interpreter's.
    pub(crate) fn array<'py>(
        &self,
        rows: usize,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let schema = schema(self.name.clone(), self.format, NULLABLE, Vec::new());
        Ok((schema.into_capsule(py)?, self.to_array(rows).into_capsule(py)?))
    }

    fn to_array(&self, rows: usize) -> Owned<ArrowArray> {
        array(rows, self.nulls, self.buffers.clone(), Vec::new())
    }
}

/// Memory that a schema points to.
struct SchemaMemory {
    name: CString,
    children: Vec<*mut ArrowSchema>,
}

/// Memory that an array points to.
struct ArrayMemory {
    starts: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
    _buffers: Vec<ArrowBuffer>,
}

/// The columns of a stream.
struct StreamState {
    columns: Arc<ArrowColumns>,
    is_read: bool,
}

/// Gives structures to their parent.
fn adopt<S: Structure>(children: Vec<Owned<S>>) -> Vec<*mut S> {
    // The wrapper has the layout of the structure.
    children.into_iter().map(|child| Box::into_raw(Box::new(child)).cast::<S>()).collect()
}

/// Frees what [`adopt`] gave. A child that a consumer has moved out is released already.
///
/// # Safety
/// The pointers are from [`adopt`], and nobody uses them after this.
unsafe fn disown<S: Structure>(children: Vec<*mut S>) {
    for child in children {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(child.cast::<Owned<S>>()) });
    }
}

fn schema(
    name: CString,
    format: &'static CStr,
    flags: i64,
    children: Vec<Owned<ArrowSchema>>,
) -> Owned<ArrowSchema> {
    let mut memory = Box::new(SchemaMemory { name, children: adopt(children) });
    Owned(ArrowSchema {
        format: format.as_ptr(),
        name: memory.name.as_ptr(),
        flags,
        n_children: memory.children.len() as i64,
        children: memory.children.as_mut_ptr(),
        release: Some(release_schema),
        private_data: Box::into_raw(memory).cast(),
        ..ArrowSchema::released()
    })
}

fn array(
    rows: usize,
    nulls: usize,
    buffers: Vec<ArrowBuffer>,
    children: Vec<Owned<ArrowArray>>,
) -> Owned<ArrowArray> {
    let starts = buffers.iter().map(|buffer| buffer.start).collect();
    let mut memory = Box::new(ArrayMemory { starts, children: adopt(children), _buffers: buffers });
    Owned(ArrowArray {
        length: rows as i64,
        null_count: nulls as i64,
        n_buffers: memory.starts.len() as i64,
        n_children: memory.children.len() as i64,
        buffers: memory.starts.as_ptr(),
        children: memory.children.as_mut_ptr(),
        release: Some(release_array),
        private_data: Box::into_raw(memory).cast(),
        ..ArrowArray::released()
    })
}

// SAFETY (of all functions below): by the rules of the interface a consumer calls them with a structure that
// this module made, moved or not, and that is not released yet, one call at a time.

unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: see above; the memory is that of `schema`, and the structure is released here.
    unsafe {
        let memory = Box::from_raw((*schema).private_data.cast::<SchemaMemory>());
        (*schema).release = None;
        disown(memory.children);
    }
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: see above; the memory is that of `array`, and the structure is released here.
    unsafe {
        let memory = Box::from_raw((*array).private_data.cast::<ArrayMemory>());
        (*array).release = None;
        disown(memory.children);
    }
}

unsafe extern "C" fn release_stream(stream: *mut ArrowStream) {
    // SAFETY: see above.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<StreamState>()));
        (*stream).release = None;
    }
}

unsafe extern "C" fn get_schema(stream: *mut ArrowStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: see above; `out` is memory for a structure, which the caller releases.
    unsafe {
        let source = &*(*stream).private_data.cast::<StreamState>();
        out.cast::<Owned<ArrowSchema>>().write(source.columns.to_schema());
    }
    0
}

unsafe extern "C" fn get_next(stream: *mut ArrowStream, out: *mut ArrowArray) -> c_int {
    // SAFETY: as for `get_schema`. A released structure is the end.
    unsafe {
        let source = &mut *(*stream).private_data.cast::<StreamState>();
        let next = if source.is_read { Owned(ArrowArray::released()) } else { source.columns.to_array() };
        source.is_read = true;
        out.cast::<Owned<ArrowArray>>().write(next);
    }
    0
}

unsafe extern "C" fn get_last_error(_: *mut ArrowStream) -> *const c_char {
    ptr::null()
}
