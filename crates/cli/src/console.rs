//! Standard streams of a command: those of the process, or those of a client. A command on a mounted volume
//! runs in the process that serves the mount, with the streams of the client that sent it.
//!
//! The client is a property of the thread; [`carried`] passes it on to another thread.

use indicatif::ProgressDrawTarget;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Redraws of a client's progress bar per second.
const REDRAWS_PER_SECOND: u8 = 10;

/// The streams of a client.
#[derive(Debug)]
pub struct Streams {
    /// Standard input.
    pub input: File,
    /// Standard output.
    pub output: File,
    /// Standard error.
    pub errors: File,
    /// Set once the client has ended or asked to stop.
    pub cancelled: Arc<AtomicBool>,
}

std::thread_local! {
    static CLIENT: RefCell<Option<Arc<Streams>>> = const { RefCell::new(None) };
}

fn client() -> Option<Arc<Streams>> {
    CLIENT.with_borrow(Clone::clone)
}

/// Calls `work` with the streams of a client.
pub fn as_client<T>(streams: Arc<Streams>, work: impl FnOnce() -> T) -> T {
    let before = CLIENT.replace(Some(streams));
    let result = work();
    CLIENT.set(before);
    result
}

/// Wraps `work` so that another thread calls it with the streams of this one.
pub fn carried<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let streams = client();
    move || match streams {
        Some(streams) => as_client(streams, work),
        None => work(),
    }
}

/// True once the client of this thread has ended or asked to stop; `None` without a client.
pub fn client_is_cancelled() -> Option<bool> {
    CLIENT.with_borrow(|client| client.as_ref().map(|client| client.cancelled.load(Ordering::Relaxed)))
}

/// The flag of [`client_is_cancelled`], for use in any thread.
pub fn client_cancelled_flag() -> Option<Arc<AtomicBool>> {
    client().map(|client| Arc::clone(&client.cancelled))
}

/// Standard input for any thread. [`Input`](crate::input::Input) is one that Ctrl-C ends.
pub fn input() -> Box<dyn Read + Send> {
    match client() {
        Some(client) => Box::new(ClientInput(client)),
        None => Box::new(io::stdin()),
    }
}

/// Longest wait for a stream before the thread checks again whether the client is cancelled.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Bytes that a pipe takes without blocking once poll(2) calls it writable (`PIPE_BUF`).
const PIPE_ROOM: usize = 4096;

impl Streams {
    /// Waits until a stream is ready. A reader of the client's output must not block the mount's process for
    /// ever.
    fn await_ready(&self, stream: &File, what: PollFlags) -> io::Result<()> {
        loop {
            if self.cancelled.load(Ordering::Relaxed) {
                // Not `ErrorKind::Interrupted`: callers in std retry on that.
                return Err(io::Error::new(ErrorKind::ConnectionAborted, "interrupted"));
            }
            match poll(&mut [PollFd::new(stream, what)], Some(&POLL_INTERVAL)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Writes a part of `bytes`; returns its length.
    fn write(&self, mut stream: &File, bytes: &[u8]) -> io::Result<usize> {
        if stream.metadata().is_ok_and(|meta| meta.is_file()) {
            return stream.write(bytes);
        }
        self.await_ready(stream, PollFlags::OUT)?;
        stream.write(bytes.get(..PIPE_ROOM).unwrap_or(bytes))
    }
}

/// A client's standard input.
struct ClientInput(Arc<Streams>);

impl Read for ClientInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.await_ready(&self.0.input, PollFlags::IN)?;
        (&self.0.input).read(buffer)
    }
}

/// Calls `work` with the descriptor of standard input.
pub fn with_input<T>(work: impl FnOnce(BorrowedFd<'_>) -> T) -> T {
    match client() {
        Some(client) => work(client.input.as_fd()),
        None => work(rustix::stdio::stdin()),
    }
}

/// Standard output.
pub fn output() -> Box<dyn Write + Send> {
    match client() {
        Some(client) => Box::new(ClientOutput(client)),
        None => Box::new(io::stdout()),
    }
}

/// A client's standard output.
struct ClientOutput(Arc<Streams>);

impl Write for ClientOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(&self.0.output, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A client's standard error.
struct ClientErrors<'c>(&'c Streams);

impl Write for ClientErrors<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(&self.0.errors, bytes) {
            // A user who stopped a command wants its last message, if the pipe has room.
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => self.write_now(bytes),
            other => other,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ClientErrors<'_> {
    fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut stream = &self.0.errors;
        match poll(&mut [PollFd::new(stream, PollFlags::OUT)], Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(1..) => stream.write(bytes.get(..PIPE_ROOM).unwrap_or(bytes)),
            _ => Err(ErrorKind::WouldBlock.into()),
        }
    }
}

/// Writes a message to standard error, after the program's name. A closed standard error is no reason to
/// stop.
pub fn say(text: &str) {
    let line = format!("lanefs: {text}\n");
    let _ = match client() {
        Some(client) => ClientErrors(&client).write_all(line.as_bytes()),
        None => io::stderr().write_all(line.as_bytes()),
    };
}

/// True if standard output is a terminal.
pub fn output_is_terminal() -> bool {
    client().map_or_else(|| io::stdout().is_terminal(), |client| client.output.is_terminal())
}

/// True if standard error is a terminal.
pub fn errors_are_terminal() -> bool {
    client().map_or_else(|| io::stderr().is_terminal(), |client| client.errors.is_terminal())
}

/// Width in columns of the terminal on standard output.
pub fn columns() -> Option<usize> {
    let size = match client() {
        Some(client) => rustix::termios::tcgetwinsize(&client.output),
        None => rustix::termios::tcgetwinsize(io::stdout()),
    };
    size.ok().map(|size| usize::from(size.ws_col))
}

/// Target of progress bars: standard error.
pub fn progress_target() -> ProgressDrawTarget {
    let Some(client) = client() else { return ProgressDrawTarget::stderr() };
    match (client.errors.try_clone(), client.errors.try_clone()) {
        (Ok(read), Ok(write)) => {
            ProgressDrawTarget::term(console::Term::read_write_pair(read, write), REDRAWS_PER_SECOND)
        }
        _ => ProgressDrawTarget::hidden(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_reads_and_writes_its_own_streams_in_every_thread_of_its_command() {
        let dir = tempfile::tempdir().expect("a directory");
        let open = |name: &str| {
            let path = dir.path().join(name);
            File::options().read(true).write(true).create(true).truncate(false).open(path).expect("a file")
        };
        std::fs::write(dir.path().join("in"), "question").expect("written");
        let cancelled = Arc::new(AtomicBool::new(false));
        let streams = Streams {
            input: open("in"),
            output: open("out"),
            errors: open("err"),
            cancelled: Arc::clone(&cancelled),
        };
        as_client(Arc::new(streams), || {
            std::thread::scope(|scope| {
                scope.spawn(carried(|| {
                    let mut text = String::new();
                    input().read_to_string(&mut text).expect("read");
                    output().write_all(text.as_bytes()).expect("written");
                    say("complaint");
                    assert_eq!(client_is_cancelled(), Some(false));
                }));
            });
            assert!(!output_is_terminal() && !errors_are_terminal() && columns().is_none());
            cancelled.store(true, Ordering::Relaxed);
            assert!(client_is_cancelled() == Some(true));
        });
        assert_eq!(client_is_cancelled(), None);
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).expect("read");
        assert_eq!((read("out"), read("err")), ("question".to_string(), "lanefs: complaint\n".to_string()));
    }
}
