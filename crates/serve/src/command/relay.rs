//! The server's end of a client's streams: threads of a command ask, and the thread that receives from the
//! client passes the answers on.
//!
//! The server touches no descriptor of a client. So a stream that never takes or gives anything holds up its
//! own command only, and only until the client or the mount ends.

use crate::command::streams::{Ask, ClientStreams, Done, MAX_PIECE_BYTES, Stream, Terminals};
use crate::command::wire::{self, FrameKind, Patience};
use parking_lot::{Condvar, Mutex};
use rustix::fd::OwnedFd;
use std::io::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Interval at which a thread that waits for an answer checks whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Streams of one client.
pub(crate) struct Relay {
    socket: OwnedFd,
    terminals: Terminals,
    /// Locked while a frame is sent; false once a frame could not be completed.
    sending: Mutex<bool>,
    slots: [Slot; Stream::ALL.len()],
    cancelled: Arc<AtomicBool>,
}

/// One stream. A thread at a time uses it.
#[derive(Default)]
struct Slot {
    /// Number of the last question.
    turn: Mutex<u32>,
    answer: Mutex<Option<Done>>,
    arrived: Condvar,
}

/// The error of a command that is to end. Not `ErrorKind::Interrupted`: callers in std retry on that.
fn stopped() -> Error {
    Error::new(ErrorKind::ConnectionAborted, "interrupted")
}

impl Relay {
    pub(crate) fn new(socket: OwnedFd, terminals: Terminals, cancelled: Arc<AtomicBool>) -> Relay {
        Relay { socket, terminals, sending: Mutex::new(true), slots: Default::default(), cancelled }
    }

    /// Sends a frame.
    pub(crate) fn send(&self, kind: FrameKind, parts: &[&[u8]], patience: &Patience<'_>) -> Result<()> {
        let mut is_whole = self.sending.lock();
        if !*is_whole {
            return Err(stopped());
        }
        let sent = wire::send(&self.socket, kind, parts, patience);
        *is_whole = sent.is_ok();
        sent
    }

    /// Passes an answer of the client to the thread that waits for it. One that nobody waits for is dropped.
    pub(crate) fn deliver(&self, done: Done) {
        let Some(slot) = self.slots.get(usize::from(done.stream.number())) else { return };
        *slot.answer.lock() = Some(done);
        slot.arrived.notify_one();
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Relaxed)
    }

    /// Asks the client and waits for its answer.
    fn ask(&self, stream: Stream, content: &[u8], is_over: &dyn Fn() -> bool) -> Result<Vec<u8>> {
        let Some(slot) = self.slots.get(usize::from(stream.number())) else { return Err(stopped()) };
        let is_over = || self.is_cancelled() || is_over();
        let mut turn = slot.turn.lock();
        *turn = turn.wrapping_add(1);
        let patience = Patience { is_over: &is_over, deadline: None };
        self.send(FrameKind::Ask, &[&Ask::header(stream, *turn), content], &patience)?;
        let mut answer = slot.answer.lock();
        loop {
            match answer.take() {
                Some(done) if done.number == *turn => {
                    let errno = done.errno as i32;
                    return if errno == 0 { Ok(done.content) } else { Err(Error::from_raw_os_error(errno)) };
                }
                // An answer to a question whose thread has stopped waiting.
                _ => {}
            }
            if is_over() {
                return Err(stopped());
            }
            slot.arrived.wait_for(&mut answer, POLL_INTERVAL);
        }
    }

    /// Sends the last messages of a cancelled command, if the client takes them at once.
    fn write_now(&self, bytes: &[u8]) -> Result<usize> {
        let (has_been_polled, header) = (AtomicBool::new(false), Ask::header(Stream::Errors, 0));
        let at_once = Patience { is_over: &|| has_been_polled.swap(true, Relaxed), deadline: None };
        self.send(FrameKind::Ask, &[&header, bytes], &at_once)?;
        Ok(bytes.len())
    }
}

