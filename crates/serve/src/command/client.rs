//! Commands for a mounted volume: the client's end of the socket that `control` opens.

use crate::command::address::Address;
use crate::command::streams::{Ask, CommandLine, Done, MAX_PIECE_BYTES, Stream, Terminals};
use crate::command::wire::{self, FrameKind, Hello, Patience, Purpose, Request, TIMEOUT, VERSION};
use crate::error::{Error, Result};
use lanefs::escape::escape_path;
use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::cell::Cell;
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Interval at which a client polls whether the user interrupts the command.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Longest wait for the last messages of a command after its end.
const LAST_MESSAGES: Duration = Duration::from_secs(2);

/// A mounted volume of LaneFS, whose server belongs to this process's user.
#[derive(Clone, Debug)]
pub struct MountedVolume {
    /// The mount point.
    pub dir: PathBuf,
    /// The image, as the table of mounts names it.
    pub source: PathBuf,
    address: Address,
}

/// Polled while a client waits: true once the user has asked to stop.
pub type Interrupted = fn() -> bool;

/// A file that a command reads beside its standard input.
pub type CommandFile = Box<dyn Read + Send>;

/// A writer that takes the place of standard output.
pub type CommandOutput = Box<dyn Write + Send>;

/// A command line for the server of a mount, and the streams that are not the process's own.
#[derive(Default)]
pub struct CommandSpec {
    /// Arguments after the program's name.
    pub arguments: Vec<OsString>,
    /// The terminals among the standard streams.
    pub terminals: Terminals,
    /// The file of the host that the arguments name, already open.
    pub file: Option<CommandFile>,
    /// The writer of the command's output; `None` for standard output.
    pub output: Option<CommandOutput>,
}

impl MountedVolume {
    /// The error of a connection that has failed.
    pub(crate) fn failed(&self, error: &io::Error) -> Error {
        match error.kind() {
            ErrorKind::TimedOut | ErrorKind::ConnectionAborted => self.refused("its server does not reply"),
            _ => Error::io(format!("the volume mounted at {}", escape_path(&self.dir)), error),
        }
    }

    fn refused(&self, why: impl Into<String>) -> Error {
        Error::refused(&self.dir, why)
    }

    /// Makes a mounted volume of the text that its root directory gives: `dir` and `source` are those of the
    /// mount.
    ///
    /// # Errors
    /// [`Error::Refused`]: the address is none, or one of another version.
    pub fn new(dir: PathBuf, source: PathBuf, address: &[u8]) -> Result<MountedVolume> {
        match Address::parse(address) {
            Some(Ok(address)) => Ok(MountedVolume { dir, source, address }),
            Some(Err(version)) => Err(Self::other_version(&dir, version)),
            None => Err(Error::refused(dir, "its server gives no address of this program's form")),
        }
    }

    fn other_version(dir: &Path, version: u32) -> Error {
        let why = format!(
            "its server speaks version {version} of the protocol and this program {VERSION}; \
             use the program that mounted it, or unmount and mount again"
        );
        Error::refused(dir, why)
    }

    /// Connects to the server. Sends nothing before it has proved that it is the mount's, and this user's.
    /// The server has some seconds for each step.
    pub(crate) fn connect(
        &self,
        purpose: Purpose,
        content: &[u8],
        interrupted: Interrupted,
    ) -> Result<OwnedFd> {
        let (socket, hello) = self.greet(interrupted)?;
        if hello.is_full {
            return Err(self.refused("its server has too many clients; wait for other commands to end"));
        }
        if !hello.takes_commands && purpose != Purpose::Statistics {
            return Err(self.refused("it takes no commands: it was mounted with `-o nocommands`"));
        }
        let request = Request { version: VERSION, secret: self.address.client, purpose, content };
        let sent = wire::send(&socket, FrameKind::Request, &[&request.encode()], &short(&interrupted));
        sent.map_err(|error| self.failed(&error))?;
        Ok(socket)
    }

