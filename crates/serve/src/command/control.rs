//! Commands for a mounted volume: the server's end of the socket that `client` connects to.
//!
//! A connection has a thread of its own. The server reads and writes no file of the host for a client, and
//! waits for one only where nobody else waits with it.

use crate::command::address::Address;
use crate::command::calls;
use crate::command::relay::Relay;
use crate::command::snapshots::ServedSnapshot;
use crate::command::streams::{ClientStreams, CommandLine, Done, Stream};
use crate::command::wire::{self, Frame, FrameKind, Hello, Patience, Purpose, Request, VERSION};
use crate::served::Served;
use crate::statistics::Statistics;
use crate::versions::Version;
use lanefs::Volume;
use parking_lot::RwLock;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::SocketFlags;
use std::ffi::OsString;
use std::io::{ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Largest number of clients that wait for their connection.
const BACKLOG: i32 = 64;
/// Largest number of connections at a time.
pub(crate) const MAX_CONNECTIONS: usize = 64;
/// Pause after an error of accept(2).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Exit code of a command that could not be started.
const EXIT_NOT_STARTED: u8 = 3;

/// A command line of a client.
pub struct CommandRequest {
    /// Arguments after the program's name.
    pub arguments: Vec<OsString>,
    /// The client's streams.
    pub streams: Arc<dyn ClientStreams>,
}

/// Executor of command lines.
pub trait Executor: Send + Sync + 'static {
    /// Executes a command on the volume; returns the exit code.
    fn execute(&self, volume: &Volume, request: CommandRequest) -> u8;

    /// Returns the counters of the volume and of the service, which has so many versions of it, in the text
    /// format of Prometheus.
    fn statistics(&self, volume: &Volume, counters: &Statistics, versions: usize) -> String;
}

/// The socket of a service, open as long as this value exists.
pub struct CommandSocket {
    listener: Arc<OwnedFd>,
    server: Arc<CommandServer>,
}

/// State that all connections share.
struct CommandServer {
    address: Address,
    served: Arc<Served>,
    executor: Arc<dyn Executor>,
    /// Called before each command.
    prepare: Box<dyn Fn() + Send + Sync>,
    /// Locked for reading by each command while it executes.
    executing: RwLock<()>,
    /// True once the mount is to end.
    stopping: AtomicBool,
    connections: AtomicUsize,
}

impl CommandSocket {
    /// Opens a socket with a name of its own, makes its address known through the root directory, and lets
    /// `executor` execute the commands. Before each one it calls `prepare`.
    ///
    /// # Errors
    /// The host's: no socket, or no thread.
    pub fn start(
        served: Arc<Served>,
        executor: Arc<dyn Executor>,
        prepare: Box<dyn Fn() + Send + Sync>,
    ) -> Result<CommandSocket> {
        let (address, listener) = (Address::random()?, Arc::new(wire::socket()?));
        rustix::net::bind(&*listener, &address.socket()?)?;
        rustix::net::listen(&*listener, BACKLOG)?;
        served.publish(address.text());
        let server = Arc::new(CommandServer {
            address,
            served,
            executor,
            prepare,
            executing: RwLock::new(()),
            stopping: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
        });
        let socket = CommandSocket { listener: Arc::clone(&listener), server: Arc::clone(&server) };
        let work = move || server.accept(&listener);
        std::thread::Builder::new().name("lanefs-control".to_owned()).spawn(work)?;
        Ok(socket)
    }
}

impl Drop for CommandSocket {
    /// Cancels the executing commands and waits for their end. Other threads must serve the kernel meanwhile:
    /// a client may read from the mount itself.
    fn drop(&mut self) {
        let before = self.server.stopping.swap(true, Relaxed);
        debug_assert!(!before, "the socket closes once");
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        drop(self.server.executing.write());
    }
}

/// One of the connections that may exist at a time.
struct ConnectionSlot(Arc<CommandServer>);

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
    }
}

impl CommandServer {
    fn accept(self: &Arc<Self>, listener: &OwnedFd) {
        loop {
            let client = match rustix::net::accept_with(listener, SocketFlags::CLOEXEC) {
                Ok(client) => client,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                // The socket is shut down. Otherwise the process has no free descriptor, and may have one
                // soon.
                Err(_) if self.stopping.load(Relaxed) => return,
                Err(_) => {
                    std::thread::sleep(ACCEPT_PAUSE);
                    continue;
                }
            };
            // Other users get no thread and no byte.
            if !wire::is_own_user(&client) {
                continue;
            }
            let slot = ConnectionSlot(Arc::clone(self));
            let hello = Hello {
                version: VERSION,
                secret: self.address.server,
                is_full: self.connections.fetch_add(1, Relaxed) >= MAX_CONNECTIONS,
                takes_commands: self.served.takes_commands,
            };
            // The connection is new, so its buffer has room.
            let at_once = Patience { is_over: &|| true, deadline: None };
            if wire::send(&client, FrameKind::Hello, &[&hello.encode()], &at_once).is_err() || hello.is_full {
                continue;
            }
            let serve = move || {
                if let Err(error) = slot.0.serve(client) {
                    log::debug!("a client: {error}");
                }
            };
            // Without a thread the connection closes, which the client reports.
            let _ = std::thread::Builder::new().name("lanefs-client".to_owned()).spawn(serve);
        }
    }

