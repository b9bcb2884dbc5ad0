//! Mounts: start, service, end.

use crate::device::{self, Wishes};
use crate::error::{Error, Result};
use crate::find;
use crate::kernel::{self, MountHandle, UnmountMode, ending, processes, table};
use crate::mover::Mover;
use crate::options::{Options, Transport};
use crate::requests::{KernelCache, MountPoint, MountState, RequestService, StateWatch};
use crate::uring::{self, OnFailure};
use lanefs::escape::escape_path;
use lanefs::{AccessTimes, Volume};
use lanefs_serve::command::{CommandSocket, Executor};
use lanefs_serve::{ServeOptions, Served, Statistics, Trace};
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Default time for which a stopped mount waits for processes with open files.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Remedy where the kernel has no rings for a mount.
const NO_RINGS: &str = "transport=uring: the kernel's fuse module does not use rings; Linux has them from 6.14 on, \
                        and root switches them on: echo Y >/sys/module/fuse/parameters/enable_uring";

enum Event {
    /// The kernel has closed the connection: the mount was unmounted, or no request can reach it.
    Disconnected,
    /// Somebody has aborted the connection.
    Aborted,
    /// A part of the connection has failed, and requests in it get no reply.
    Failed,
    /// A caller stops the mount.
    Stop,
}

/// Way in which a mount ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A user unmounted it.
    Unmounted,
    /// A caller stopped it, and all files were closed, at once or within some seconds.
    Stopped,
    /// A caller stopped it while files were open. Data written is kept; further use of those files fails.
    CutOff,
    /// The connection to the kernel ended while the mount was there: somebody aborted it
    /// (`/sys/fs/fuse/connections`, `umount -f`), or it failed. Data written is kept; use of the mount fails
    /// until somebody unmounts it.
    Aborted,
}

/// Phase of a mount. It only advances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// The mount is visible and serves the kernel.
    Serving,
    /// The mount is being unmounted, and still serves open files.
    Leaving,
    /// The kernel has closed the connection, or open files are cut off; no command executes.
    Ended,
    /// The volume is taken out and closed.
    Closed,
}

/// A volume that is mounted on a directory.
pub struct Mount {
    served: Arc<Served>,
    dir: PathBuf,
    sender: Sender<Event>,
    events: Mutex<Receiver<Event>>,
    state: Arc<MountState>,
    commands: Option<CommandSocket>,
    /// Watch over the state that a remount changes; `None` where the host does not let it.
    watch: Option<StateWatch>,
    stop_timeout: Duration,
    phase: Phase,
}

/// Handle that stops a mount, from any thread.
#[derive(Clone)]
pub struct Stopper(Sender<Event>);

impl Stopper {
    /// Stops the mount: it ends when all files are closed, or after some seconds. A second call ends it at
    /// once.
    pub fn stop(&self) {
        // Fails only after the mount has ended.
        let _ = self.0.send(Event::Stop);
    }
}

