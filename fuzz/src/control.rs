//! Messages to the server of a mount.

use lanefs::{InodeSize, Volume};
use lanefs_serve::fuzzing::receive;
use lanefs_testkit::volume::options;
use std::io::Write;
use std::os::unix::net::UnixStream;

/// Bytes that a socket takes without a reader.
const MOST_BYTES: usize = 64 << 10;
/// Bytes of the shortest frame: its length and its kind.
const SHORTEST_BYTES: usize = 5;

/// Sends the input to a server with an empty volume, which must be sound afterwards.
pub fn control(data: &[u8]) {
    let data = &data[..data.len().min(MOST_BYTES)];
    let (mut here, there) = UnixStream::pair().expect("sockets");
    here.write_all(data).expect("the socket has room");
    drop(here);
    let volume =
        Volume::create_memory(&options(lanefs_format::MIN_VOLUME, InodeSize::B256)).expect("a volume");
    if let Ok(frames) = receive(there, &volume) {
        assert!(frames * SHORTEST_BYTES <= data.len());
    }
    let report = volume.check(false, &|_, _| {}).expect("a check");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}
