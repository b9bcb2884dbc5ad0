//! Where a command reads and writes: the process's own standard streams, or those of a client for whom it runs (a command on a
//! volume that is mounted runs in the process that serves the mount).
//!
//! Whose streams they are is known to the thread; [`carried`] takes it along to another.

use indicatif::ProgressDrawTarget;
use rustix::fd::{AsFd, BorrowedFd};
use std::cell::RefCell;
use std::fs::File;
use std::io::{IsTerminal, Read, Write};
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

/// Standard input; see [`Input`](crate::input::Input) for one that Ctrl-C ends.
pub fn input() -> Box<dyn Read + Send> {
    match client().map(|client| client.input.try_clone()) {
        Some(Ok(input)) => Box::new(input),
        // Without a descriptor to spare nothing comes.
        Some(Err(_)) => Box::new(std::io::empty()),
        None => Box::new(std::io::stdin()),
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
        None => Box::new(std::io::stdout()),
    }
}

/// A client's output, which lives as long as it is written to.
struct Out(Arc<Streams>);

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        (&self.0.output).write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes to standard error. A closed one is no reason to stop.
pub fn complain(bytes: &[u8]) {
    let _ = match client() {
        Some(client) => (&client.errors).write_all(bytes),
        None => std::io::stderr().write_all(bytes),
    };
}

/// True where standard output is a terminal.
pub fn output_is_terminal() -> bool {
    client().map_or_else(|| std::io::stdout().is_terminal(), |client| client.output.is_terminal())
}

/// True where standard error is a terminal.
pub fn errors_are_seen() -> bool {
    client().map_or_else(|| std::io::stderr().is_terminal(), |client| client.errors.is_terminal())
}

/// Columns of the terminal that standard output is.
pub fn columns() -> Option<usize> {
    let size = match client() {
        Some(client) => rustix::termios::tcgetwinsize(&client.output),
        None => rustix::termios::tcgetwinsize(std::io::stdout()),
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