impl Mount {
    /// Mounts `volume` on `dir`. On return the mount works. A volume that is open for reading makes a mount
    /// for reading.
    ///
    /// The program may go on using a volume that it has in an [`Arc`], or takes from
    /// [`volume`](Self::volume): programs that use the mount see its changes at once.
    ///
    /// # Errors
    /// [`Error::Option`]: the volume is mounted already.
    /// [`Error::Directory`]: `dir` cannot serve as a mount point. [`Error::Option`]: the number of threads is
    /// impossible. [`Error::Host`], [`Error::Helper`]: the host refuses.
    pub fn start(volume: impl Into<Arc<Volume>>, dir: &Path, options: &Options) -> Result<Mount> {
        let volume = volume.into();
        let threads = options.thread_count()?;
        let options = &Options { read_only: options.read_only || volume.is_read_only(), ..options.clone() };
        let dir = directory(dir)?;
        let served = Arc::new(Served::new(volume, &choices(options)));
        let state = Arc::new(MountState::new(Arc::clone(&served)));
        let wants_rings = options.transport == Transport::Uring;
        if wants_rings {
            uring::check().map_err(|error| Error::io("transport=uring: making a ring", &error))?;
            uring::make_room()?;
        }
        let connection = kernel::mount(&dir, options)?;
        let wishes = Wishes { opens: options.access_times == AccessTimes::Always, rings: wants_rings };
        let (sender, events) = channel();
        let failed = sender.clone();
        // Fails only after the mount has ended.
        let on_failure: OnFailure = Arc::new(move || _ = failed.send(Event::Failed));
        let begun = begin(&served, &state, &connection, (threads, wishes), &on_failure);
        let begun = begun.inspect_err(|_| {
            let _ = kernel::unmount(&dir, UnmountMode::Lazy);
            // A thread that ends later must not keep the volume.
            drop(served.end());
        })?;
        let mut mount = Mount {
            served,
            dir,
            sender,
            events: Mutex::new(events),
            state,
            commands: None,
            watch: None,
            stop_timeout: STOP_TIMEOUT,
            phase: Phase::Serving,
        };
        // A thread that ends later must not keep the volume, which may be somebody else's.
        mount.serve(connection, begun).inspect_err(|_| drop(mount.served.end()))?;
        if let Ok(stat) = rustix::fs::stat(&mount.dir) {
            kernel::raise_readahead(stat.st_dev);
            mount.state.set_mount_point(MountPoint { dir: mount.dir.clone(), device: stat.st_dev });
            mount.show_mark(mount.state.entry().as_ref().map(ending::mark_of));
            mount.watch = StateWatch::start(&mount.state)
                .inspect_err(|error| log::warn!("changes by a remount are adopted late: {error}"))
                .ok();
        }
        Ok(mount)
    }

    /// Starts the threads that serve the kernel, and tries the mount.
    fn serve(&self, connection: OwnedFd, begun: Begun) -> Result<()> {
        let Begun { service, notifications, further } = begun;
        let ended = self.sender.clone();
        let serve = move || {
            let event = match device::serve(&service, connection, further) {
                Ok(()) => Event::Disconnected,
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => Event::Aborted,
                Err(error) => {
                    log::error!("the connection to the kernel failed: {error}");
                    Event::Disconnected
                }
            };
            let _ = ended.send(event);
        };
        std::thread::Builder::new()
            .name("lanefs-mount".to_owned())
            .spawn(serve)
            .map_err(|error| Error::io("starting a thread", &error))?;
        self.served.observe(Arc::new(KernelCache(notifications)))?;
        rustix::fs::statfs(&self.dir)
            .map(drop)
            .map_err(|errno| Error::host(format!("trying the mount at {}", escape_path(&self.dir)), errno))
    }

    /// Opens the mount's socket and lets `service` execute its commands.
    ///
    /// # Errors
    /// The host's: no socket, or no thread.
    pub fn serve_commands(&mut self, service: Arc<dyn Executor>) -> Result<()> {
        let failed = |error: std::io::Error| Error::io("the socket for commands", &error);
        if self.commands.is_none() {
            let state = Arc::clone(&self.state);
            // A command that begins after a remount meets the state after it.
            let prepare = Box::new(move || state.adopt());
            let socket = CommandSocket::start(Arc::clone(&self.served), service, prepare);
            self.commands = Some(socket.map_err(failed)?);
        }
        Ok(())
    }

    /// Has a trace learn of the files that programs read. Only the first call counts.
    pub fn record(&self, trace: Arc<Trace>) {
        self.served.record(trace);
    }

    /// Returns the volume, of a mount of versions the current one, for use beside the mount. At the end of
    /// the mount such a volume stays open.
    ///
    /// # Errors
    /// [`Error::Move`]: the mount has ended.
    pub fn volume(&self) -> Result<Arc<Volume>> {
        self.served.volume().map_err(|_| Error::ENDED)
    }

    /// Returns a handle that moves the mount to other versions of the volume.
    pub fn mover(&self) -> Mover {
        Mover::new(&self.served)
    }

