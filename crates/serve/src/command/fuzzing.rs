//! Access for the fuzz targets.

use crate::command::calls;
use crate::command::streams::{Ask, CommandLine, Done};
use crate::command::wire::{self, FrameKind, Hello, Patience, Request};
use lanefs::FileSystem;
use std::os::unix::net::UnixStream;

/// Receives frames until the end of a connection, and decodes each as every message that it could be. Calls
/// are executed on `volume`. Returns the number of frames.
///
/// # Errors
/// The first bytes that are not a frame.
pub fn receive(stream: UnixStream, volume: &dyn FileSystem) -> std::io::Result<usize> {
    let socket = stream.into();
    let mut frames = 0;
    while let Some(frame) = wire::receive(&socket, &Patience::ENDLESS)? {
        frames += 1;
        let content = &frame.content;
        let _ = (Hello::decode(content), Ask::decode(content), Done::decode(content));
        if let Some(request) = Request::decode(content) {
            CommandLine::decode(request.content);
        }
        if frame.kind == FrameKind::Call {
            calls::execute(volume, 0, &|| volume.sync(), content);
        }
    }
    Ok(frames)
}