    /// True where the server takes other commands than those for its counters.
    ///
    /// # Errors
    /// Another user's mount; the mount does not reply.
    pub fn takes_commands(&self, interrupted: Interrupted) -> Result<bool> {
        Ok(self.greet(interrupted)?.1.takes_commands)
    }

    /// Connects to the server, and returns its hello once it has proved that it is the mount's, and this
    /// user's.
    fn greet(&self, interrupted: Interrupted) -> Result<(OwnedFd, Hello)> {
        let socket = self.open(&short(&interrupted))?;
        let hello = wire::receive(&socket, &short(&interrupted)).map_err(|error| self.failed(&error))?;
        let hello = hello.filter(|frame| frame.kind == FrameKind::Hello);
        let Some(hello) = hello.and_then(|frame| Hello::decode(&frame.content)) else {
            return Err(self.refused("its server cannot be reached: something else replies"));
        };
        if hello.version != VERSION {
            return Err(Self::other_version(&self.dir, hello.version));
        }
        if hello.secret != self.address.server {
            return Err(self.refused("its server cannot be reached: something else replies in its place"));
        }
        Ok((socket, hello))
    }

    fn open(&self, patience: &Patience<'_>) -> Result<OwnedFd> {
        let connect = || {
            let socket = wire::socket()?;
            wire::connect(&socket, &self.address.socket()?, patience)?;
            io::Result::Ok(socket)
        };
        let socket = connect().map_err(|error| match error.kind() {
            ErrorKind::ConnectionRefused => self.refused(
                "its server cannot be reached; run the command in the network namespace of the server",
            ),
            _ => self.failed(&error),
        })?;
        match wire::is_own_user(&socket) {
            true => Ok(socket),
            false => Err(self.refused("another user's process replies in place of its server")),
        }
    }

    /// Executes a command line in the process that serves the mount, with the standard streams of this
    /// process. Polls `interrupted`, and cancels the command when that returns true. Returns the exit code.
    ///
    /// # Errors
    /// Another user's mount; the mount does not reply, or ends.
    pub fn execute(&self, command: CommandSpec, interrupted: Interrupted) -> Result<u8> {
        let CommandSpec { arguments, terminals, file, output } = command;
        let line = CommandLine { arguments, terminals };
        let socket = Arc::new(self.connect(Purpose::Execute, &line.encode(), interrupted)?);
        let end = ClientEnd { socket: Arc::clone(&socket), sending: Arc::default() };
        let workers = end.start(file, output).map_err(|error| self.failed(&error))?;
        self.serve(&end, workers, interrupted).map_err(|error| self.failed(&error))
    }

    /// Does the server's work on the streams until the command ends.
    fn serve(&self, end: &ClientEnd, workers: Workers, interrupted: Interrupted) -> io::Result<u8> {
        let mut cancelled = false;
        let is_lost = patient(interrupted);
        loop {
            // Waits as long as it takes, and returns from time to time to ask for an interruption. After one
            // the server has some seconds to end the command.
            let until = Instant::now() + POLL_INTERVAL;
            let is_over = || Instant::now() >= until || !cancelled && interrupted();
            let patience = Patience { is_over: &is_over, deadline: None };
            match wire::wait_for_frame(&end.socket, &patience) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {
                    if is_lost() {
                        return Err(ErrorKind::TimedOut.into());
                    }
                    if !cancelled && interrupted() {
                        cancelled = true;
                        end.cancel()?;
                    }
                    continue;
                }
                Err(error) => return Err(error),
            }
            let frame = wire::receive(&end.socket, &Patience::short())?;
            let frame = frame.ok_or(ErrorKind::UnexpectedEof)?;
            match frame.kind {
                FrameKind::Ask => {
                    let stream = Ask::decode(&frame.content).ok_or_else(wire::invalid)?.stream;
                    workers.give(stream, frame.content);
                }
                FrameKind::Exit => {
                    let [code] = frame.content[..] else { return Err(wire::invalid()) };
                    workers.finish();
                    return Ok(code);
                }
                _ => return Err(wire::invalid()),
            }
        }
    }

    /// Returns the counters of the mount in the text format of Prometheus.
    ///
    /// # Errors
    /// Another user's mount; the mount does not reply.
    pub fn statistics(&self, interrupted: Interrupted) -> Result<String> {
        let socket = self.connect(Purpose::Statistics, &[], interrupted)?;
        let frame = wire::receive(&socket, &short(&interrupted)).map_err(|error| self.failed(&error))?;
        match frame {
            Some(frame) if frame.kind == FrameKind::Text => {
                Ok(String::from_utf8_lossy(&frame.content).into_owned())
            }
            Some(_) => Err(self.failed(&wire::invalid())),
            None => Err(self.failed(&ErrorKind::UnexpectedEof.into())),
        }
    }
}

