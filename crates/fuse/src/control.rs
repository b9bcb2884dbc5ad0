//! Commands for a volume that is mounted: they come through a local socket and run beside the kernel's requests, in a thread
//! of their own, with the files, the working directory and the umask of the client.

use crate::notify::Notes;
use crate::server::Served;
use crate::wire::{self, Asked, FILES, Kind, STOP};
use lanefs::Volume;
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
use std::time::Duration;

/// Clients that may wait until they are looked at.
const WAITING: i32 = 64;
/// How long a client may take over its request.
const PATIENCE: Duration = Duration::from_secs(10);
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
    ends: Arc<AtomicBool>,
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
        rustix::net::bind(&*listener, &wire::address(device)?)?;
        rustix::net::listen(&*listener, WAITING)?;
        let ends = Arc::new(AtomicBool::new(false));
        let control = Control { listener: Arc::clone(&listener), ends: Arc::clone(&ends) };
        let work = move || {
            loop {
                let client = match rustix::net::accept_with(&*listener, SocketFlags::CLOEXEC) {
                    Ok(client) => client,
                    Err(Errno::INTR | Errno::CONNABORTED) => continue,
                    // Shut down; or out of descriptors, when a moment later there may be one.
                    Err(_) if ends.load(Relaxed) => return,
                    Err(_) => {
                        std::thread::sleep(Duration::from_millis(100));
                        continue;
                    }
                };
                let (served, notes, service, ends) =
                    (Arc::clone(&served), notes.clone(), Arc::clone(&service), Arc::clone(&ends));
                let serve = move || {
                    if let Err(error) = serve(UnixStream::from(client), &served, &notes, service, &ends) {
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

impl Drop for Control {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
    }
}

fn serve(
    stream: UnixStream,
    served: &Arc<Served>,
    notes: &Notes,
    service: Arc<dyn Service>,
    ends: &AtomicBool,
) -> std::io::Result<()> {
    if !wire::is_ours(&stream) {
        return Ok(());
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    let Some(asked) = wire::asked(&stream)? else { return Ok(()) };
    match asked.kind {
        Kind::Statistics => {
            let text = match served.volume.read().as_ref() {
                Some(volume) => service.statistics(volume, &served.statistics),
                None => String::new(),
            };
            (&stream).write_all(text.as_bytes())
        }
        Kind::Run => run(&stream, asked, served, notes, service, ends),
    }
}

/// Runs a command in a thread of its own, and watches whether the client still wants it.
fn run(
    mut stream: &UnixStream,
    asked: Asked,
    served: &Arc<Served>,
    notes: &Notes,
    service: Arc<dyn Service>,
    ends: &AtomicBool,
) -> std::io::Result<()> {
    let Ok([input, output, errors, place]) = <[OwnedFd; FILES]>::try_from(asked.files) else { return Ok(()) };
    let gone = Arc::new(AtomicBool::new(false));
    let request = Request {
        arguments: asked.words,
        input: input.into(),
        output: output.into(),
        errors: errors.into(),
        gone: Arc::clone(&gone),
    };
    let (served, notes, umask) =
        (Arc::clone(served), notes.clone(), Mode::from_raw_mode(asked.umask & 0o777));
    let command = std::thread::Builder::new().name("lanefs-command".to_owned()).spawn(move || {
        let code = match settle(&place, umask) {
            Ok(()) => match served.volume.read().as_ref() {
                Some(volume) => service.run(volume, request),
                None => FAILED,
            },
            Err(errno) => {
                let _ = writeln!(&request.errors, "lanefs: the working directory: {errno}");
                FAILED
            }
        };
        notes.flush();
        code
    })?;
    stream.set_read_timeout(Some(Duration::from_millis(50)))?;
    while !command.is_finished() {
        let mut word = [0];
        match stream.read(&mut word) {
            // Closed, or told.
            Ok(0) => gone.store(true, Relaxed),
            Ok(_) if word == [STOP] => gone.store(true, Relaxed),
            _ => {}
        }
        if ends.load(Relaxed) {
            gone.store(true, Relaxed);
        }
        if gone.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    stream.write_all(&[command.join().unwrap_or(FAILED)])
}

/// Gives this thread, and those that it starts, a working directory and a umask of their own.
fn settle(place: &OwnedFd, umask: Mode) -> rustix::io::Result<()> {
    #[expect(unsafe_code, reason = "what a thread may share or not is beyond the compiler")]
    // SAFETY: only the working directory, the root and the umask are set apart, on which no memory depends.
    unsafe {
        rustix::thread::unshare_unsafe(UnshareFlags::FS)?;
    }
    rustix::process::fchdir(place)?;
    rustix::process::umask(umask);
    Ok(())
}
