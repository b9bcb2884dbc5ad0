//! Memory of a device for other libraries, by DLPack: a capsule that keeps an object of Python alive as long
//! as a tensor over the memory lives.

use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

/// The name of a capsule that nobody has taken yet.
const NAME: &CStr = c"dltensor";

/// `DLDevice`.
#[repr(C)]
struct DlDevice {
    kind: i32,
    number: i32,
}

/// `DLDataType`.
#[repr(C)]
struct DlType {
    code: u8,
    bits: u8,
    lanes: u16,
}

/// `DLTensor`.
#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: DlDevice,
    dimensions: i32,
    kind: DlType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
struct DlManaged {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlManaged)>,
}

/// A tensor and its owner. The tensor's `context` is the address of this.
struct LentTensor {
    managed: DlManaged,
    shape: i64,
    owner: Option<Py<PyAny>>,
}

/// Makes a capsule of a tensor of bytes. The memory must stay as long as `owner` lives.
#[pyfunction]
pub(crate) fn dlpack(
    py: Python<'_>,
    owner: Py<PyAny>,
    address: usize,
    bytes: i64,
    device: (i32, i32),
) -> PyResult<Py<PyAny>> {
    let tensor = DlTensor {
        data: address as *mut c_void,
        device: DlDevice { kind: device.0, number: device.1 },
        dimensions: 1,
        kind: DlType { code: 1, bits: 8, lanes: 1 },
        shape: null_mut(),
        strides: null_mut(),
        byte_offset: 0,
    };
    let managed = DlManaged { tensor, context: null_mut(), deleter: Some(release) };
    let lent = Box::into_raw(Box::new(LentTensor { managed, shape: bytes, owner: Some(owner) }));
    // SAFETY: sound, the tensor was made above and nobody else knows it. It stays at its address until
    // `release`, which runs once: called by whoever took the capsule, or by the capsule's destructor where
    // nobody did.
    unsafe {
        (*lent).managed.tensor.shape = &raw mut (*lent).shape;
        (*lent).managed.context = lent.cast();
        let capsule = ffi::PyCapsule_New((&raw mut (*lent).managed).cast(), NAME.as_ptr(), Some(discard));
        if capsule.is_null() {
            release(&raw mut (*lent).managed);
            return Err(PyErr::fetch(py));
        }
        Ok(Bound::from_owned_ptr(py, capsule).unbind())
    }
}

/// Ends a tensor.
///
/// # Safety
/// The tensor was made by [`dlpack`], and this is its last use.
unsafe extern "C" fn release(managed: *mut DlManaged) {
    // SAFETY: the caller's promise; `context` is the address of the box.
    let mut lent = unsafe { Box::from_raw((*managed).context.cast::<LentTensor>()) };
    let mut owner = lent.owner.take();
    // Without an interpreter, at the end of the process, nothing is left to be freed.
    let _ = Python::try_attach(|_| drop(owner.take()));
    std::mem::forget(owner);
}

/// Ends the tensor of a capsule that nobody has taken: one that was taken has another name.
///
/// # Safety
/// Python calls it with a capsule that [`dlpack`] has made.
unsafe extern "C" fn discard(capsule: *mut ffi::PyObject) {
    // SAFETY: the caller's promise; the pointer of a capsule of this name is a tensor that nobody has taken.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) == 1 {
            release(ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast());
        }
    }
}