    fn serve(self: &Arc<Self>, client: OwnedFd) -> Result<()> {
        let Some(Frame { kind: FrameKind::Request, content }) = wire::receive(&client, &Patience::short())?
        else {
            return Err(wire::invalid());
        };
        let request = Request::decode(&content).filter(|request| request.version == VERSION);
        let request = request.filter(|request| request.secret == self.address.client);
        let request = request.ok_or_else(wire::invalid)?;
        if !self.served.takes_commands && request.purpose != Purpose::Statistics {
            return Err(wire::invalid());
        }
        match request.purpose {
            Purpose::Statistics => self.statistics(&client),
            Purpose::Execute => {
                let line = CommandLine::decode(request.content).ok_or_else(wire::invalid)?;
                self.start(client, line)
            }
            Purpose::Calls => {
                let version = match request.content {
                    [] => Some(self.served.versions.current()),
                    [number] => self.served.versions.numbered(*number),
                    _ => None,
                };
                let version = version.ok_or_else(wire::invalid)?;
                self.calls(&client, &version)
            }
            Purpose::Snapshot => self.snapshot(&client),
        }
    }

    fn statistics(&self, client: &OwnedFd) -> Result<()> {
        let current = self.served.versions.current();
        let text = match current.open() {
            Ok(volume) => {
                let versions = self.served.versions.count();
                self.executor.statistics(&volume, self.served.statistics(), versions)
            }
            Err(_) => String::new(),
        };
        wire::send(client, FrameKind::Text, &[text.as_bytes()], &Patience::short())
    }

    /// Executes calls of a client on a version of the volume.
    fn calls(&self, client: &OwnedFd, version: &Version) -> Result<()> {
        self.answer(client, version, |volume, call| {
            let finish = || {
                // The changes become visible even where they cannot become durable.
                let synced = volume.sync();
                self.served.flush_notifications();
                synced
            };
            calls::execute(volume, version.number(), &finish, call)
        })
    }

    /// Executes calls of a client on a snapshot, which ends with the connection.
    fn snapshot(&self, client: &OwnedFd) -> Result<()> {
        let mut snapshot = ServedSnapshot::default();
        let current = self.served.versions.current();
        self.answer(client, &current, |volume, call| snapshot.execute(volume, call))
    }

    /// Executes calls of a client until it closes the connection, or the mount is to end. `execute` returns
    /// `None` for bytes that are not a call.
    fn answer(
        &self,
        client: &OwnedFd,
        version: &Version,
        mut execute: impl FnMut(&Volume, &[u8]) -> Option<Vec<u8>>,
    ) -> Result<()> {
        let _executing = self.executing.read();
        (self.prepare)();
        let Ok(volume) = version.open() else { return Ok(()) };
        let is_over = || self.stopping.load(Relaxed);
        let patience = Patience { is_over: &is_over, deadline: None };
        let served = loop {
            let call = match wire::receive(client, &patience) {
                Ok(Some(Frame { kind: FrameKind::Call, content })) => content,
                Ok(Some(_)) => break Err(wire::invalid()),
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            let Some(answer) = execute(&volume, &call) else { break Err(wire::invalid()) };
            if let Err(error) = wire::send(client, FrameKind::Answer, &[&answer], &patience) {
                break Err(error);
            }
        };
        self.served.flush_notifications();
        served
    }

    /// Executes a command in a thread of its own, and passes the client's answers to it.
    fn start(self: &Arc<Self>, client: OwnedFd, line: CommandLine) -> Result<()> {
        let cancelled = Arc::new(AtomicBool::new(false));
        let relay = Arc::new(Relay::new(client.try_clone()?, line.terminals, Arc::clone(&cancelled)));
        let (server, streams) = (Arc::clone(self), Arc::clone(&relay));
        let thread = std::thread::Builder::new().name("lanefs-command".to_owned()).spawn(move || {
            let code = server.execute(line.arguments, &streams);
            // Fails where the client has closed the connection, or takes nothing; it needs no code then.
            let at_once = Patience { is_over: &|| true, deadline: None };
            let _ = streams.send(FrameKind::Exit, &[&[code]], &at_once);
        })?;
        let is_over = || {
            if self.stopping.load(Relaxed) {
                cancelled.store(true, Relaxed);
            }
            thread.is_finished()
        };
        let patience = Patience { is_over: &is_over, deadline: None };
        while !is_over() {
            match wire::receive(&client, &patience) {
                Ok(Some(Frame { kind: FrameKind::Done, content })) if !cancelled.load(Relaxed) => {
                    match Done::decode(&content) {
                        Some(done) => relay.deliver(done),
                        None => cancelled.store(true, Relaxed),
                    }
                }
                Ok(Some(Frame { kind: FrameKind::Done, .. })) => {}
                // A cancelled command may still write a message.
                Ok(Some(Frame { kind: FrameKind::Cancel, .. })) => cancelled.store(true, Relaxed),
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                // The client is gone, or breaks the rules. There is nothing more to receive.
                Ok(_) | Err(_) => {
                    cancelled.store(true, Relaxed);
                    break;
                }
            }
        }
        // A panic has aborted the process.
        let _ = thread.join();
        Ok(())
    }

    /// Executes a command in this thread. On return the observer has been notified of its changes.
    fn execute(&self, arguments: Vec<OsString>, relay: &Arc<Relay>) -> u8 {
        let _executing = self.executing.read();
        (self.prepare)();
        let streams: Arc<dyn ClientStreams> = relay.clone();
        let current = self.served.versions.current();
        let code = match current.open() {
            Ok(volume) => self.executor.execute(&volume, CommandRequest { arguments, streams }),
            Err(_) => {
                let text = b"lanefs: the mount has ended\n";
                let _ = streams.write(Stream::Errors, text);
                EXIT_NOT_STARTED
            }
        };
        self.served.flush_notifications();
        code
    }
}
