//! Messages between a client and a mount, over a local socket.
//!
//! The socket has an abstract name with the device number of the mount, so no file remains after the mount.
//! Both ends check the user of the other one: a mount accepts commands of its own user only, and a client
//! passes its files to no other user.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::ffi::OsString;
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;

/// First bytes of each request, with the version of the message format.
const MAGIC: &[u8; 8] = b"LANEFS-1";
/// Bytes of the header: magic, kind, umask and length of the arguments.
const HEADER_BYTES: usize = 8 + 1 + 4 + 4;
/// Largest accepted length of the arguments: more than the longest command line of Linux.
const MAX_ARGUMENTS_BYTES: usize = 8 << 20;
/// Number of descriptors in a request: standard input, output and error, and the working directory.
pub(crate) const DESCRIPTORS: usize = 4;

/// Byte with which a client cancels its command.
pub(crate) const CANCEL: u8 = b's';

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// Execution of a command line. The reply is its exit code.
    Execute = 1,
    /// Counters. The reply is text.
    Statistics = 2,
}

/// A request as the mount receives it.
#[derive(Debug)]
pub(crate) struct WireRequest {
    pub(crate) kind: RequestKind,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) umask: u32,
    /// [`DESCRIPTORS`] of them, or none.
    pub(crate) files: Vec<OwnedFd>,
}

/// Returns the address of the mount with this device number.
pub(crate) fn address(device: u64) -> rustix::io::Result<SocketAddrUnix> {
    SocketAddrUnix::new_abstract_name(format!("lanefs-mount-{device:x}").as_bytes())
}

/// Creates a socket.
pub(crate) fn socket() -> rustix::io::Result<OwnedFd> {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
}

/// True where the other end belongs to the user of this process.
pub(crate) fn is_own_user(socket: impl AsFd) -> bool {
    let own = rustix::process::geteuid();
    rustix::net::sockopt::socket_peercred(socket).is_ok_and(|peer| peer.uid == own)
}

/// Sends a request.
pub(crate) fn send_request(
    mut stream: &UnixStream,
    kind: RequestKind,
    arguments: &[OsString],
    umask: u32,
    files: &[BorrowedFd<'_>],
) -> std::io::Result<()> {
    let mut text = Vec::new();
    for argument in arguments {
        text.extend_from_slice(argument.as_bytes());
        text.push(0);
    }
    let mut header = MAGIC.to_vec();
    header.push(kind as u8);
    header.extend_from_slice(&umask.to_le_bytes());
    header.extend_from_slice(&(text.len() as u32).to_le_bytes());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(files));
    }
    let sent = rustix::net::sendmsg(stream, &[IoSlice::new(&header)], &mut control, SendFlags::NOSIGNAL)?;
    stream.write_all(header.get(sent..).unwrap_or_default())?;
    stream.write_all(&text)
}

/// Receives a request; `None` where the client sends none, or anything else.
pub(crate) fn receive_request(mut stream: &UnixStream) -> std::io::Result<Option<WireRequest>> {
    let mut header = [0; HEADER_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = loop {
        match rustix::net::recvmsg(stream, &mut [IoSliceMut::new(&mut header)], &mut control, flags) {
            Err(Errno::INTR) => {}
            result => break result?.bytes,
        }
    };
    let files: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        })
        .flatten()
        .collect();
    if received == 0 {
        return Ok(None);
    }
    if let Some(rest) = header.get_mut(received..) {
        stream.read_exact(rest)?;
    }
    let number = |offset: usize| {
        let bytes = header.get(offset..offset + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u32::from_le_bytes)
    };
    let kind = match header.get(8) {
        Some(1) => RequestKind::Execute,
        Some(2) => RequestKind::Statistics,
        _ => return Ok(None),
    };
    let len = number(13) as usize;
    if header.get(..8) != Some(MAGIC)
        || len > MAX_ARGUMENTS_BYTES
        || !(files.is_empty() || files.len() == DESCRIPTORS)
    {
        return Ok(None);
    }
    let mut text = vec![0; len];
    stream.read_exact(&mut text)?;
    let terminated = text.strip_suffix(b"\0").unwrap_or_default();
    let arguments = match text.is_empty() {
        true => Vec::new(),
        false => terminated.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect(),
    };
    Ok(Some(WireRequest { kind, arguments, umask: number(9), files }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_request_arrives_with_its_words_and_files() {
        let (here, there) = UnixStream::pair().expect("sockets");
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("f");
        std::fs::write(&path, "text").expect("written");
        let file = File::open(&path).expect("a file");
        let arguments = ["find", "", "a b", "x\n"].map(OsString::from);
        send_request(&here, RequestKind::Execute, &arguments, 0o27, &[file.as_fd(); DESCRIPTORS])
            .expect("sent");
        let request = receive_request(&there).expect("received").expect("a request");
        assert_eq!(
            (request.kind, request.umask, &request.arguments[..]),
            (RequestKind::Execute, 0o27, &arguments[..])
        );
        let mut text = String::new();
        File::from(request.files.into_iter().next().expect("a file"))
            .read_to_string(&mut text)
            .expect("read");
        assert_eq!(text, "text");
    }

    #[test]
    fn what_is_no_request_is_none() {
        for bytes in [
            &b""[..],
            b"GET / HTTP/1.1\r\n\r\n",
            b"LANEFS-1\x09\0\0\0\0\0\0\0\0",
            b"LANEFS-1\x01\0\0\0\0\xff\xff\xff\xff",
        ] {
            let (mut here, there) = UnixStream::pair().expect("sockets");
            here.write_all(bytes).expect("sent");
            drop(here);
            assert!(matches!(receive_request(&there), Ok(None)), "{bytes:?}");
        }
        let (mut here, there) = UnixStream::pair().expect("sockets");
        here.write_all(b"LANEFS-1\x01").expect("sent");
        drop(here);
        assert!(receive_request(&there).is_err(), "half a request");
        let (here, there) = UnixStream::pair().expect("sockets");
        send_request(&here, RequestKind::Statistics, &[], 0, &[]).expect("sent");
        let empty = receive_request(&there).expect("received").expect("a request");
        assert_eq!((empty.kind, empty.arguments.len(), empty.files.len()), (RequestKind::Statistics, 0, 0));
    }
}
