//! Where a command reads and writes: the process's own standard streams, or those of a client for whom it runs (a command on a
//! volume that is mounted runs in the process that serves the mount).
//!
//! Whose streams they are is known to the thread; [`carried`] takes it along to another.

use indicatif::ProgressDrawTarget;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Redraws of a client's progress bar in a second.
const REDRAWS: u8 = 10;

/// The streams of a client.
#[derive(Debug)]
pub struct Streams {
    /// Standard input.
    pub input: File,
    /// Standard output.
    pub output: File,
    /// Standard error.
    pub errors: File,
    /// Set once the client wants no more.
    pub gone: Arc<AtomicBool>,
}

std::thread_local! {
    static CLIENT: RefCell<Option<Arc<Streams>>> = const { RefCell::new(None) };
}

fn client() -> Option<Arc<Streams>> {
    CLIENT.with_borrow(Clone::clone)
}

/// Does something for a client.
pub fn for_client<T>(streams: Arc<Streams>, work: impl FnOnce() -> T) -> T {
    let before = CLIENT.replace(Some(streams));
    let done = work();
    CLIENT.set(before);
    done
}

/// `work`, to be done in another thread with the streams of this one.
pub fn carried<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let streams = client();
    move || match streams {
        Some(streams) => for_client(streams, work),
        None => work(),
    }
}

/// Whether the client of this thread wants no more; `None` without a client.
pub fn client_is_gone() -> Option<bool> {
    CLIENT.with_borrow(|client| client.as_ref().map(|client| client.gone.load(Ordering::Relaxed)))
}

/// Tells in any thread whether the user of this one asked to stop.
pub fn stop() -> impl Fn() -> bool + Sync {
    let client = client();
    move || match &client {
        Some(client) => client.gone.load(Ordering::Relaxed),
        None => crate::interrupt::raised(),
    }
}

/// Standard input, to be read in any thread; see [`Input`](crate::input::Input) for one that Ctrl-C ends.
pub fn input() -> Box<dyn Read + Send> {
    match client() {
        Some(client) => Box::new(In(client)),
        None => Box::new(io::stdin()),
    }
}

/// How often whoever waits for a stream looks whether its client has gone.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Bytes for which a pipe that can be written to has room.
const PIPE_ROOM: usize = 4096;

impl Streams {
    /// Waits until a stream is ready. The process of a mount must not wait for ever for whoever reads a client's output.
    fn await_ready(&self, stream: &File, what: PollFlags) -> io::Result<()> {
        loop {
            if self.gone.load(Ordering::Relaxed) {
                // Not `ErrorKind::Interrupted`, at which the callers in std try again.
                return Err(io::Error::new(ErrorKind::ConnectionAborted, "interrupted"));
            }
            match poll(&mut [PollFd::new(stream, what)], Some(&LOOK)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Writes some of it.
    fn write(&self, mut stream: &File, bytes: &[u8]) -> io::Result<usize> {
        if stream.metadata().is_ok_and(|meta| meta.is_file()) {
            return stream.write(bytes);
        }
        self.await_ready(stream, PollFlags::OUT)?;
        stream.write(bytes.get(..PIPE_ROOM).unwrap_or(bytes))
    }
}

/// A client's input, which lives as long as it is read.
struct In(Arc<Streams>);

impl Read for In {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.await_ready(&self.0.input, PollFlags::IN)?;
        (&self.0.input).read(buffer)
    }
}

/// Does something with the descriptor of standard input.
pub fn with_input<T>(work: impl FnOnce(BorrowedFd<'_>) -> T) -> T {
    match client() {
        Some(client) => work(client.input.as_fd()),
        None => work(rustix::stdio::stdin()),
    }
}

/// Standard output.
pub fn output() -> Box<dyn Write + Send> {
    match client() {
        Some(client) => Box::new(Out(client)),
        None => Box::new(io::stdout()),
    }
}

/// A client's output, which lives as long as it is written to.
struct Out(Arc<Streams>);

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(&self.0.output, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A client's standard error.
struct Errors<'c>(&'c Streams);

impl Write for Errors<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(&self.0.errors, bytes) {
            // Whoever stopped a command wants to know what was done, if there is room to tell.
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => self.write_now(bytes),
            other => other,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Errors<'_> {
    fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut stream = &self.0.errors;
        match poll(&mut [PollFd::new(stream, PollFlags::OUT)], Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(1..) => stream.write(bytes.get(..PIPE_ROOM).unwrap_or(bytes)),
            _ => Err(ErrorKind::WouldBlock.into()),
        }
    }
}

/// Writes to standard error. A closed one is no reason to stop.
pub fn complain(bytes: &[u8]) {
    let _ = match client() {
        Some(client) => Errors(&client).write_all(bytes),
        None => io::stderr().write_all(bytes),
    };
}

/// True where standard output is a terminal.
pub fn output_is_terminal() -> bool {
    client().map_or_else(|| io::stdout().is_terminal(), |client| client.output.is_terminal())
}

/// True where standard error is a terminal.
pub fn errors_are_seen() -> bool {
    client().map_or_else(|| io::stderr().is_terminal(), |client| client.errors.is_terminal())
}

/// Columns of the terminal that standard output is.
pub fn columns() -> Option<usize> {
    let size = match client() {
        Some(client) => rustix::termios::tcgetwinsize(&client.output),
        None => rustix::termios::tcgetwinsize(io::stdout()),
    };
    size.ok().map(|size| usize::from(size.ws_col))
}

/// Where progress is drawn.
pub fn progress_target() -> ProgressDrawTarget {
    let Some(client) = client() else { return ProgressDrawTarget::stderr() };
    match (client.errors.try_clone(), client.errors.try_clone()) {
        (Ok(read), Ok(write)) => {
            ProgressDrawTarget::term(console::Term::read_write_pair(read, write), REDRAWS)
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
        let gone = Arc::new(AtomicBool::new(false));
        let streams =
            Streams { input: open("in"), output: open("out"), errors: open("err"), gone: Arc::clone(&gone) };
        let streams = Arc::new(streams);
        for_client(streams, || {
            let stop = stop();
            std::thread::scope(|scope| {
                scope.spawn(carried(|| {
                    let mut text = String::new();
                    input_to(&mut text);
                    output().write_all(text.as_bytes()).expect("written");
                    complain(b"complaint");
                    assert_eq!(client_is_gone(), Some(false));
                }));
            });
            assert!(!stop() && !output_is_terminal() && !errors_are_seen() && columns().is_none());
            gone.store(true, Ordering::Relaxed);
            assert!(stop() && client_is_gone() == Some(true) && crate::interrupt::raised());
        });
        assert_eq!(client_is_gone(), None);
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).expect("read");
        assert_eq!((read("out"), read("err")), ("question".to_string(), "complaint".to_string()));
    }

    fn input_to(text: &mut String) {
        input().read_to_string(text).expect("read");
    }
}
