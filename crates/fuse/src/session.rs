//! A mount from its beginning to its end.

use crate::control::{Control, Service};
use crate::kernel::{self, Force};
use crate::notify::Notes;
use crate::served::Served;
use crate::server::Server;
use crate::{Error, Options, Result, Statistics, table, users};
use fuser::{Config, Notifier, Session, SessionACL};
use lanefs::Volume;
use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How long whoever has files open is waited for once the mount is to end.
const PATIENCE: Duration = Duration::from_secs(5);

enum Event {
    /// The kernel has closed the connection: nothing is in use any more.
    Ended,
    /// The mount is to end.
    Stop,
}

/// How a mount ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was unmounted.
    Unmounted,
    /// It was told to stop, and nothing was in use, or not for long.
    Stopped,
    /// It was told to stop while files were open. What was written is kept; further use of those files fails.
    CutOff,
}

/// A volume that is served below a directory.
pub struct Mount {
    served: Arc<Served>,
    dir: PathBuf,
    sender: Sender<Event>,
    events: Mutex<Receiver<Event>>,
    notifier: Notifier,
    /// For notes, until somebody sends any.
    connection: Option<OwnedFd>,
    control: Option<Control>,
    ended: bool,
}

/// Tells a mount to end, from any thread.
#[derive(Clone)]
pub struct Stopper(Sender<Event>);

impl Stopper {
    /// The mount ends as soon as nothing is in use, or after some seconds; told twice, at once.
    pub fn stop(&self) {
        // Whoever would hear it has gone, and the mount with him.
        let _ = self.0.send(Event::Stop);
    }
}

impl Mount {
    /// Mounts `volume` on `dir`. On return it works.
    ///
    /// # Errors
    /// [`Error::Directory`] where `dir` is none that can be mounted on; [`Error::Host`] and [`Error::Helper`] where the host
    /// refuses.
    pub fn start(volume: Volume, dir: &Path, options: &Options) -> Result<Mount> {
        let dir = directory(dir)?;
        let served = Arc::new(Served::new(volume, options.access_times && !options.read_only));
        let connection = kernel::mount(&dir, options)?;
        let for_notes = connection.try_clone().map_err(|error| Error::io("the connection", &error))?;
        let (sender, events) = channel();
        let mut config = Config::default();
        config.n_threads = Some(options.thread_count());
        // Each thread has a connection of its own, so that answers do not share a queue.
        config.clone_fd = true;
        let server = Server::new(Arc::clone(&served));
        let greeted = Session::from_fd(server, connection, SessionACL::All, config);
        let session = greeted.map_err(|error| {
            let _ = kernel::unmount(&dir, Force::Lazy);
            Error::io("greeting the kernel", &error)
        })?;
        let (notifier, ended) = (session.notifier(), sender.clone());
        let mount = Mount {
            served,
            dir,
            sender,
            events: Mutex::new(events),
            notifier,
            connection: Some(for_notes),
            control: None,
            ended: false,
        };
        let serve = move || {
            if let Err(error) = session.run() {
                log::error!("serving ended: {error}");
            }
            let _ = ended.send(Event::Ended);
        };
        std::thread::Builder::new()
            .name("lanefs-mount".to_owned())
            .spawn(serve)
            .map_err(|error| Error::io("starting a thread", &error))?;
        rustix::fs::statfs(&mount.dir)
            .map_err(|errno| Error::host(format!("trying the mount at {}", mount.dir.display()), errno))?;
        if let Ok(stat) = rustix::fs::stat(&mount.dir) {
            kernel::read_far_ahead(stat.st_dev);
        }
        Ok(mount)
    }

    /// Has `service` run the commands that come through the mount's socket.
    ///
    /// # Errors
    /// The host's: no threads, or somebody else has that socket.
    pub fn serve_commands(&mut self, service: Arc<dyn Service>) -> Result<()> {
        let failed = |error: std::io::Error| Error::io("the socket for commands", &error);
        let stat = rustix::fs::stat(&self.dir).map_err(|errno| failed(errno.into()))?;
        let notes = match (self.served.volume.read().as_ref(), self.connection.take()) {
            (Some(volume), Some(connection)) => {
                Notes::start(volume, &self.served, self.notifier.clone(), connection).map_err(failed)?
            }
            _ => return Ok(()),
        };
        let served = Arc::clone(&self.served);
        self.control = Some(Control::start(stat.st_dev, served, notes, service).map_err(failed)?);
        Ok(())
    }

    /// Where it is mounted, absolute.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What was asked of it so far.
    pub fn statistics(&self) -> &Statistics {
        &self.served.statistics
    }

    /// What can end it from elsewhere.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.sender.clone())
    }

    /// Serves until the mount ends, and closes the volume: everything is durable then.
    ///
    /// # Errors
    /// The volume's: what was changed since the last sync may be lost.
    pub fn wait(mut self) -> Result<Ended> {
        let ended = self.until_the_end();
        self.ended = true;
        // No more commands; those that run are told to end, and waited for.
        self.control = None;
        self.connection = None;
        // Requests that are under way are waited for; later ones find no volume.
        let volume = self.served.volume.write().take();
        if let Some(volume) = volume {
            volume.close()?;
        }
        Ok(ended)
    }

    /// Ends the mount, as [`Stopper::stop`] does, and waits for that.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn stop(self) -> Result<Ended> {
        self.stopper().stop();
        self.wait()
    }

    fn until_the_end(&self) -> Ended {
        let events = self.events.lock();
        match events.recv() {
            Ok(Event::Stop) => {}
            Ok(Event::Ended) | Err(_) => return Ended::Unmounted,
        }
        self.leave();
        match events.recv_timeout(PATIENCE) {
            Ok(Event::Ended) => Ended::Stopped,
            Ok(Event::Stop) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                log::warn!("{}: files are still open; they are cut off", self.dir.display());
                Ended::CutOff
            }
        }
    }

    /// Goes from sight, at once or, if something is in use, with what shared mappings have changed written first.
    fn leave(&self) {
        if kernel::unmount(&self.dir, Force::None) != Err(Errno::BUSY) {
            return;
        }
        log::warn!("{}: in use by {}", self.dir.display(), users::inside(&self.dir));
        if let Ok(top) = rustix::fs::open(&self.dir, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
            let _ = rustix::fs::syncfs(&top);
        }
        if let Err(errno) = kernel::unmount(&self.dir, Force::Lazy) {
            log::error!("{}: cannot be unmounted: {errno}", self.dir.display());
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if !self.ended {
            let _ = kernel::unmount(&self.dir, Force::Lazy);
        }
    }
}

/// The directory to mount on, by its absolute name.
///
/// # Errors
/// [`Error::Directory`] where it is none, or a mount whose server has ended; the host's.
pub fn directory(dir: &Path) -> Result<PathBuf> {
    if table::is_dead(dir) {
        let why = "a mount whose server has ended is still there; take it away with `lanefs umount`, then mount again";
        return Err(Error::directory(dir, why));
    }
    let absolute = std::fs::canonicalize(dir)
        .and_then(|absolute| std::fs::metadata(&absolute).map(|meta| (absolute, meta)));
    match absolute {
        Ok((absolute, meta)) if meta.is_dir() => Ok(absolute),
        Ok(_) => Err(Error::directory(dir, "not a directory")),
        Err(error) => Err(Error::io(dir.display().to_string(), &error)),
    }
}
