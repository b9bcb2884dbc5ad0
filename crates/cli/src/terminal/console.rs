//! Standard streams of a command: those of the process, or those of a client. A command on a mounted volume
//! runs in the process that serves the mount, with the streams of the client that sent it.
//!
//! The client is a property of the thread; [`carried`] passes it on to another thread.

mod client_terminal;

use client_terminal::{ClientTerminal, write_errors};
use indicatif::ProgressDrawTarget;
use lanefs::escape::harmless;
use lanefs_fuse::{ClientStreams, Stream, Terminals, std_output};
use lanefs_transfer::by_descriptor::open_input;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Read, Write};
use std::path::Path;
use std::sync::Arc;

std::thread_local! {
    static CLIENT: RefCell<Option<Arc<dyn ClientStreams>>> = const { RefCell::new(None) };
}

/// The streams of this thread's client; `None` for a command of this process.
pub fn client() -> Option<Arc<dyn ClientStreams>> {
    CLIENT.with_borrow(Clone::clone)
}

/// Calls `work` with the streams of a client.
pub fn as_client<T>(streams: Arc<dyn ClientStreams>, work: impl FnOnce() -> T) -> T {
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

/// Longest wait for input before the thread checks again whether to stop. A signal alone does not end the
/// wait: the system restarts the call, or delivers the signal to another thread.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Reads standard input, without a buffer. Waits until `is_over` returns true.
///
/// # Errors
/// Those of the stream; `ConnectionAborted` once `is_over` returns true.
pub fn read_input(buffer: &mut [u8], is_over: &dyn Fn() -> bool) -> io::Result<usize> {
    if let Some(client) = client() {
        return client.read(Stream::Input, buffer, is_over);
    }
    read_when_ready(rustix::stdio::stdin(), buffer, is_over)
}

fn read_when_ready(file: BorrowedFd<'_>, buffer: &mut [u8], is_over: &dyn Fn() -> bool) -> io::Result<usize> {
    loop {
        if is_over() {
            // Not `ErrorKind::Interrupted`: callers in std retry on that.
            return Err(io::Error::new(ErrorKind::ConnectionAborted, "interrupted"));
        }
        match poll(&mut [PollFd::from_borrowed_fd(file, PollFlags::IN)], Some(&POLL_INTERVAL)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(rustix::io::read(file, &mut *buffer)?),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Opens the file of the host that the command's arguments name. A client has opened its own. A pipe is
/// waited for until `is_over` returns true.
///
/// # Errors
/// The host's; `IsADirectory`; `ConnectionAborted` once `is_over` returns true.
pub fn open_file(path: &Path, is_over: fn() -> bool) -> io::Result<Box<dyn Read + Send>> {
    if let Some(client) = client() {
        return Ok(Box::new(ClientFile(client, Stream::File)));
    }
    let file = match open_input(path, &is_over) {
        Err(Errno::INTR) => return Err(io::Error::new(ErrorKind::ConnectionAborted, "interrupted")),
        file => File::from(file?),
    };
    if file.metadata()?.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    Ok(Box::new(StreamFile { file, is_over }))
}

/// A file of the host, or a pipe.
struct StreamFile {
    file: File,
    is_over: fn() -> bool,
}

impl Read for StreamFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        read_when_ready(self.file.as_fd(), buffer, &self.is_over)
    }
}

/// Reads the client's list of users or groups; `None` for a command of this process.
pub fn client_names(stream: Stream) -> Option<Vec<u8>> {
    /// Longest list that is read, in bytes.
    const MAX_BYTES: u64 = 16 << 20;
    let mut text = Vec::new();
    // A list that cannot be read is as good as an empty one: numbers take the place of names.
    let _ = ClientFile(client()?, stream).take(MAX_BYTES).read_to_end(&mut text);
    Some(text)
}

/// A file of a client.
struct ClientFile(Arc<dyn ClientStreams>, Stream);

impl Read for ClientFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(self.1, buffer, &|| false)
    }
}

/// Standard output.
pub fn output() -> Box<dyn Write + Send> {
    match client() {
        Some(client) => Box::new(ClientOutput(client)),
        None if std_output::is_closed() => Box::new(ClosedOutput),
        None => Box::new(io::stdout()),
    }
}

