//! Paths in memory of Apache Arrow, by its C data interface
//! (<https://arrow.apache.org/docs/format/CDataInterface.html>). Nothing is copied.

use lanefs::{BadOffsets, Paths};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::{CStr, c_char, c_void};

/// `struct ArrowSchema`, as far as it is read.
#[repr(C)]
struct ArrowSchema {
    format: *const c_char,
}

/// `struct ArrowArray`.
#[repr(C)]
struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *const *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

/// Text and offsets that an Arrow array owns, checked.
pub(crate) struct ArrowPaths {
    /// A view of the array's memory, which lives as long as this value; never handed out for longer.
    paths: Paths<'static>,
    /// Released when this is dropped.
    _array: Owned,
}

/// An array that this process has to release.
struct Owned(ArrowArray);

// SAFETY: the interface forbids everybody to change the memory of an array after its export, and allows any
// thread to release it. This value only reads the memory, and releases it once.
unsafe impl Send for ArrowPaths {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for ArrowPaths {}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(release) = self.0.release {
            // SAFETY: the array was moved here by the rules of the interface, so it is released here, once.
            unsafe { release(&raw mut self.0) };
        }
    }
}

impl ArrowPaths {
    /// Takes the array that an object exports.
    ///
    /// # Errors
    /// `TypeError` for an array of other values than text or bytes with offsets; `ValueError` for one with
    /// nulls, or with offsets that do not ascend.
    pub(crate) fn import(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (schema, array) = object
            .call_method0("__arrow_c_array__")?
            .extract::<(Bound<'_, PyCapsule>, Bound<'_, PyCapsule>)>()?;
        let schema = schema.pointer_checked(Some(c"arrow_schema"))?.cast::<ArrowSchema>();
        let array = array.pointer_checked(Some(c"arrow_array"))?.cast::<ArrowArray>();
        // SAFETY: a capsule of this name has a schema, whose format is a string while the capsule lives.
        let format = unsafe { CStr::from_ptr(schema.as_ref().format) }.to_bytes();
        let is_wide = match format {
            b"u" | b"z" => false,
            b"U" | b"Z" => true,
            other => {
                let format = String::from_utf8_lossy(other);
                return Err(PyTypeError::new_err(format!(
                    "paths is an Arrow array of format '{format}'; cast it to string or large_string"
                )));
            }
        };
        // SAFETY: a capsule of this name has an array. Moving it is a copy that takes `release` away from the
        // source, whose capsule then does nothing.
        let array = unsafe {
            let source = array.as_ptr();
            let moved = source.read();
            (*source).release = None;
            Owned(moved)
        };
        // SAFETY: the memory lives until the array is released, with this value.
        let paths = unsafe { array.paths(is_wide) }?;
        Ok(ArrowPaths { paths, _array: array })
    }

    /// The paths.
    pub(crate) fn view(&self) -> Paths<'_> {
        self.paths
    }
}

impl Owned {
    /// Views the paths of an array of text.
    ///
    /// # Safety
    /// The array has the format of text, with 64-bit offsets where `is_wide` says so. The view ends before
    /// the array is released.
    ///
    /// # Errors
    /// `ValueError` for an array that the interface does not allow, or that has nulls.
    unsafe fn paths(&self, is_wide: bool) -> PyResult<Paths<'static>> {
        let (array, bad) =
            (&self.0, |why: &str| PyValueError::new_err(format!("paths is an Arrow array {why}")));
        let unordered = |error: BadOffsets| PyValueError::new_err(error.to_string());
        if array.release.is_none() {
            return Err(bad("that has been released"));
        }
        let (Ok(count), Ok(start)) = (usize::try_from(array.length), usize::try_from(array.offset)) else {
            return Err(bad("of negative length"));
        };
        if count == 0 {
            return Paths::from_offsets32(&[], &[0]).map_err(unordered);
        }
        if array.n_buffers != 3 || array.buffers.is_null() {
            return Err(bad("without its three buffers"));
        }
        // SAFETY: there are three buffers: a bit for each value or null, offsets, and text.
        let [bits, offsets, text] = unsafe { array.buffers.cast::<[*const c_void; 3]>().read() };
        let bits = bits.cast::<u8>();
        // SAFETY: the buffer has a bit for each value.
        let is_null = |i: usize| unsafe { *bits.add(i / 8) } >> (i % 8) & 1 == 0;
        if array.null_count != 0 && !bits.is_null() && (start..start + count).any(is_null) {
            return Err(bad("with nulls; drop them first"));
        }
        if offsets.is_null() {
            return Err(bad("without offsets"));
        }
        // SAFETY: there is one offset more than there are values, and text up to the last of them.
        unsafe {
            if is_wide {
                let offsets = std::slice::from_raw_parts(offsets.cast::<i64>().add(start), count + 1);
                Paths::from_offsets(text_up_to(text, offsets[count]), offsets)
            } else {
                let offsets = std::slice::from_raw_parts(offsets.cast::<i32>().add(start), count + 1);
                Paths::from_offsets32(text_up_to(text, offsets[count].into()), offsets)
            }
        }
        .map_err(unordered)
    }
}

/// Views text up to an offset; none where the offset is negative, or there is no memory.
///
/// # Safety
/// The memory has so many bytes, and nobody changes them while they are viewed.
unsafe fn text_up_to(text: *const c_void, end: i64) -> &'static [u8] {
    match usize::try_from(end) {
        // SAFETY: as the caller says.
        Ok(end) if !text.is_null() => unsafe { std::slice::from_raw_parts(text.cast(), end) },
        _ => &[],
    }
}