    /// Returns the number of versions that the mount serves: the current one, and older ones of which files
    /// are in use or in the kernel's caches.
    pub fn versions(&self) -> usize {
        self.served.version_count()
    }

    /// Sets the time for which a stopped mount waits for processes with open files; by default 5 seconds.
    pub fn set_stop_timeout(&mut self, timeout: Duration) {
        self.stop_timeout = timeout;
    }

    /// Returns the mount point, an absolute path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the counters of requests.
    pub fn statistics(&self) -> &Statistics {
        self.served.statistics()
    }

    /// Returns a handle that stops the mount.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.sender.clone())
    }

    /// Serves until the mount ends, and closes the volume, which makes everything durable. A volume that the
    /// program has, too, is synced and stays open.
    ///
    /// # Errors
    /// The volume's: changes since the last sync may be lost.
    pub fn wait(mut self) -> Result<Ended> {
        let ended = self.wait_for_end();
        // No more commands: this cancels those that execute, and waits for them.
        self.commands = None;
        self.watch = None;
        self.advance(Phase::Ended);
        // Waits for requests in progress; later ones fail.
        let volumes = self.served.end();
        debug_assert!(!volumes.is_empty(), "the volume is taken out once");
        self.advance(Phase::Closed);
        volumes.into_iter().try_for_each(|volume| {
            match Arc::try_unwrap(volume) {
                Ok(volume) => volume.close(),
                Err(volume) => {
                    // It goes on without a mount.
                    volume.show_mark(None);
                    if volume.is_read_only() { Ok(()) } else { volume.sync() }
                }
            }
        })?;
        Ok(ended)
    }

    /// Stops the mount, as [`Stopper::stop`] does, and waits for its end.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn stop(self) -> Result<Ended> {
        self.stopper().stop();
        self.wait()
    }

    /// Shows which mount this is, to processes that find the image in use.
    fn show_mark(&self, mark: Option<u64>) {
        if let Ok(volume) = self.served.volume() {
            volume.show_mark(mark);
        }
    }

    fn advance(&mut self, phase: Phase) {
        debug_assert!(self.phase < phase, "a mount in phase {:?} cannot enter {phase:?}", self.phase);
        debug_assert!(phase < Phase::Ended || self.commands.is_none(), "commands end before the mount");
        self.phase = phase;
    }

    fn wait_for_end(&mut self) -> Ended {
        let event = self.events.lock().recv();
        let has_failed = match event {
            Ok(Event::Stop) => false,
            Ok(Event::Failed) => true,
            Ok(Event::Aborted) => return Ended::Aborted,
            Ok(Event::Disconnected) | Err(_) => {
                return if self.is_dead() { Ended::Aborted } else { Ended::Unmounted };
            }
        };
        self.advance(Phase::Leaving);
        self.leave();
        let event = self.events.lock().recv_timeout(self.stop_timeout);
        match event {
            _ if has_failed => Ended::Aborted,
            Ok(Event::Disconnected) => Ended::Stopped,
            Ok(Event::Aborted | Event::Failed) => Ended::Aborted,
            Ok(Event::Stop) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                log::warn!("{}: files are still open; their further use fails", escape_path(&self.dir));
                Ended::CutOff
            }
        }
    }

    /// True where the mount is there, and nobody serves it. Its number may be that of another mount by now,
    /// which is served.
    fn is_dead(&self) -> bool {
        let dirs = self.state.mounted_on();
        dirs.iter().any(|dir| rustix::fs::statfs(dir).err() == Some(Errno::NOTCONN))
    }

    /// Unmounts all directories on which the volume is mounted.
    fn leave(&self) {
        let dirs = self.state.mounted_on();
        match dirs.is_empty() {
            true => leave_dir(&self.dir),
            false => dirs.iter().for_each(|dir| leave_dir(dir)),
        }
    }
}

/// The parts of a mount that is about to serve.
struct Begun {
    /// The service of requests.
    service: Arc<RequestService>,
    /// The connection for notifications.
    notifications: OwnedFd,
    /// The connections of all threads but the first one.
    further: Vec<OwnedFd>,
}