/// Standard output that was closed when the program began. The standard library would drop what is written.
pub struct ClosedOutput;

impl Write for ClosedOutput {
    fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        Err(Errno::BADF.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A client's standard output.
struct ClientOutput(Arc<dyn ClientStreams>);

impl Write for ClientOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(Stream::Output, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a message to standard error, after the program's name. A closed standard error is no reason to
/// stop. Every message of the program goes this way, so none can act on a terminal, whatever it quotes.
pub fn say(text: &str) {
    let line = format!("lanefs: {}\n", harmless(text));
    let _ = match client() {
        Some(client) => write_errors(&*client, line.as_bytes()),
        None => io::stderr().write_all(line.as_bytes()),
    };
}

/// The terminals among the standard streams.
pub fn terminals() -> Terminals {
    client().map_or_else(own_terminals, |client| client.terminals())
}

fn own_terminals() -> Terminals {
    let size = || rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col);
    let set = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    Terminals {
        output: io::stdout().is_terminal(),
        errors: io::stderr().is_terminal(),
        colors: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        columns: set.or_else(size).filter(|columns| *columns > 0),
    }
}

/// True if standard output is a terminal.
pub fn output_is_terminal() -> bool {
    terminals().output
}

/// True if standard error is a terminal.
pub fn errors_are_terminal() -> bool {
    terminals().errors
}

/// True if colours are welcome on a terminal: `NO_COLOR` is not set (<https://no-color.org>).
pub fn colors_are_welcome() -> bool {
    terminals().colors
}

/// Width of the terminal in columns, if it is known.
pub fn columns() -> Option<usize> {
    terminals().columns.map(usize::from)
}

/// Redraws of a client's progress bar per second.
const REDRAWS_PER_SECOND: u8 = 10;

/// Target of progress bars: standard error.
pub fn progress_target() -> ProgressDrawTarget {
    match client() {
        Some(client) => {
            ProgressDrawTarget::term_like_with_hz(Box::new(ClientTerminal(client)), REDRAWS_PER_SECOND)
        }
        None => ProgressDrawTarget::stderr(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A client in memory.
    #[derive(Default)]
    pub(crate) struct TestClient {
        pub(crate) input: Mutex<Vec<u8>>,
        pub(crate) output: Mutex<Vec<u8>>,
        pub(crate) errors: Mutex<Vec<u8>>,
        pub(crate) cancelled: AtomicBool,
    }

    impl ClientStreams for TestClient {
        fn read(&self, stream: Stream, buffer: &mut [u8], _: &dyn Fn() -> bool) -> io::Result<usize> {
            assert_eq!(stream, Stream::Input);
            let mut input = self.input.lock();
            let len = input.len().min(buffer.len());
            buffer[..len].copy_from_slice(&input.drain(..len).collect::<Vec<_>>());
            Ok(len)
        }

        fn write(&self, stream: Stream, bytes: &[u8]) -> io::Result<usize> {
            let to = if stream == Stream::Output { &self.output } else { &self.errors };
            to.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn is_cancelled(&self) -> bool {
            self.cancelled.load(Ordering::Relaxed)
        }

        fn terminals(&self) -> Terminals {
            Terminals::default()
        }
    }

    #[test]
    fn a_client_reads_and_writes_its_own_streams_in_every_thread_of_its_command() {
        let streams = Arc::new(TestClient::default());
        *streams.input.lock() = b"question".to_vec();
        as_client(streams.clone(), || {
            std::thread::scope(|scope| {
                scope.spawn(carried(|| {
                    let mut buffer = [0; 100];
                    let len = read_input(&mut buffer, &|| false).expect("read");
                    output().write_all(&buffer[..len]).expect("written");
                    say("complaint");
                }));
            });
            assert!(!output_is_terminal() && !errors_are_terminal() && columns().is_none());
        });
        assert!(client().is_none());
        assert_eq!(*streams.output.lock(), b"question");
        assert_eq!(*streams.errors.lock(), b"lanefs: complaint\n");
    }
}
