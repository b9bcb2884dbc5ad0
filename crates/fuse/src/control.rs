//! Commands for a volume that is mounted: they come through a local socket and run beside the kernel's requests, in a thread
//! of their own, with the files, the working directory and the umask of the client.

use crate::notify::Notes;
use crate::served::Served;
use crate::wire::{self, Asked, FILES, Kind, STOP};
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

/// Clients that may wait until they are looked at.
const WAITING: i32 = 64;
/// How long a client may take over its request, and a server that ends over its socket.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked whether the mount is to end.
const LOOK: Duration = Duration::from_millis(50);
/// The exit code of a command that could not be run.
const FAILED: u8 = 3;

/// A command line of a client.
#[derive(Debug)]
pub struct Request {
    /// The words behind the program's name.
    pub arguments: Vec<OsString>,
    /// Standard input.
    pub input: File,
    /// Standard output.
    pub output: File,
    /// Standard error.
    pub errors: File,
    /// Set once the client wants no more, or the mount is to end.
    pub gone: Arc<AtomicBool>,
}

/// Who runs command lines.
pub trait Service: Send + Sync + 'static {
    /// Runs one on the volume; returns the exit code.
    fn run(&self, volume: &Volume, request: Request) -> u8;

    /// Counters of the volume and of the mount, as the text format of Prometheus has it.
    fn statistics(&self, volume: &Volume, counters: &crate::Statistics) -> String;
}

/// The socket of a mount, open as long as this value lives.
pub(crate) struct Control {
    listener: Arc<OwnedFd>,
    desk: Arc<Desk>,
}

/// What it takes to serve a client.
struct Desk {
    served: Arc<Served>,
    notes: Notes,
    service: Arc<dyn Service>,
    /// Held by each command as long as it runs.
    running: RwLock<()>,
    /// The mount is to end.
    ends: AtomicBool,
}

impl Control {
    /// Opens the socket of the mount with this device number.
    ///
    /// # Errors
    /// The host's, when somebody has that socket, or there are no more threads.
    pub(crate) fn start(
        device: u64,
        served: Arc<Served>,
        notes: Notes,
        service: Arc<dyn Service>,
    ) -> std::io::Result<Control> {
        let listener = Arc::new(wire::socket()?);
        bind(&listener, device)?;
        rustix::net::listen(&*listener, WAITING)?;
        let (running, ends) = (RwLock::new(()), AtomicBool::new(false));
        let desk = Arc::new(Desk { served, notes, service, running, ends });
        let control = Control { listener: Arc::clone(&listener), desk: Arc::clone(&desk) };
        let work = move || {
            loop {
                let client = match rustix::net::accept_with(&*listener, SocketFlags::CLOEXEC) {
                    Ok(client) => client,
                    Err(Errno::INTR | Errno::CONNABORTED) => continue,
                    // Shut down; or out of descriptors, when a moment later there may be one.
                    Err(_) if desk.ends.load(Relaxed) => return,
                    Err(_) => {
                        std::thread::sleep(Duration::from_millis(100));
                        continue;
                    }
                };
                let desk = Arc::clone(&desk);
                let serve = move || {
                    if let Err(error) = desk.serve(&UnixStream::from(client)) {
                        log::debug!("a client: {error}");
                    }
                };
                // Without a thread the client finds the connection closed.
                let _ = std::thread::Builder::new().name("lanefs-client".to_owned()).spawn(serve);
            }
        };
        std::thread::Builder::new().name("lanefs-control".to_owned()).spawn(work)?;
        Ok(control)
    }
}

/// Gives a socket the name of the mount with this device number. The number may be that of a mount which ended a moment ago, and
/// whose server has still to close its own.
fn bind(listener: &OwnedFd, device: u64) -> std::io::Result<()> {
    let (address, begin) = (wire::address(device)?, Instant::now());
    loop {
        match rustix::net::bind(listener, &address) {
            Err(Errno::ADDRINUSE) if begin.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(5));
            }
            bound => return Ok(bound?),
        }
    }
}

