//! Commands for a mounted volume. Clients send them through a local socket. Each command runs beside the
//! kernel's requests, in a thread of its own, with the files, the working directory and the umask of the
//! client.

use crate::notify::Invalidations;
use crate::served::Served;
use crate::wire::{self, CANCEL, DESCRIPTORS, RequestKind, WireRequest};
use lanefs::Volume;
use parking_lot::RwLock;
use rustix::fd::OwnedFd;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::SocketFlags;
use rustix::thread::UnshareFlags;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Largest number of clients that wait for their connection.
const BACKLOG: i32 = 64;
/// Time in which a client must send its request, and the server of an earlier mount must close its socket.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval at which a connection checks whether the mount is to end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Pause after an error of accept(2), and between two attempts to bind the socket.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const BIND_PAUSE: Duration = Duration::from_millis(5);
/// Exit code of a command that could not be started.
const EXIT_NOT_STARTED: u8 = 3;

/// A command line of a client.
#[derive(Debug)]
pub struct CommandRequest {
    /// Arguments after the program's name.
    pub arguments: Vec<OsString>,
    /// Standard input.
    pub input: File,
    /// Standard output.
    pub output: File,
    /// Standard error.
    pub errors: File,
    /// True once the client cancels the command, or the mount is to end.
    pub cancelled: Arc<AtomicBool>,
}

/// Executor of command lines.
pub trait Service: Send + Sync + 'static {
    /// Executes a command on the volume; returns the exit code.
    fn execute(&self, volume: &Volume, request: CommandRequest) -> u8;

    /// Returns the counters of the volume and of the mount in the text format of Prometheus.
    fn statistics(&self, volume: &Volume, counters: &crate::Statistics) -> String;
}

/// The socket of a mount, open as long as this value exists.
pub(crate) struct CommandSocket {
    listener: Arc<OwnedFd>,
    server: Arc<CommandServer>,
}

/// State that all connections share.
struct CommandServer {
    served: Arc<Served>,
    invalidations: Invalidations,
    service: Arc<dyn Service>,
    /// Locked for reading by each command while it executes.
    executing: RwLock<()>,
    /// True once the mount is to end.
    stopping: AtomicBool,
}

impl CommandSocket {
    /// Opens the socket of the mount with this device number.
    ///
    /// # Errors
    /// The host's, when another process has that socket, or a thread cannot be started.
    pub(crate) fn start(
        device: u64,
        served: Arc<Served>,
        invalidations: Invalidations,
        service: Arc<dyn Service>,
    ) -> std::io::Result<CommandSocket> {
        let listener = Arc::new(wire::socket()?);
        bind(&listener, device)?;
        rustix::net::listen(&*listener, BACKLOG)?;
        let (executing, stopping) = (RwLock::new(()), AtomicBool::new(false));
        let server = Arc::new(CommandServer { served, invalidations, service, executing, stopping });
        let socket = CommandSocket { listener: Arc::clone(&listener), server: Arc::clone(&server) };
        let work = move || {
            loop {
                let client = match rustix::net::accept_with(&*listener, SocketFlags::CLOEXEC) {
                    Ok(client) => client,
                    Err(Errno::INTR | Errno::CONNABORTED) => continue,
                    // The socket is shut down. Otherwise the process has no free descriptor, and may have one
                    // soon.
                    Err(_) if server.stopping.load(Relaxed) => return,
                    Err(_) => {
                        std::thread::sleep(ACCEPT_PAUSE);
                        continue;
                    }
                };
                let server = Arc::clone(&server);
                let serve = move || {
                    if let Err(error) = server.serve(&UnixStream::from(client)) {
                        log::debug!("a client: {error}");
                    }
                };
                // Without a thread the connection closes, which the client reports.
                let _ = std::thread::Builder::new().name("lanefs-client".to_owned()).spawn(serve);
            }
        };
        std::thread::Builder::new().name("lanefs-control".to_owned()).spawn(work)?;
        Ok(socket)
    }
}

/// Binds a socket to the name of the mount with this device number. An earlier mount may have had the same
/// number, and its server may still have its socket open.
fn bind(listener: &OwnedFd, device: u64) -> std::io::Result<()> {
    let (address, begin) = (wire::address(device)?, Instant::now());
    loop {
        match rustix::net::bind(listener, &address) {
            Err(Errno::ADDRINUSE) if begin.elapsed() < CLIENT_TIMEOUT => {
                std::thread::sleep(BIND_PAUSE);
            }
            result => return Ok(result?),
        }
    }
}