/// Waits for some seconds, or until the user asks to stop.
fn short(interrupted: &Interrupted) -> Patience<'_> {
    Patience { is_over: interrupted, ..Patience::short() }
}

/// Waits as long as the other end lives: the returned function is true some seconds after the user has asked
/// to stop. The server may complete its work until then.
pub(crate) fn patient(interrupted: Interrupted) -> impl Fn() -> bool {
    let since = Cell::new(None);
    move || {
        if !interrupted() {
            return false;
        }
        let begin = since.get().unwrap_or_else(Instant::now);
        since.set(Some(begin));
        begin.elapsed() >= TIMEOUT
    }
}

/// The client's end of a command's connection, for all threads.
#[derive(Clone)]
struct ClientEnd {
    socket: Arc<OwnedFd>,
    /// Locked while a frame is sent.
    sending: Arc<Mutex<()>>,
}

/// One thread for each stream, so that a stream that waits keeps no other one waiting.
struct Workers {
    queues: Vec<Sender<Vec<u8>>>,
    /// Closes when the thread of standard error has written everything.
    errors_written: Receiver<()>,
}

/// One stream of this process.
enum Open {
    Reader(Box<dyn Read + Send>),
    Writer(Box<dyn Write + Send>),
    /// A file of the host, opened when it is first used.
    Name(&'static str),
    None,
}

impl Open {
    /// Does what a question says; returns the bytes that were read.
    fn serve(&mut self, content: &[u8]) -> io::Result<Vec<u8>> {
        if let Open::Name(name) = self {
            *self = Open::Reader(Box::new(std::fs::File::open(name)?));
        }
        match self {
            Open::Reader(reader) => {
                let max = <[u8; 4]>::try_from(content).map_or(0, u32::from_le_bytes) as usize;
                let mut buffer = vec![0; max.min(MAX_PIECE_BYTES)];
                let len = reader.read(&mut buffer)?;
                buffer.truncate(len);
                Ok(buffer)
            }
            Open::Writer(writer) => {
                writer.write_all(content)?;
                writer.flush()?;
                Ok(Vec::new())
            }
            Open::Name(_) | Open::None => Ok(Vec::new()),
        }
    }
}

/// Standard input without a buffer: bytes that the command does not read stay for the next program.
struct Unbuffered;

impl Read for Unbuffered {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match rustix::io::read(rustix::stdio::stdin(), &mut *buffer) {
                Err(Errno::INTR) => {}
                done => return Ok(done?),
            }
        }
    }
}

impl ClientEnd {
    fn send(&self, kind: FrameKind, content: &[u8]) -> io::Result<()> {
        let _sending = self.sending.lock();
        wire::send(&self.socket, kind, &[content], &Patience::ENDLESS)
    }

    /// Cancels the command. A server that takes no more bytes is given some seconds.
    fn cancel(&self) -> io::Result<()> {
        let Some(_sending) = self.sending.try_lock_for(TIMEOUT) else {
            return Err(ErrorKind::TimedOut.into());
        };
        wire::send(&self.socket, FrameKind::Cancel, &[], &Patience::short())
    }

