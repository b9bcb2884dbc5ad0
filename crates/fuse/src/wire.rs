//! What a client and a mount say to each other, over a local socket.
//!
//! The socket has an abstract name with the device number of the mount, so there is no file to be left behind. Both ends look who
//! the other one is: a mount does only its own user's bidding, and a client hands its files to nobody else.

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

/// Begins each request, with the version of what follows.
const MAGIC: &[u8; 8] = b"LANEFS-1";
/// Magic, kind, umask and the length of the words.
const HEAD: usize = 8 + 1 + 4 + 4;
/// More than the longest command line that Linux allows.
const MOST: usize = 8 << 20;
/// Standard input, output and error, and the working directory.
pub(crate) const FILES: usize = 4;

/// A client has lost interest in the answer.
pub(crate) const STOP: u8 = b's';

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A command line is run. The answer: its exit code.
    Run = 1,
    /// Counters. The answer: text.
    Statistics = 2,
}

/// A request as it comes in.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) kind: Kind,
    pub(crate) words: Vec<OsString>,
    pub(crate) umask: u32,
    /// [`FILES`] of them, or none.
    pub(crate) files: Vec<OwnedFd>,
}

/// The address of the mount with this device number.
pub(crate) fn address(device: u64) -> rustix::io::Result<SocketAddrUnix> {
    SocketAddrUnix::new_abstract_name(format!("lanefs-mount-{device:x}").as_bytes())
}

/// A new socket.
pub(crate) fn socket() -> rustix::io::Result<OwnedFd> {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
}

/// True where the other end is a process of this one's user.
pub(crate) fn is_ours(socket: impl AsFd) -> bool {
    let me = rustix::process::geteuid();
    rustix::net::sockopt::socket_peercred(socket).is_ok_and(|peer| peer.uid == me)
}

/// Sends a request.
pub(crate) fn ask(
    mut stream: &UnixStream,
    kind: Kind,
    words: &[OsString],
    umask: u32,
    files: &[BorrowedFd<'_>],
) -> std::io::Result<()> {
    let mut text = Vec::new();
    for word in words {
        text.extend_from_slice(word.as_bytes());
        text.push(0);
    }
    let mut head = MAGIC.to_vec();
    head.push(kind as u8);
    head.extend_from_slice(&umask.to_le_bytes());
    head.extend_from_slice(&(text.len() as u32).to_le_bytes());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(files));
    }
    let sent = rustix::net::sendmsg(stream, &[IoSlice::new(&head)], &mut control, SendFlags::NOSIGNAL)?;
    stream.write_all(head.get(sent..).unwrap_or_default())?;
    stream.write_all(&text)
}

/// Receives a request; `None` for what is none.
pub(crate) fn asked(mut stream: &UnixStream) -> std::io::Result<Option<Asked>> {
    let mut head = [0; HEAD];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let got = loop {
        match rustix::net::recvmsg(stream, &mut [IoSliceMut::new(&mut head)], &mut control, flags) {
            Err(Errno::INTR) => {}
            got => break got?.bytes,
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
    if got == 0 {
        return Ok(None);
    }
    if let Some(rest) = head.get_mut(got..) {
        stream.read_exact(rest)?;
    }
    let number = |at: usize| {
        let bytes = head.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u32::from_le_bytes)
    };
    let kind = match head.get(8) {
        Some(1) => Kind::Run,
        Some(2) => Kind::Statistics,
        _ => return Ok(None),
    };
    let len = number(13) as usize;
    if head.get(..8) != Some(MAGIC) || len > MOST || !(files.is_empty() || files.len() == FILES) {
        return Ok(None);
    }
    let mut text = vec![0; len];
    stream.read_exact(&mut text)?;
    let words = text.strip_suffix(b"\0").unwrap_or_default();
    let words = match text.is_empty() {
        true => Vec::new(),
        false => words.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect(),
    };
    Ok(Some(Asked { kind, words, umask: number(9), files }))
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
        let words = ["find", "", "a b", "x\n"].map(OsString::from);
        ask(&here, Kind::Run, &words, 0o27, &[file.as_fd(); FILES]).expect("sent");
        let asked = asked(&there).expect("received").expect("a request");
        assert_eq!((asked.kind, asked.umask, &asked.words[..]), (Kind::Run, 0o27, &words[..]));
        let mut text = String::new();
        File::from(asked.files.into_iter().next().expect("a file")).read_to_string(&mut text).expect("read");
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
            assert!(matches!(asked(&there), Ok(None)), "{bytes:?}");
        }
        let (mut here, there) = UnixStream::pair().expect("sockets");
        here.write_all(b"LANEFS-1\x01").expect("sent");
        drop(here);
        assert!(asked(&there).is_err(), "half a request");
        let (here, there) = UnixStream::pair().expect("sockets");
        ask(&here, Kind::Statistics, &[], 0, &[]).expect("sent");
        let empty = asked(&there).expect("received").expect("a request");
        assert_eq!((empty.kind, empty.words.len(), empty.files.len()), (Kind::Statistics, 0, 0));
    }
}
