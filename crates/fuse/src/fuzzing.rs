//! Access for the fuzz targets.

use std::ffi::OsString;
use std::os::unix::net::UnixStream;

/// Receives a request to a mount and returns its arguments; `None` for bytes that are no request.
///
/// # Errors
/// The socket's.
pub fn receive(stream: &UnixStream) -> std::io::Result<Option<Vec<OsString>>> {
    Ok(crate::wire::receive_request(stream)?.map(|request| request.arguments))
}
