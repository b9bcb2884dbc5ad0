//! Frames between a client and the server of a mount, over a local socket, and the handshake.
//!
//! A frame is its length (4 bytes, little-endian), its kind (1 byte) and its content. No descriptor passes
//! the socket: the client does everything that concerns the host, with its own rights.
//!
//! The handshake: the server sends [`Hello`], the client a [`Request`]. Each has a secret of 16 bytes, which
//! the other end has read through the mount, where the kernel says who asks (`address`). Before the handshake
//! each end has compared the user of the other one with its own.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use std::io::{Error, ErrorKind, Result};
use std::time::{Duration, Instant};

/// Version of the messages. A client and a server of different versions refuse each other.
pub(crate) const VERSION: u32 = 9;
/// First bytes of both sides of the handshake.
const MAGIC: &[u8; 8] = b"lanefs-c";
/// Bytes of a secret.
pub(crate) const SECRET_BYTES: usize = 16;
/// Largest content of a frame: more than the longest command line of Linux, and than a piece of data.
pub(crate) const MAX_FRAME_BYTES: usize = 8 << 20;
/// Time for a handshake, and for the rest of a frame that has begun.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// Longest wait before a thread checks again whether it is to stop.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Bytes that a frame's memory grows by: a false length allocates no more than arrives.
const GROWTH_BYTES: usize = 256 << 10;

/// A secret that proves that its sender has read it through the mount.
pub(crate) type Secret = [u8; SECRET_BYTES];

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FrameKind {
    /// First frame of the server.
    Hello = 1,
    /// First frame of the client.
    Request = 2,
    /// The server asks the client for work on one of its streams.
    Ask = 3,
    /// The client has done it.
    Done = 4,
    /// The client cancels its command.
    Cancel = 5,
    /// Exit code of a command; the last frame.
    Exit = 6,
    /// A call on the volume.
    Call = 7,
    /// The answer to a call.
    Answer = 8,
    /// Text of counters.
    Text = 9,
}

impl FrameKind {
    fn from_number(number: u8) -> Option<FrameKind> {
        use FrameKind::{Answer, Ask, Call, Cancel, Done, Exit, Hello, Request, Text};
        [Hello, Request, Ask, Done, Cancel, Exit, Call, Answer, Text]
            .into_iter()
            .find(|kind| *kind as u8 == number)
    }
}

/// A frame as it was received.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: FrameKind,
    pub(crate) content: Vec<u8>,
}

/// How long an end waits for the other one.
#[derive(Clone, Copy)]
pub(crate) struct Patience<'a> {
    /// True once the wait is to end.
    pub(crate) is_over: &'a dyn Fn() -> bool,
    /// End of the wait.
    pub(crate) deadline: Option<Instant>,
}