impl Drop for CommandSocket {
    /// Cancels the executing commands and waits for their end. Other threads must serve the kernel meanwhile:
    /// a command may read from the mount itself.
    fn drop(&mut self) {
        let before = self.server.stopping.swap(true, Relaxed);
        debug_assert!(!before, "the socket closes once");
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        drop(self.server.executing.write());
    }
}

impl CommandServer {
    fn serve(self: Arc<Self>, mut stream: &UnixStream) -> std::io::Result<()> {
        if !wire::is_own_user(stream) {
            return Ok(());
        }
        stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
        let Some(request) = wire::receive_request(stream)? else { return Ok(()) };
        match request.kind {
            RequestKind::Statistics => {
                let text = match self.served.volume.read().as_ref() {
                    Some(volume) => self.service.statistics(volume, &self.served.statistics),
                    None => String::new(),
                };
                stream.write_all(text.as_bytes())
            }
            RequestKind::Execute => self.start(stream, request),
        }
    }

    /// Executes a command in a thread of its own, and watches whether the client cancels it.
    fn start(self: Arc<Self>, mut stream: &UnixStream, request: WireRequest) -> std::io::Result<()> {
        let Ok([input, output, errors, working_dir]) = <[OwnedFd; DESCRIPTORS]>::try_from(request.files)
        else {
            return Ok(());
        };
        let cancelled = Arc::new(AtomicBool::new(false));
        let command = CommandRequest {
            arguments: request.arguments,
            input: input.into(),
            output: output.into(),
            errors: errors.into(),
            cancelled: Arc::clone(&cancelled),
        };
        let (server, reply) = (Arc::clone(&self), stream.try_clone()?);
        let umask = Mode::from_raw_mode(request.umask & 0o777);
        let thread = std::thread::Builder::new().name("lanefs-command".to_owned()).spawn(move || {
            let code = server.execute(&working_dir, umask, command);
            // Fails where the client has closed the connection; it needs no reply then.
            let _ = (&reply).write_all(&[code]);
        })?;
        stream.set_read_timeout(Some(POLL_INTERVAL))?;
        while !thread.is_finished() && !cancelled.load(Relaxed) {
            let mut byte = [0];
            match stream.read(&mut byte) {
                // The client closes the connection after the reply at the latest.
                Ok(0) => cancelled.store(true, Relaxed),
                Ok(_) if byte == [CANCEL] => cancelled.store(true, Relaxed),
                _ if self.stopping.load(Relaxed) => cancelled.store(true, Relaxed),
                _ => {}
            }
        }
        Ok(())
    }

    /// Executes a command in this thread. On return the kernel has been notified of its changes.
    fn execute(&self, working_dir: &OwnedFd, umask: Mode, command: CommandRequest) -> u8 {
        let _executing = self.executing.read();
        // A command that begins after a remount meets the state after it.
        self.served.adopt_state();
        let failed = |mut errors: &File, why: &str| {
            let _ = writeln!(errors, "lanefs: {why}");
            EXIT_NOT_STARTED
        };
        if let Err(errno) = set_context(working_dir, umask) {
            return failed(&command.errors, &format!("the working directory: {errno}"));
        }
        let code = match self.served.volume.read().as_ref() {
            Some(volume) => self.service.execute(volume, command),
            None => failed(&command.errors, "the mount has ended"),
        };
        self.invalidations.flush();
        code
    }
}

/// Gives this thread, and the threads that it starts, a working directory and a umask of their own.
fn set_context(working_dir: &OwnedFd, umask: Mode) -> rustix::io::Result<()> {
    #[expect(unsafe_code, reason = "the compiler cannot check which state threads share")]
    // SAFETY: sound, for the kernel does all of it. `FS` gives this thread a copy of the working directory,
    // the root and the umask; memory and descriptors stay shared, so no reference and no owned descriptor
    // changes its meaning.
    unsafe {
        rustix::thread::unshare_unsafe(UnshareFlags::FS)?;
    }
    rustix::process::fchdir(working_dir)?;
    rustix::process::umask(umask);
    Ok(())
}
