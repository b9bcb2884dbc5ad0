//! Commands for a mounted volume: the client's end of the socket that `control` opens.

use crate::address::Address;
use crate::streams::{Ask, CommandLine, Done, MAX_PIECE_BYTES, Stream, Terminals};
use crate::table;
use crate::wire::{self, Hello, Kind, Patience, Purpose, Request, VERSION};
use crate::{Error, Result};
use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
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

/// A mounted volume of LaneFS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountedVolume {
    /// The mount point.
    pub dir: PathBuf,
    /// The image, as the table of mounts names it.
    pub source: PathBuf,
}

/// Returns the mount of an image, or on a directory; `None` where there is none.
pub fn find(image_or_dir: &Path) -> Option<MountedVolume> {
    let path = table::absolute(image_or_dir).ok()?;
    let mut mounts = table::mounts().ok()?;
    mounts.retain(table::MountEntry::is_lanefs);
    let mounted =
        |entry: &table::MountEntry| MountedVolume { dir: entry.dir.clone(), source: entry.source.clone() };
    if let Some(entry) = mounts.iter().rev().find(|entry| entry.dir == path) {
        return Some(mounted(entry));
    }
    // A mount whose server has ended no longer uses its image.
    let of_image = mounts.iter().rev().filter(|entry| entry.source == path);
    of_image.map(mounted).find(|mounted| !mounted.is_dead())
}

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
    fn is_dead(&self) -> bool {
        table::is_dead(&self.dir)
    }

    /// The error of a connection that has failed.
    pub(crate) fn failed(&self, error: &io::Error) -> Error {
        Error::io(format!("the volume mounted at {}", self.dir.display()), error)
    }

    fn refused(&self, why: impl Into<String>) -> Error {
        Error::directory(&self.dir, why)
    }

    fn other_user(&self) -> Error {
        self.refused("another user has mounted it; run the command as that user")
    }

    fn other_version(&self, version: u32) -> Error {
        self.refused(format!(
            "its server speaks version {version} of the protocol and this program {VERSION}; \
             use the program that mounted it, or unmount and mount again"
        ))
    }

    /// Reads the address of the server through the mount.
    fn address(&self) -> Result<Address> {
        match Address::of_mount(&self.dir) {
            Ok(Some(Ok(address))) => Ok(address),
            Ok(Some(Err(version))) => Err(self.other_version(version)),
            Ok(None) => Err(self.refused("its server gives no address of this program's form")),
            Err(_) if self.is_dead() => {
                Err(self.refused("the server of this mount has ended; remove the mount with `lanefs umount`"))
            }
            // Other users have no access to the mount, or not to the address.
            Err(Errno::ACCESS | Errno::PERM) => Err(self.other_user()),
            Err(Errno::OPNOTSUPP | Errno::NODATA) => Err(self.refused("its server takes no commands")),
            Err(errno) => Err(Error::host(format!("the volume mounted at {}", self.dir.display()), errno)),
        }
    }

    /// Connects to the server. Sends nothing before it has proved that it is the mount's, and this user's.
    pub(crate) fn connect(&self, purpose: Purpose, content: &[u8]) -> Result<OwnedFd> {
        self.connect_to(&self.address()?, purpose, content)
    }

    fn connect_to(&self, address: &Address, purpose: Purpose, content: &[u8]) -> Result<OwnedFd> {
        let socket = self.open(address)?;
        let failed = |error: io::Error| self.failed(&error);
        let hello = wire::receive(&socket, &Patience::short()).map_err(failed)?;
        let hello = hello.filter(|frame| frame.kind == Kind::Hello);
        let Some(hello) = hello.and_then(|frame| Hello::decode(&frame.content)) else {
            return Err(self.refused("its server cannot be reached: something else replies"));
        };
        if hello.version != VERSION {
            return Err(self.other_version(hello.version));
        }
        if hello.secret != address.server {
            return Err(self.refused("its server cannot be reached: something else replies in its place"));
        }
        if hello.is_full {
            return Err(self.refused("its server has too many clients; wait for other commands to end"));
        }
        let request = Request { version: VERSION, secret: address.client, purpose, content };
        wire::send(&socket, Kind::Request, &[&request.encode()], &Patience::short()).map_err(failed)?;
        Ok(socket)
    }

    fn open(&self, address: &Address) -> Result<OwnedFd> {
        let connect = || {
            let socket = wire::socket()?;
            rustix::net::connect(&socket, &address.socket()?)?;
            Ok(socket)
        };
        let socket = connect().map_err(|errno| match errno {
            Errno::CONNREFUSED => self.refused(
                "its server cannot be reached; run the command in the network namespace of the server",
            ),
            errno => Error::host(format!("the volume mounted at {}", self.dir.display()), errno),
        })?;
        if wire::is_own_user(&socket) { Ok(socket) } else { Err(self.other_user()) }
    }

    /// Executes a command line in the process that serves the mount, with the standard streams of this
    /// process. Polls `interrupted`, and cancels the command when that returns true. Returns the exit code.
    ///
    /// # Errors
    /// Another user's mount; the mount does not reply, or ends.
    pub fn execute(&self, command: CommandSpec, interrupted: &dyn Fn() -> bool) -> Result<u8> {
        let CommandSpec { arguments, terminals, file, output } = command;
        let line = CommandLine { arguments, terminals };
        let socket = Arc::new(self.connect(Purpose::Execute, &line.encode())?);
        let end = ClientEnd { socket: Arc::clone(&socket), sending: Arc::default() };
        let workers = end.start(file, output).map_err(|error| self.failed(&error))?;
        self.serve(&end, workers, interrupted).map_err(|error| self.failed(&error))
    }

    /// Does the server's work on the streams until the command ends.
    fn serve(&self, end: &ClientEnd, workers: Workers, interrupted: &dyn Fn() -> bool) -> io::Result<u8> {
        let mut cancelled = false;
        loop {
            // Waits as long as it takes, and returns from time to time to ask for an interruption.
            let until = Instant::now() + POLL_INTERVAL;
            let is_over = || Instant::now() >= until || !cancelled && interrupted();
            let patience = Patience { is_over: &is_over, deadline: None };
            match wire::wait_for_frame(&end.socket, &patience) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {
                    if !cancelled && interrupted() {
                        cancelled = true;
                        end.send(Kind::Cancel, &[])?;
                    }
                    continue;
                }
                Err(error) => return Err(error),
            }
            let frame = wire::receive(&end.socket, &Patience::short())?;
            let frame = frame.ok_or(ErrorKind::UnexpectedEof)?;
            match frame.kind {
                Kind::Ask => {
                    let stream = Ask::decode(&frame.content).ok_or_else(wire::invalid)?.stream;
                    workers.give(stream, frame.content);
                }
                Kind::Exit => {
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
    pub fn statistics(&self) -> Result<String> {
        let socket = self.connect(Purpose::Statistics, &[])?;
        let frame = wire::receive(&socket, &Patience::short()).map_err(|error| self.failed(&error))?;
        match frame {
            Some(frame) if frame.kind == Kind::Text => {
                Ok(String::from_utf8_lossy(&frame.content).into_owned())
            }
            Some(_) => Err(self.failed(&wire::invalid())),
            None => Err(self.failed(&ErrorKind::UnexpectedEof.into())),
        }
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
    fn send(&self, kind: Kind, content: &[u8]) -> io::Result<()> {
        let _sending = self.sending.lock();
        wire::send(&self.socket, kind, &[content], &Patience::ENDLESS)
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
            if self.send(Kind::Done, &done.encode()).is_err() && ask.stream != Stream::Errors {
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
        let mount = MountedVolume { dir: "/mnt".into(), source: "/v.lane".into() };
        std::thread::scope(|scope| {
            let server = scope.spawn(|| {
                let client = rustix::net::accept(&listener).expect("a client");
                wire::send(&client, Kind::Hello, &[&hello], &Patience::ENDLESS).expect("sent");
                let mut got = Vec::new();
                let mut client = std::os::unix::net::UnixStream::from(client);
                client.read_to_end(&mut got).expect("the end");
                got.len()
            });
            let error = mount.connect_to(&address, Purpose::Statistics, b"").expect_err("refused");
            (error.to_string(), server.join().expect("no panic"))
        })
    }

    #[test]
    fn nothing_is_sent_to_an_impostor() {
        let hello = |version, is_full| Hello { version, secret: [0; 16], is_full }.encode();
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
        let mount = MountedVolume { dir: "/mnt".into(), source: "/v.lane".into() };
        let address = Address::random().expect("random bytes");
        let error = mount.connect_to(&address, Purpose::Statistics, b"").expect_err("refused");
        assert!(error.to_string().contains("cannot be reached"), "{error}");
    }
}
