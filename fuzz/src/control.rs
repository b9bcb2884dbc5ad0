//! Requests to a mount.

use lanefs_fuse::fuzzing::receive;
use std::io::Write;
use std::os::unix::net::UnixStream;

/// Bytes that a socket takes without a reader.
const MOST: usize = 64 << 10;

/// Sends the input as a request and receives it. A received request has no empty end.
pub fn control(data: &[u8]) {
    let (mut here, there) = UnixStream::pair().expect("sockets");
    here.write_all(&data[..data.len().min(MOST)]).expect("the socket has room");
    drop(here);
    if let Ok(Some(words)) = receive(&there) {
        assert!(words.iter().map(|word| word.len() + 1).sum::<usize>() <= data.len().max(1));
    }
}