impl Patience<'_> {
    /// Waits for as long as the other end lives.
    pub(crate) const ENDLESS: Patience<'static> = Patience { is_over: &|| false, deadline: None };

    /// Waits for [`TIMEOUT`].
    pub(crate) fn short() -> Patience<'static> {
        Patience { is_over: &|| false, deadline: Some(Instant::now() + TIMEOUT) }
    }

    /// The same with a deadline for the rest of a frame, where there was none.
    fn for_the_rest(self) -> Self {
        Patience { deadline: self.deadline.or_else(|| Some(Instant::now() + TIMEOUT)), ..self }
    }

    /// Ends the wait where it is over.
    fn check(&self) -> Result<()> {
        if (self.is_over)() {
            return Err(Error::new(ErrorKind::ConnectionAborted, "stopped"));
        }
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// Waits for a moment.
    fn pause(&self) -> Result<()> {
        self.check()?;
        let _ = poll(&mut [], Some(&POLL_INTERVAL));
        Ok(())
    }

    /// Waits until a socket is ready.
    fn wait(&self, socket: &OwnedFd, flags: PollFlags) -> Result<()> {
        loop {
            self.check()?;
            match poll(&mut [PollFd::new(socket, flags)], Some(&POLL_INTERVAL)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

/// Creates a socket.
pub(crate) fn socket() -> rustix::io::Result<OwnedFd> {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
}

/// Connects a socket. The queue of a server that takes no connections may be full.
///
/// # Errors
/// The socket's; those of the patience.
pub(crate) fn connect(socket: &OwnedFd, to: &SocketAddrUnix, patience: &Patience<'_>) -> Result<()> {
    rustix::io::ioctl_fionbio(socket, true)?;
    loop {
        match rustix::net::connect(socket, to) {
            Ok(()) => break,
            Err(Errno::INTR) => {}
            // The kernel does not say when the queue has room again.
            Err(Errno::AGAIN) => patience.pause()?,
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(rustix::io::ioctl_fionbio(socket, false)?)
}

/// True where the other end belongs to the user of this process.
pub(crate) fn is_own_user(socket: impl AsFd) -> bool {
    let own = rustix::process::geteuid();
    rustix::net::sockopt::socket_peercred(socket).is_ok_and(|peer| peer.uid == own)
}

/// Sends a frame whose content is these parts.
///
/// # Errors
/// The socket's; [`ErrorKind::InvalidInput`] for a frame that is too large; those of the patience.
pub(crate) fn send(
    socket: &OwnedFd,
    kind: FrameKind,
    parts: &[&[u8]],
    patience: &Patience<'_>,
) -> Result<()> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    if len > MAX_FRAME_BYTES {
        return Err(Error::new(ErrorKind::InvalidInput, "the message is too long"));
    }
    let mut header = (len as u32).to_le_bytes().to_vec();
    header.push(kind as u8);
    // A short frame is one system call.
    let (first, rest) = parts.split_first().map_or((&[][..], &[][..]), |(first, rest)| (*first, rest));
    if first.len() <= 4096 {
        header.extend_from_slice(first);
        send_all(socket, &header, patience)?;
    } else {
        send_all(socket, &header, patience)?;
        send_all(socket, first, patience)?;
    }
    rest.iter().try_for_each(|part| send_all(socket, part, patience))
}

fn send_all(socket: &OwnedFd, mut bytes: &[u8], patience: &Patience<'_>) -> Result<()> {
    while !bytes.is_empty() {
        match rustix::net::send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => patience.wait(socket, PollFlags::OUT)?,
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Receives a part of `buffer`; returns its length, 0 at the end of the connection.
fn receive_some(socket: &OwnedFd, buffer: &mut [u8], patience: &Patience<'_>) -> Result<usize> {
    loop {
        // Without a buffer for control messages the kernel closes descriptors that a client sends.
        match rustix::net::recv(socket, &mut *buffer, RecvFlags::DONTWAIT) {
            Ok((_, received)) => return Ok(received.min(buffer.len())),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => patience.wait(socket, PollFlags::IN)?,
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn receive_all(socket: &OwnedFd, mut buffer: &mut [u8], patience: &Patience<'_>) -> Result<()> {
    while !buffer.is_empty() {
        let received = receive_some(socket, buffer, patience)?;
        if received == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        buffer = buffer.get_mut(received..).unwrap_or_default();
    }
    Ok(())
}

/// Waits until a frame, or the end of the connection, can be received.
///
/// # Errors
/// Those of the patience.
pub(crate) fn wait_for_frame(socket: &OwnedFd, patience: &Patience<'_>) -> Result<()> {
    patience.wait(socket, PollFlags::IN)
}

/// Receives a frame; `None` at the end of the connection. A frame that has begun must be complete within
/// [`TIMEOUT`].
///
/// # Errors
/// The socket's; [`ErrorKind::InvalidData`] for bytes that are not a frame; those of the patience.
pub(crate) fn receive(socket: &OwnedFd, patience: &Patience<'_>) -> Result<Option<Frame>> {
    let mut header = [0; 5];
    let received = receive_some(socket, &mut header, patience)?;
    if received == 0 {
        return Ok(None);
    }
    let patience = &patience.for_the_rest();
    receive_all(socket, header.get_mut(received..).unwrap_or_default(), patience)?;
    let [a, b, c, d, number] = header;
    let len = u32::from_le_bytes([a, b, c, d]) as usize;
    let (Some(kind), true) = (FrameKind::from_number(number), len <= MAX_FRAME_BYTES) else {
        return Err(invalid());
    };
    let mut content = Vec::new();
    while content.len() < len {
        let have = content.len();
        content.resize(len.min(have + GROWTH_BYTES), 0);
        receive_all(socket, content.get_mut(have..).unwrap_or_default(), patience)?;
    }
    Ok(Some(Frame { kind, content }))
}

/// The error for a message that breaks the rules.
pub(crate) fn invalid() -> Error {
    Error::new(ErrorKind::InvalidData, "no message of this version")
}

/// First frame of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) version: u32,
    /// Proves that the sender serves the mount.
    pub(crate) secret: Secret,
    /// True where the server has too many clients and closes the connection.
    pub(crate) is_full: bool,
    /// False where the mount gives counters only.
    pub(crate) takes_commands: bool,
}

impl Hello {
    /// Bits of the last byte.
    const FULL: u8 = 1;
    const NO_COMMANDS: u8 = 2;

    pub(crate) fn encode(&self) -> Vec<u8> {
        let full = if self.is_full { Self::FULL } else { 0 };
        let flags = full | if self.takes_commands { 0 } else { Self::NO_COMMANDS };
        [MAGIC, &self.version.to_le_bytes()[..], &self.secret[..], &[flags]].concat()
    }

    pub(crate) fn decode(content: &[u8]) -> Option<Hello> {
        let rest = content.strip_prefix(MAGIC)?;
        let (version, rest) = rest.split_first_chunk()?;
        let (secret, rest) = rest.split_first_chunk()?;
        let [flags] = rest else { return None };
        Some(Hello {
            version: u32::from_le_bytes(*version),
            secret: *secret,
            is_full: flags & Self::FULL != 0,
            takes_commands: flags & Self::NO_COMMANDS == 0,
        })
    }
}

/// Purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Counters.
    Statistics,
    /// Execution of a command line in the server. The content has the client's terminal and arguments.
    Execute,
    /// Calls on the volume, for a command that the client executes.
    Calls,
    /// Calls on a snapshot of the volume.
    Snapshot,
}

/// First frame of the client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request<'a> {
    pub(crate) version: u32,
    /// Proves that the sender may read the mount as its owner.
    pub(crate) secret: Secret,
    pub(crate) purpose: Purpose,
    pub(crate) content: &'a [u8],
}

impl<'a> Request<'a> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let purpose = match self.purpose {
            Purpose::Statistics => 1,
            Purpose::Execute => 2,
            Purpose::Calls => 3,
            Purpose::Snapshot => 4,
        };
        [MAGIC, &self.version.to_le_bytes()[..], &self.secret[..], &[purpose], self.content].concat()
    }

    pub(crate) fn decode(content: &'a [u8]) -> Option<Request<'a>> {
        let rest = content.strip_prefix(MAGIC)?;
        let (version, rest) = rest.split_first_chunk()?;
        let (secret, rest) = rest.split_first_chunk()?;
        let (purpose, content) = rest.split_first()?;
        let purpose = match purpose {
            1 => Purpose::Statistics,
            2 => Purpose::Execute,
            3 => Purpose::Calls,
            4 => Purpose::Snapshot,
            _ => return None,
        };
        Some(Request { version: u32::from_le_bytes(*version), secret: *secret, purpose, content })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{IoSlice, Write};
    use std::mem::MaybeUninit;
    use std::os::unix::net::UnixStream;

    fn pair() -> (OwnedFd, OwnedFd) {
        let (here, there) = UnixStream::pair().expect("sockets");
        (here.into(), there.into())
    }

    #[test]
    fn frames_arrive_whole_and_in_order() {
        let (here, there) = pair();
        let long = vec![7; 3 << 20];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                send(&here, FrameKind::Call, &[b"ab", b"c", &long], &Patience::ENDLESS).expect("sent");
                send(&here, FrameKind::Cancel, &[], &Patience::ENDLESS).expect("sent");
                let mut here = UnixStream::from(here.try_clone().expect("a copy"));
                here.write_all(&[]).expect("nothing");
            });
            let first = receive(&there, &Patience::ENDLESS).expect("received").expect("a frame");
            assert_eq!((first.kind, first.content.len()), (FrameKind::Call, 3 + long.len()));
            assert!(first.content.starts_with(b"abc\x07"));
            let second = receive(&there, &Patience::ENDLESS).expect("received").expect("a frame");
            assert_eq!(second, Frame { kind: FrameKind::Cancel, content: Vec::new() });
        });
        drop(here);
        assert_eq!(receive(&there, &Patience::ENDLESS).expect("the end"), None);
    }

    #[test]
    fn bytes_that_are_no_frame_are_refused() {
        for bytes in [&b"GET / HTTP/1.1\r\n"[..], b"\xff\xff\xff\xff\x01", b"\0\0\0\0\x63"] {
            let (mut here, there) = UnixStream::pair().expect("sockets");
            here.write_all(bytes).expect("sent");
            drop(here);
            let error = receive(&there.into(), &Patience::ENDLESS).expect_err("no frame");
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{bytes:?}");
        }
        let (mut here, there) = UnixStream::pair().expect("sockets");
        here.write_all(b"\x08\0\0\0\x02abc").expect("sent");
        drop(here);
        let error = receive(&there.into(), &Patience::ENDLESS).expect_err("half a frame");
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        let (here, _there) = pair();
        let long = vec![0; MAX_FRAME_BYTES + 1];
        assert!(send(&here, FrameKind::Call, &[&long], &Patience::ENDLESS).is_err());
    }

    #[test]
    fn patience_ends() {
        let (here, there) = pair();
        let over = Patience { is_over: &|| true, deadline: None };
        assert_eq!(receive(&there, &over).expect_err("over").kind(), ErrorKind::ConnectionAborted);
        let late = Patience { is_over: &|| false, deadline: Some(Instant::now()) };
        assert_eq!(receive(&there, &late).expect_err("late").kind(), ErrorKind::TimedOut);
        // A sender whose peer takes nothing stops as well.
        let flood = vec![0; MAX_FRAME_BYTES];
        assert_eq!(
            send(&here, FrameKind::Call, &[&flood], &late).expect_err("late").kind(),
            ErrorKind::TimedOut
        );
    }

    #[test]
    fn descriptors_that_arrive_are_closed() {
        let (here, there) = pair();
        let open = || std::fs::read_dir("/proc/self/fd").expect("descriptors").count();
        let (passed, kept) = pair();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
        let passed_now = [passed.as_fd()];
        control.push(rustix::net::SendAncillaryMessage::ScmRights(&passed_now));
        let frame = b"\0\0\0\0\x05";
        rustix::net::sendmsg(&here, &[IoSlice::new(frame)], &mut control, SendFlags::NOSIGNAL).expect("sent");
        receive(&there, &Patience::ENDLESS).expect("received").expect("a frame");
        // The copy that was on its way is gone: with this one, the other end sees the end.
        drop(passed);
        assert_eq!(receive(&kept, &Patience::short()).expect("the end"), None);
        assert!(open() > 0);
    }

    #[test]
    fn handshakes_come_back_and_others_are_none() {
        for (is_full, takes_commands) in [(true, true), (false, false), (false, true)] {
            let hello = Hello { version: 9, secret: [3; SECRET_BYTES], is_full, takes_commands };
            assert_eq!(Hello::decode(&hello.encode()), Some(hello));
        }
        let request =
            Request { version: 7, secret: [1; SECRET_BYTES], purpose: Purpose::Calls, content: b"rest" };
        assert_eq!(Request::decode(&request.encode()), Some(request));
        for bad in [&b""[..], b"lanefs-c", &[0; 40]] {
            assert_eq!(Hello::decode(bad), None);
            assert_eq!(Request::decode(bad), None);
        }
    }
}