    /// Starts the threads of the streams.
    fn start(&self, file: Option<CommandFile>, output: Option<CommandOutput>) -> io::Result<Workers> {
        let mut file = file.map_or(Open::None, Open::Reader);
        let mut output = output.map_or_else(|| Open::Writer(Box::new(io::stdout())), Open::Writer);
        let mut queues = Vec::new();
        let (written, errors_written) = channel();
        for stream in Stream::ALL {
            let open = match stream {
                Stream::Output => std::mem::replace(&mut output, Open::None),
                Stream::Errors => Open::Writer(Box::new(io::stderr())),
                Stream::Input => Open::Reader(Box::new(Unbuffered)),
                Stream::File => std::mem::replace(&mut file, Open::None),
                Stream::Users => Open::Name("/etc/passwd"),
                Stream::Groups => Open::Name("/etc/group"),
            };
            let (sender, questions) = channel();
            queues.push(sender);
            let (end, written) = (self.clone(), (stream == Stream::Errors).then(|| written.clone()));
            std::thread::Builder::new().name(format!("lanefs-{stream:?}")).spawn(move || {
                end.answer(open, &questions);
                drop(written);
            })?;
        }
        Ok(Workers { queues, errors_written })
    }

    /// Answers the questions about one stream.
    fn answer(&self, mut open: Open, questions: &Receiver<Vec<u8>>) {
        for question in questions {
            let Some(ask) = Ask::decode(&question) else { return };
            let (errno, content) = match open.serve(ask.content) {
                Ok(content) => (0, content),
                Err(error) => (error.raw_os_error().unwrap_or(Errno::IO.raw_os_error()) as u32, Vec::new()),
            };
            let done = Done { stream: ask.stream, number: ask.number, errno, content };
            // Fails where the server has ended the command, which the receiving thread reports.
            if self.send(FrameKind::Done, &done.encode()).is_err() && ask.stream != Stream::Errors {
                return;
            }
        }
    }
}

impl Workers {
    fn give(&self, stream: Stream, question: Vec<u8>) {
        if let Some(queue) = self.queues.get(usize::from(stream.number())) {
            // A thread ends only with the connection.
            let _ = queue.send(question);
        }
    }

    /// Waits a little for the last messages: a reader of standard error may take nothing.
    fn finish(self) {
        drop(self.queues);
        let _ = self.errors_written.recv_timeout(LAST_MESSAGES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connects to a server that says `hello`; returns the error, and the bytes that the server got.
    fn refused(hello: Vec<u8>) -> (String, usize) {
        let (address, listener) =
            (Address::random().expect("random bytes"), wire::socket().expect("a socket"));
        rustix::net::bind(&listener, &address.socket().expect("a name")).expect("bound");
        rustix::net::listen(&listener, 1).expect("listening");
        let mount = MountedVolume { dir: "/mnt".into(), source: "/v.lane".into(), address };
        std::thread::scope(|scope| {
            let server = scope.spawn(|| {
                let client = rustix::net::accept(&listener).expect("a client");
                wire::send(&client, FrameKind::Hello, &[&hello], &Patience::ENDLESS).expect("sent");
                let mut got = Vec::new();
                let mut client = std::os::unix::net::UnixStream::from(client);
                client.read_to_end(&mut got).expect("the end");
                got.len()
            });
            let error = mount.connect(Purpose::Statistics, b"", || false).expect_err("refused");
            (error.to_string(), server.join().expect("no panic"))
        })
    }

    #[test]
    fn nothing_is_sent_to_an_impostor() {
        let hello =
            |version, is_full| Hello { version, secret: [0; 16], is_full, takes_commands: true }.encode();
        for (hello, why) in [
            (hello(VERSION, false), "something else replies"),
            (hello(VERSION + 1, false), "speaks version"),
            (b"HTTP/1.1 400".to_vec(), "something else replies"),
            (hello(VERSION, true), "something else replies"),
        ] {
            let (error, got) = refused(hello);
            assert!(error.contains(why) && got == 0, "{error}, {got} bytes");
        }
        // A socket of nobody.
        let address = Address::random().expect("random bytes");
        let mount = MountedVolume { dir: "/mnt".into(), source: "/v.lane".into(), address };
        let error = mount.connect(Purpose::Statistics, b"", || false).expect_err("refused");
        assert!(error.to_string().contains("cannot be reached"), "{error}");
    }
}
