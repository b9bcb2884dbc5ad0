//! A request as it comes through the device, in the parts that an exchange of a ring has, and its reply.

use crate::kernel::MAX_WRITE_BYTES;
use crate::requests::Request;
use crate::requests::abi::{ARGUMENT_AT, HEADER_BYTES, Out, REPLY_HEADER_BYTES, opcode, u32_at};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::io::{self, IoSlice};

/// Bytes of the header of a request.
const REQUEST_HEADER_BYTES: usize = 40;
/// Bytes of the largest first argument.
const MOST_ARGUMENT_BYTES: usize = 128;
const PAGE_BYTES: usize = 4096;

/// Bytes of the first argument of a request; names and content follow it. That of `SETXATTR` has four words
/// since Linux 5.12, if both sides agree.
fn argument_bytes(code: u32, has_long_setxattr: bool) -> usize {
    match code {
        opcode::GETATTR | opcode::MKNOD | opcode::RENAME2 | opcode::FSYNC | opcode::FSYNCDIR => 16,
        opcode::CREATE | opcode::TMPFILE => 16,
        opcode::SETATTR => 88,
        opcode::MKDIR | opcode::RENAME | opcode::LINK | opcode::OPEN | opcode::OPENDIR => 8,
        opcode::SETXATTR if has_long_setxattr => 16,
        opcode::SETXATTR | opcode::GETXATTR | opcode::LISTXATTR => 8,
        opcode::READ | opcode::WRITE | opcode::READDIR | opcode::READDIRPLUS => 40,
        opcode::RELEASE | opcode::RELEASEDIR | opcode::LSEEK => 24,
        opcode::IOCTL | opcode::FALLOCATE => 32,
        opcode::COPY_FILE_RANGE => 56,
        opcode::FORGET | opcode::BATCH_FORGET => 8,
        opcode::INIT => 64,
        _ => 0,
    }
}

/// Memory of a request and its reply.
pub(super) struct Message {
    /// Header and first argument, at the places of an exchange.
    header: [u8; HEADER_BYTES],
    /// Bytes as they come: header, first argument, payload. The reply takes the place of the payload.
    bytes: Vec<u8>,
    /// Bytes that came.
    len: usize,
    has_long_setxattr: bool,
}

impl Message {
    /// Returns memory for the largest request. The host gives pages when they are used.
    pub(super) fn new(has_long_setxattr: bool) -> Self {
        let bytes = vec![0; MAX_WRITE_BYTES as usize + PAGE_BYTES];
        Message { header: [0; HEADER_BYTES], bytes, len: 0, has_long_setxattr }
    }

    /// Returns the request and the memory of its payload.
    pub(super) fn parts(&mut self) -> (Request<'_>, &mut [u8]) {
        let Message { header, bytes, len, has_long_setxattr } = self;
        let argument = argument_bytes(u32_at(bytes, 4), *has_long_setxattr);
        let start = (REQUEST_HEADER_BYTES + argument).min(*len);
        header[..REQUEST_HEADER_BYTES].copy_from_slice(&bytes[..REQUEST_HEADER_BYTES]);
        let place = &mut header[ARGUMENT_AT..ARGUMENT_AT + MOST_ARGUMENT_BYTES];
        place.fill(0);
        let argument = bytes.get(REQUEST_HEADER_BYTES..start).unwrap_or_default();
        place[..argument.len()].copy_from_slice(argument);
        let payload_bytes = *len - start;
        (Request { header, payload_bytes }, &mut bytes[start..])
    }
}

/// Waits for a request. Returns false where the connection has ended.
///
/// # Errors
/// The host's. `ECONNABORTED`: somebody has aborted the connection, by `/sys/fs/fuse/connections`.
pub(super) fn receive(connection: BorrowedFd<'_>, message: &mut Message) -> io::Result<bool> {
    loop {
        match rustix::io::read(connection, &mut message.bytes[..]) {
            Ok(len) if len >= REQUEST_HEADER_BYTES => {
                message.len = len;
                return Ok(true);
            }
            Ok(_) => return Err(io::ErrorKind::InvalidData.into()),
            // The process that made the request was interrupted before the request was read.
            Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
            Err(Errno::NODEV) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Sends the reply to a request: the first bytes of `payload`, or an error.
pub(super) fn send(connection: BorrowedFd<'_>, unique: u64, answer: Result<usize, i32>, payload: &[u8]) {
    let (error, len) = match answer {
        Ok(len) => (0, len),
        Err(errno) => (-errno, 0),
    };
    let payload = payload.get(..len).unwrap_or_default();
    let mut header = [0; REPLY_HEADER_BYTES as usize];
    let mut out = Out::new(&mut header);
    out.u32(REPLY_HEADER_BYTES + payload.len() as u32);
    out.u32(error as u32);
    out.u64(unique);
    match rustix::io::writev(connection, &[IoSlice::new(&header), IoSlice::new(payload)]) {
        // The process that waited was killed, or the connection has ended; the next read says so.
        Ok(_) | Err(Errno::NOENT | Errno::NODEV) => {}
        Err(errno) => log::error!("the kernel refuses a reply: {errno}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_divided_as_in_an_exchange() {
        let mut message = Message::new(false);
        let mut request = vec![0; REQUEST_HEADER_BYTES];
        request[4..8].copy_from_slice(&opcode::MKDIR.to_ne_bytes());
        request[8..16].copy_from_slice(&9u64.to_ne_bytes());
        request.extend_from_slice(&0o755u32.to_ne_bytes());
        request.extend_from_slice(&0o022u32.to_ne_bytes());
        request.extend_from_slice(b"name\0");
        message.bytes[..request.len()].copy_from_slice(&request);
        message.len = request.len();
        let (parts, payload) = message.parts();
        assert_eq!((parts.opcode(), parts.unique()), (opcode::MKDIR, 9));
        assert_eq!((parts.u32(0), parts.u32(4), parts.payload_bytes), (0o755, 0o022, 5));
        assert_eq!(&payload[..5], b"name\0");
        // An attribute's name and value follow a longer argument where that is agreed.
        message.bytes[4..8].copy_from_slice(&opcode::SETXATTR.to_ne_bytes());
        for (is_long, wanted) in [(false, 5), (true, 0)] {
            message.has_long_setxattr = is_long;
            assert_eq!(message.parts().0.payload_bytes, wanted);
        }
        // A request that ends in its first argument has no payload.
        message.len = REQUEST_HEADER_BYTES + 3;
        assert_eq!(message.parts().0.payload_bytes, 0);
    }
}