impl ClientStreams for Relay {
    fn read(&self, stream: Stream, buffer: &mut [u8], is_over: &dyn Fn() -> bool) -> Result<usize> {
        let max = buffer.len().min(MAX_PIECE_BYTES);
        let content = self.ask(stream, &(max as u32).to_le_bytes(), is_over)?;
        let part = buffer.get_mut(..content.len()).filter(|_| content.len() <= max);
        part.ok_or_else(wire::invalid)?.copy_from_slice(&content);
        Ok(content.len())
    }

    fn write(&self, stream: Stream, bytes: &[u8]) -> Result<usize> {
        let piece = bytes.get(..MAX_PIECE_BYTES).unwrap_or(bytes);
        if stream == Stream::Errors && self.is_cancelled() {
            return self.write_now(piece);
        }
        match self.ask(stream, piece, &|| false) {
            Err(error) if stream == Stream::Errors && self.is_cancelled() => {
                // The message may have been on its way already; a second copy does less harm than none.
                self.write_now(piece).map_err(|_| error)
            }
            done => done.map(|_| piece.len()),
        }
    }

    fn is_cancelled(&self) -> bool {
        self.is_cancelled()
    }

    fn terminals(&self) -> Terminals {
        self.terminals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn relay() -> (Relay, OwnedFd) {
        let (here, there) = UnixStream::pair().expect("sockets");
        let relay = Relay::new(here.into(), Terminals::default(), Arc::default());
        (relay, there.into())
    }

    #[test]
    fn a_stream_that_waits_does_not_keep_others_waiting() {
        let (relay, client) = relay();
        let receive =
            || wire::receive(&client, &Patience::short()).expect("received").expect("a frame").content;
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut buffer = [0; 8];
                relay.read(Stream::Input, &mut buffer, &|| false).map(|len| buffer[..len].to_vec())
            });
            let input = Ask::decode(&receive()).expect("a question").number;
            let writer = scope.spawn(|| relay.write(Stream::Output, b"text"));
            let asked = receive();
            let output = Ask::decode(&asked).expect("a question");
            assert_eq!((output.stream, output.content), (Stream::Output, &b"text"[..]));
            // An answer with another number, and one to no question, change nothing.
            for number in [output.number.wrapping_add(1), 77] {
                relay.deliver(Done { stream: Stream::Output, number, errno: 5, content: Vec::new() });
            }
            relay.deliver(Done { stream: Stream::Groups, number: 1, errno: 0, content: Vec::new() });
            relay.deliver(Done {
                stream: Stream::Output,
                number: output.number,
                errno: 0,
                content: Vec::new(),
            });
            assert_eq!(writer.join().expect("no panic").expect("written"), 4);
            relay.deliver(Done { stream: Stream::Input, number: input, errno: 0, content: b"in".to_vec() });
            assert_eq!(reader.join().expect("no panic").expect("read"), b"in");
        });
    }

    #[test]
    fn an_answer_that_is_too_long_and_an_error_are_errors() {
        for (errno, content, kind) in
            [(0, vec![0; 9], ErrorKind::InvalidData), (32, Vec::new(), ErrorKind::BrokenPipe)]
        {
            let (relay, client) = relay();
            std::thread::scope(|scope| {
                let reader = scope.spawn(|| relay.read(Stream::Input, &mut [0; 8], &|| false));
                let frame = wire::receive(&client, &Patience::short()).expect("received").expect("a frame");
                let number = Ask::decode(&frame.content).expect("a question").number;
                relay.deliver(Done { stream: Stream::Input, number, errno, content: content.clone() });
                assert_eq!(reader.join().expect("no panic").expect_err("refused").kind(), kind);
            });
        }
    }

    #[test]
    fn cancelling_ends_every_wait() {
        let (relay, _client) = relay();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| relay.read(Stream::Input, &mut [0; 8], &|| false));
            let writer = scope.spawn(|| relay.write(Stream::Output, &vec![0; MAX_PIECE_BYTES]));
            relay.cancelled.store(true, Relaxed);
            assert!(reader.join().expect("no panic").is_err());
            assert!(writer.join().expect("no panic").is_err());
        });
        assert!(relay.read(Stream::Input, &mut [0; 8], &|| false).is_err());
    }
}