impl Drop for Control {
    /// Tells the commands that run to end, and waits until they have. The kernel must be served meanwhile: a command may be
    /// reading the mount itself.
    fn drop(&mut self) {
        self.desk.ends.store(true, Relaxed);
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        drop(self.desk.running.write());
    }
}

impl Desk {
    fn serve(self: Arc<Self>, mut stream: &UnixStream) -> std::io::Result<()> {
        if !wire::is_ours(stream) {
            return Ok(());
        }
        stream.set_read_timeout(Some(PATIENCE))?;
        let Some(asked) = wire::asked(stream)? else { return Ok(()) };
        match asked.kind {
            Kind::Statistics => {
                let text = match self.served.volume.read().as_ref() {
                    Some(volume) => self.service.statistics(volume, &self.served.statistics),
                    None => String::new(),
                };
                stream.write_all(text.as_bytes())
            }
            Kind::Run => self.start(stream, asked),
        }
    }

    /// Runs a command in a thread of its own, and watches whether the client still wants it.
    fn start(self: Arc<Self>, mut stream: &UnixStream, asked: Asked) -> std::io::Result<()> {
        let Ok([input, output, errors, place]) = <[OwnedFd; FILES]>::try_from(asked.files) else {
            return Ok(());
        };
        let gone = Arc::new(AtomicBool::new(false));
        let request = Request {
            arguments: asked.words,
            input: input.into(),
            output: output.into(),
            errors: errors.into(),
            gone: Arc::clone(&gone),
        };
        let (desk, answer) = (Arc::clone(&self), stream.try_clone()?);
        let umask = Mode::from_raw_mode(asked.umask & 0o777);
        let command = std::thread::Builder::new().name("lanefs-command".to_owned()).spawn(move || {
            let code = desk.run(&place, umask, request);
            // A client that has gone needs no answer.
            let _ = (&answer).write_all(&[code]);
        })?;
        stream.set_read_timeout(Some(LOOK))?;
        while !command.is_finished() && !gone.load(Relaxed) {
            let mut word = [0];
            match stream.read(&mut word) {
                // Closed, which comes with the answer at the latest; or told.
                Ok(0) => gone.store(true, Relaxed),
                Ok(_) if word == [STOP] => gone.store(true, Relaxed),
                _ if self.ends.load(Relaxed) => gone.store(true, Relaxed),
                _ => {}
            }
        }
        Ok(())
    }

    /// Runs a command in this thread. On return the kernel knows what it changed.
    fn run(&self, place: &OwnedFd, umask: Mode, request: Request) -> u8 {
        let _running = self.running.read();
        let failed = |mut errors: &File, why: &str| {
            let _ = writeln!(errors, "lanefs: {why}");
            FAILED
        };
        if let Err(errno) = settle(place, umask) {
            return failed(&request.errors, &format!("the working directory: {errno}"));
        }
        let code = match self.served.volume.read().as_ref() {
            Some(volume) => self.service.run(volume, request),
            None => failed(&request.errors, "the mount has ended"),
        };
        self.notes.flush();
        code
    }
}

/// Gives this thread, and those that it starts, a working directory and a umask of their own.
fn settle(place: &OwnedFd, umask: Mode) -> rustix::io::Result<()> {
    #[expect(unsafe_code, reason = "what a thread may share or not is beyond the compiler")]
    // SAFETY: sound, for the kernel does all of it. `FS` gives this thread a copy of the working directory, the root and the umask;
    // memory and descriptors stay shared, so no reference and no owned descriptor changes its meaning.
    unsafe {
        rustix::thread::unshare_unsafe(UnshareFlags::FS)?;
    }
    rustix::process::fchdir(place)?;
    rustix::process::umask(umask);
    Ok(())
}
