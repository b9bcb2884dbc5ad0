//! The structures of the interface, and values that release them.

use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{self, NonNull};

/// `struct ArrowSchema`: the type of an array.
#[repr(C)]
pub(super) struct ArrowSchema {
    pub(super) format: *const c_char,
    pub(super) name: *const c_char,
    pub(super) metadata: *const c_char,
    pub(super) flags: i64,
    pub(super) n_children: i64,
    pub(super) children: *mut *mut ArrowSchema,
    pub(super) dictionary: *mut ArrowSchema,
    pub(super) release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    pub(super) private_data: *mut c_void,
}

/// `struct ArrowArray`: the memory of an array.
#[repr(C)]
pub(super) struct ArrowArray {
    pub(super) length: i64,
    pub(super) null_count: i64,
    pub(super) offset: i64,
    pub(super) n_buffers: i64,
    pub(super) n_children: i64,
    pub(super) buffers: *const *const c_void,
    pub(super) children: *mut *mut ArrowArray,
    pub(super) dictionary: *mut ArrowArray,
    pub(super) release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    pub(super) private_data: *mut c_void,
}

/// `struct ArrowArrayStream`: arrays of one type, one after the other.
#[repr(C)]
pub(super) struct ArrowStream {
    pub(super) get_schema: Option<unsafe extern "C" fn(*mut ArrowStream, *mut ArrowSchema) -> c_int>,
    pub(super) get_next: Option<unsafe extern "C" fn(*mut ArrowStream, *mut ArrowArray) -> c_int>,
    pub(super) get_last_error: Option<unsafe extern "C" fn(*mut ArrowStream) -> *const c_char>,
    pub(super) release: Option<unsafe extern "C" fn(*mut ArrowStream)>,
    pub(super) private_data: *mut c_void,
}

/// A structure of the interface, which has an owner at a time, who releases it.
pub(super) trait Structure: Sized + 'static {
    /// The name of a capsule with this structure.
    const CAPSULE: &'static CStr;

    /// Returns a structure that needs no release.
    fn released() -> Self;

    /// Releases it, if it is not released.
    ///
    /// # Safety
    /// The structure is this process' to release, and was made by the rules of the interface.
    unsafe fn release(&mut self);
}

macro_rules! structures {
    ($($name:ident $capsule:literal { $($field:ident: $value:expr,)* })*) => {
        $(impl Structure for $name {
            const CAPSULE: &'static CStr = $capsule;

            fn released() -> Self {
                $name { $($field: $value,)* release: None, private_data: ptr::null_mut() }
            }

            unsafe fn release(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: the caller's promise.
                    unsafe { release(ptr::from_mut(self)) };
                }
            }
        })*
    };
}

structures! {
    ArrowSchema c"arrow_schema" {
        format: ptr::null(),
        name: ptr::null(),
        metadata: ptr::null(),
        flags: 0,
        n_children: 0,
        children: ptr::null_mut(),
        dictionary: ptr::null_mut(),
    }
    ArrowArray c"arrow_array" {
        length: 0,
        null_count: 0,
        offset: 0,
        n_buffers: 0,
        n_children: 0,
        buffers: ptr::null(),
        children: ptr::null_mut(),
        dictionary: ptr::null_mut(),
    }
    ArrowStream c"arrow_array_stream" {
        get_schema: None,
        get_next: None,
        get_last_error: None,
    }
}

/// A structure that this process has to release.
#[repr(transparent)]
pub(super) struct Owned<S: Structure>(pub(super) S);

// SAFETY: the interface forbids everybody to change the memory of an array after its export, and allows any
// thread to release it. This value only reads the memory, and releases it once. It allows any thread to call
// a stream, one at a time; here that takes an exclusive reference.
unsafe impl<S: Structure> Send for Owned<S> {}
// SAFETY: as above; shared references only read.
unsafe impl<S: Structure> Sync for Owned<S> {}

impl<S: Structure> Drop for Owned<S> {
    fn drop(&mut self) {
        // SAFETY: the structure was made or moved here by the rules of the interface, so it is released here,
        // once.
        unsafe { self.0.release() };
    }
}

impl<S: Structure> Owned<S> {
    /// Takes the structure out of a capsule, which then has a released one.
    ///
    /// # Errors
    /// The capsule has another name.
    pub(super) fn take(capsule: &Bound<'_, PyCapsule>) -> PyResult<Self> {
        let found: NonNull<S> = capsule.pointer_checked(Some(S::CAPSULE))?.cast();
        // SAFETY: a capsule of this name has such a structure. Moving takes it away from the capsule, whose
        // destructor does nothing with a released one. The interpreter's lock keeps other threads away.
        Ok(Owned(unsafe { found.replace(S::released()) }))
    }

    /// Puts the structure into a capsule, which releases it unless somebody takes it out.
    ///
    /// # Errors
    /// The interpreter's.
    pub(super) fn into_capsule(self, py: Python<'_>) -> PyResult<Bound<'_, PyCapsule>> {
        // The capsule's pointer is that of the structure, for the wrapper has its layout.
        PyCapsule::new_with_value(py, self, S::CAPSULE)
    }
}
