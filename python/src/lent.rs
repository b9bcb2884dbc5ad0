//! Arrays over memory that an object of Python keeps alive.

use numpy::ndarray::ArrayView1;
use numpy::{Element, PyArray1, PyArrayMethods};
use pyo3::prelude::*;

/// Views memory as an array that nobody can write to, and that keeps `owner` alive.
///
/// # Safety
/// The memory stays where it is, and nobody writes it, as long as `owner` lives.
pub(crate) unsafe fn lent<'py, T: Element>(
    memory: &[T],
    owner: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyArray1<T>>> {
    // SAFETY: the caller's promise; the array keeps `owner`.
    let array = unsafe { PyArray1::borrow_from_array(&ArrayView1::from(memory), owner.clone()) };
    array.try_readwrite()?.make_nonwriteable();
    Ok(array)
}
