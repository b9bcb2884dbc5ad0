//! A request as it comes through the device, in the parts that an exchange of a ring has, and its reply.

use crate::kernel::MAX_WRITE_BYTES;
use crate::requests::Request;
use crate::requests::abi::{ARGUMENT_AT, HEADER_BYTES, Out, REPLY_HEADER_BYTES, opcode, u32_at};
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::io;

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

/// Outcome of the wait for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    Request,
    /// The connection has ended.
    End,
}

/// Memory of a request and its reply.
pub(super) struct Message {
    /// Header and first argument, at the places of an exchange.
    header: [u8; HEADER_BYTES],
    /// Bytes as they come: header, first argument, payload. The reply takes the place of the payload, and its
    /// header the place before that: so it is one piece.
    bytes: Vec<u8>,
    /// Bytes that came.
    len: usize,
    /// Place of the payload.
    start: usize,
    has_long_setxattr: bool,
}

impl Message {
    /// Returns memory for the largest request. The host gives pages when they are used.
    pub(super) fn new(has_long_setxattr: bool) -> Self {
        let bytes = vec![0; MAX_WRITE_BYTES as usize + PAGE_BYTES];
        Message { header: [0; HEADER_BYTES], bytes, len: 0, start: REQUEST_HEADER_BYTES, has_long_setxattr }
    }

    /// Returns the request and the memory of its payload.
    pub(super) fn parts(&mut self) -> (Request<'_>, &mut [u8]) {
        let Message { header, bytes, len, start, has_long_setxattr } = self;
        let argument = argument_bytes(u32_at(bytes, 4), *has_long_setxattr);
        *start = (REQUEST_HEADER_BYTES + argument).min(*len);
        let start = *start;
        header[..REQUEST_HEADER_BYTES].copy_from_slice(&bytes[..REQUEST_HEADER_BYTES]);
        let place = &mut header[ARGUMENT_AT..ARGUMENT_AT + MOST_ARGUMENT_BYTES];
        place.fill(0);
        let argument = bytes.get(REQUEST_HEADER_BYTES..start).unwrap_or_default();
        place[..argument.len()].copy_from_slice(argument);
        let payload_bytes = *len - start;
        (Request { header, payload_bytes }, &mut bytes[start..])
    }

    /// Waits for a request.
    ///
    /// # Errors
    /// The host's. `ECONNABORTED`: somebody has aborted the connection, by `/sys/fs/fuse/connections`.
    pub(super) fn receive(&mut self, connection: impl AsFd) -> io::Result<Received> {
        loop {
            match rustix::io::read(&connection, &mut self.bytes[..]) {
                Ok(len) if len >= REQUEST_HEADER_BYTES => {
                    (self.len, self.start) = (len, REQUEST_HEADER_BYTES);
                    return Ok(Received::Request);
                }
                Ok(_) => return Err(io::ErrorKind::InvalidData.into()),
                // The process that made the request was interrupted before the request was read.
                Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
                Err(Errno::NODEV) => return Ok(Received::End),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Sends the reply to a request, by the connection that it came by: the first bytes of the payload, or an
    /// error.
    pub(super) fn reply(&mut self, connection: impl AsFd, unique: u64, answer: Result<usize, i32>) {
        let (error, len) = match answer {
            Ok(len) => (0, len.min(self.bytes.len() - self.start)),
            Err(errno) => (-errno, 0),
        };
        // A request has a longer header than a reply.
        let begin = self.start - REPLY_HEADER_BYTES as usize;
        let reply = &mut self.bytes[begin..self.start + len];
        let mut out = Out::new(reply);
        out.u32(REPLY_HEADER_BYTES + len as u32);
        out.u32(error as u32);
        out.u64(unique);
        match rustix::io::write(&connection, reply) {
            // The process that waited was killed, or the connection has ended; the next read says so.
            Ok(_) | Err(Errno::NOENT | Errno::NODEV) => {}
            Err(errno) => log::error!("the kernel refuses a reply: {errno}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

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

    #[test]
    fn a_reply_is_one_piece_wherever_the_payload_begins() {
        let (near, far) = UnixStream::pair().expect("a pair");
        let mut message = Message::new(false);
        for code in [opcode::STATFS, opcode::LOOKUP, opcode::SETATTR, opcode::WRITE] {
            let mut request = vec![0; 200];
            request[4..8].copy_from_slice(&code.to_ne_bytes());
            rustix::io::write(&far, &request).expect("written");
            assert_eq!(message.receive(&near).expect("received"), Received::Request);
            let (_, payload) = message.parts();
            payload[..5].copy_from_slice(b"reply");
            message.reply(&near, 9, Ok(5));
            let mut reply = [0; 64];
            assert_eq!(rustix::io::read(&far, &mut reply).expect("a reply"), 21);
            assert_eq!((u32_at(&reply, 0), u32_at(&reply, 4), u32_at(&reply, 8)), (21, 0, 9));
            assert_eq!(&reply[16..21], b"reply");
            message.reply(&near, 10, Err(2));
            assert_eq!(rustix::io::read(&far, &mut reply).expect("a reply"), 16);
            assert_eq!((u32_at(&reply, 0), u32_at(&reply, 4) as i32, u32_at(&reply, 8)), (16, -2, 10));
        }
    }
}
