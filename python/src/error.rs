//! Errors of the library as Python's exceptions.

use lanefs::{Code, Error, ErrorKind};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// A path as Python names files: bytes that are not UTF-8 become surrogates.
pub(crate) fn name(path: &[u8]) -> &OsStr {
    OsStr::from_bytes(path)
}

/// Returns an `OSError`; Python makes it a `FileNotFoundError` and so on by its errno.
pub(crate) fn with_errno(errno: i32, text: String, path: Option<&[u8]>) -> PyErr {
    PyOSError::new_err((errno, text, path.map(|path| name(path).to_os_string())))
}

/// Returns the `OSError` of a result code.
pub(crate) fn of_code(code: Code, path: &[u8]) -> PyErr {
    with_errno(code.errno(), code.text().into(), Some(path))
}

/// Returns the `OSError` of a failed call, about a path where the call has one.
pub(crate) fn of(error: &Error, path: Option<&[u8]>) -> PyErr {
    match (error, path) {
        (Error::Code(code), _) => with_errno(code.errno(), code.text().into(), path),
        (Error::At { code, .. }, Some(path)) => of_code(*code, path),
        // A batch or its memory is to blame, not a file.
        (Error::At { code: Code::Invalid, what }, None) => PyValueError::new_err(what.clone()),
        (Error::At { code, what }, None) => of_code(*code, what.as_bytes()),
        (Error::Image { kind: ErrorKind::Exists, why, .. }, Some(_)) => {
            with_errno(Code::Exists.errno(), why.clone(), path)
        }
        (Error::Image { why, .. }, Some(_)) => with_errno(error.errno(), why.clone(), path),
        (Error::Io { source, .. }, Some(_)) if source.raw_os_error().is_some() => {
            with_errno(error.errno(), source.to_string(), path)
        }
        _ => with_errno(error.errno(), error.to_string(), path),
    }
}

/// Returns the `OSError` of a transfer that did not start, or ended early.
pub(crate) fn of_transfer(error: &lanefs_transfer::Error) -> PyErr {
    let filename: Option<OsString> = None;
    PyOSError::new_err((error.errno(), error.to_string(), filename))
}