/// Agrees with the kernel, takes all connections, and starts the threads of all rings where the mount is to
/// have them. The host refuses no connection after this: a mount that has begun is served.
///
/// # Errors
/// [`Error::Option`]: the kernel does not use rings. [`Error::Host`].
fn begin(
    served: &Arc<Served>,
    state: &Arc<MountState>,
    connection: &OwnedFd,
    (threads, wishes): (usize, Wishes),
    on_failure: &OnFailure,
) -> Result<Begun> {
    let failed = |what: &'static str| move |error: std::io::Error| Error::io(what, &error);
    let notifications = connection.try_clone().map_err(failed("the connection"))?;
    let agreement = device::agree(connection.as_fd(), wishes)
        .map_err(failed("initialising the connection to the kernel"))?;
    let further =
        device::further_connections(connection.as_fd(), threads).map_err(failed("the connection"))?;
    let (served, state) = (Arc::clone(served), Arc::clone(state));
    let service = Arc::new(RequestService {
        served,
        state,
        no_open: agreement.no_open,
        says_kills: agreement.says_kills,
        has_long_setxattr: agreement.has_long_setxattr,
    });
    if wishes.rings && !agreement.rings {
        return Err(Error::Option(NO_RINGS.to_owned()));
    }
    if wishes.rings {
        uring::start(&service, connection, on_failure)
            .map_err(failed("transport=uring: starting the queues"))?;
    }
    Ok(Begun { service, notifications, further })
}

/// The choices for the service of a mount.
fn choices(options: &Options) -> ServeOptions {
    ServeOptions {
        access_times: options.access_times,
        directory_access_times: options.directory_access_times,
        takes_commands: !options.no_commands,
    }
}

/// Unmounts a directory. If it is in use, first writes the changes of shared mappings, then detaches it.
fn leave_dir(dir: &Path) {
    if kernel::unmount(dir, UnmountMode::Normal) != Err(Errno::BUSY) {
        return;
    }
    log::warn!("{}: in use by {}", escape_path(dir), processes::inside(dir));
    if let Ok(top) = rustix::fs::open(dir, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
        let _ = rustix::fs::syncfs(&top);
    }
    if let Err(errno) = kernel::unmount(dir, UnmountMode::Lazy) {
        log::error!("{}: cannot be unmounted: {errno}", escape_path(dir));
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.phase < Phase::Ended {
            // The program may go on using the volume.
            self.show_mark(None);
            let _ = kernel::unmount(&self.dir, UnmountMode::Lazy);
        }
    }
}

/// Returns the absolute path of a directory that can serve as a mount point.
///
/// # Errors
/// [`Error::Directory`]: `dir` is not a directory, or a mount whose server has ended or does not reply, or a
/// mount of another user, whose server is not asked. The host's.
pub fn directory(dir: &Path) -> Result<PathBuf> {
    check_mount(dir)?;
    let absolute = std::fs::canonicalize(dir)
        .and_then(|absolute| std::fs::metadata(&absolute).map(|meta| (absolute, meta)));
    match absolute {
        Ok((absolute, meta)) if meta.is_dir() => Ok(absolute),
        Ok(_) => Err(Error::directory(dir, "not a directory")),
        Err(error) => Err(Error::io(escape_path(dir), &error)),
    }
}

/// Checks that a mount on `dir`, where there is one, can be looked at.
fn check_mount(dir: &Path) -> Result<()> {
    let Ok(entry) = table::lanefs_on(dir) else { return Ok(()) };
    if !entry.is_own() {
        let why =
            format!("another user ({}) has mounted a volume there; unmount it first", entry.owner_text());
        return Err(Error::directory(dir, why));
    }
    let handle = MountHandle::open(&entry).ok_or_else(|| find::changed(&entry))?;
    match find::ask(&entry, &handle, |mount| rustix::fs::statfs(mount).err())? {
        Some(Errno::NOTCONN) => {
            let why = "a mount whose server has ended is still there; remove it with `lanefs umount`, then mount again";
            Err(Error::directory(dir, why))
        }
        _ => Ok(()),
    }
}
