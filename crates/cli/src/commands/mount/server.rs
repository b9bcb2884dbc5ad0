//! Starting and serving a mount.

use super::follow;
use super::trace_file::TraceFile;
use crate::session::image::{self, Image};
use crate::session::metrics;
use crate::session::mount_options::MountOptions;
use crate::session::mounted::{image_mount_failure, mount_failure};
use crate::session::publication::{self, Reading, Tell};
use crate::terminal::failure::Failure;
use crate::terminal::{console, ending, exit, interrupt};
use crate::text::escape::escape;
use crate::text::{bytes, size};
use lanefs::{Access, Caller, SetAttr, Volume};
use lanefs_fuse::daemon::{self, Started};
use lanefs_fuse::logging::{self, Destination};
use lanefs_fuse::{CommandRequest, Ended, Mount, Service, Statistics, Stopper, remount};
use lanefs_transfer::by_descriptor::FilePlace;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Executes a client's command line on a mounted volume and returns the exit code. The command tree passes it
/// down.
pub type CommandLineRunner = fn(&Image, &Volume, &[OsString]) -> u8;

/// A volume to mount on a directory.
pub struct MountRequest {
    /// The volume.
    pub image: Image,
    /// The directory.
    pub dir: PathBuf,
    /// Options of the mount.
    pub options: MountOptions,
    /// Prints nothing on success.
    pub quiet: bool,
}

impl MountRequest {
    /// Starts a process that serves the mount, and returns when the mount works.
    ///
    /// # Errors
    /// The process cannot be started. It prints its own errors; the exit code says so.
    pub fn start(&self) -> Result<u8, Failure> {
        follow::check(&self.options, &self.image)?;
        if self.bind()? {
            return Ok(exit::OK);
        }
        // Here and not in the process that opens it: a signal to this one ends the wait, and starts nothing.
        if let Image::Path(path) = &self.image
            && !ending::await_end(path)
        {
            let what = "in use by the server of a mount that was unmounted, which has not ended";
            return Err(Failure::new(exit::IMAGE, self.image.name(), what, "end that process"));
        }
        let image = match &self.image {
            Image::Memory(bytes) => OsString::from(format!("mem:{bytes}")),
            Image::Path(path) => path.clone().into(),
            Image::Publication(location) => OsString::from(location.to_string()),
        };
        let mut options = self.options.clone();
        options.cache = options.cache.or_else(|| image::cache().map(|bytes| bytes.to_string()));
        let arguments = ["mount", "--background", "-o", &options.list(), "--"].map(OsString::from);
        let table =
            image::directory_table().map(|bytes| OsString::from(format!("--directory-table={bytes}")));
        let arguments = table
            .into_iter()
            .chain(publication::arguments())
            .chain(arguments)
            .chain([image, self.dir.clone().into()]);
        let started = daemon::start(arguments);
        match started.map_err(|error| Failure::host(Path::new("starting a process"), &error))? {
            Started::Failed(code) => Ok(code),
            Started::Ready(process) => {
                if !self.quiet {
                    let (image, dir) = (escape(&self.image.name()), escape(bytes::of_path(&self.dir)));
                    writeln!(std::io::stdout(), "{image}: mounted on {dir} (process {process})")?;
                }
                Ok(exit::OK)
            }
        }
    }

    /// Mounts a volume that is mounted already on this directory, too. False where it is not mounted.
    fn bind(&self) -> Result<bool, Failure> {
        let Image::Path(path) = &self.image else { return Ok(false) };
        let bound = remount::bind(path, &self.dir, &self.options.mount);
        let Some(first) = bound.map_err(|error| mount_failure(&error))? else { return Ok(false) };
        if !self.quiet {
            let (image, dir) = (escape(&self.image.name()), escape(bytes::of_path(&self.dir)));
            let first = escape(bytes::of_path(&first));
            writeln!(std::io::stdout(), "{image}: mounted on {dir}, by the process of the mount on {first}")?;
        }
        Ok(true)
    }

    /// Mounts the volume and serves it until it is unmounted. `runner` executes commands of clients.
    ///
    /// # Errors
    /// The image cannot be opened, mounted or closed.
    pub fn serve(&self, background: bool, runner: CommandLineRunner) -> Result<u8, Failure> {
        let file = self.start_log()?;
        let stopper = stop_on_signals();
        let mount = self.mount(runner)?;
        let _ = stopper.set(mount.stopper());
        abort_on_panic();
        let name = escape(&self.image.name());
        if background {
            daemon::detach(file.as_ref())
                .map_err(|error| Failure::host(Path::new("leaving the terminal"), &error))?;
        }
        log::info!("{name}: mounted on {}", mount.dir().display());
        match mount.wait() {
            Ok(Ended::Aborted) => {
                let remedy = "its use fails until `lanefs umount` removes it; all that was written is kept";
                log::error!("{name}: the connection of the mount to the kernel was aborted; {remedy}");
                return Ok(exit::HOST);
            }
            Ok(Ended::CutOff) => log::warn!("{name}: closed, with files still open"),
            Ok(Ended::Unmounted | Ended::Stopped) => log::info!("{name}: unmounted and closed"),
            Err(error) => {
                // In the foreground the log goes to standard error, so the message is not printed again.
                log::error!("{name}: {error}");
                return Ok(image_mount_failure(&self.image, &error).exit());
            }
        }
        Ok(exit::OK)
    }

    /// Sends messages to the log that the options name. Returns its file.
    fn start_log(&self) -> Result<Option<File>, Failure> {
        let log = self.options.log.as_deref().unwrap_or("standard error");
        let failed = |error: std::io::Error| Failure::host(Path::new(log), &error);
        let (destination, file) = match self.options.log.as_deref() {
            None => (Destination::Stderr, None),
            Some("syslog") => (Destination::Syslog, None),
            Some(path) => {
                let file = open_log(Path::new(path))?;
                (Destination::File(file.try_clone().map_err(failed)?), Some(file))
            }
        };
        logging::start(destination).map_err(failed)?;
        Ok(file)
    }

    fn mount(&self, runner: CommandLineRunner) -> Result<Mount, Failure> {
        let options = &self.options;
        let mut mount_options = options.mount.clone();
        mount_options.read_only |= self.image.is_publication();
        if let Some(cache) = &options.cache {
            let bytes = size::parse_size(cache).map_err(|why| Failure::usage("cache", &why, ""))?;
            image::set_cache(bytes);
        }
        mount_options.source = self.source();
        follow::check(options, &self.image)?;
        // The directory is checked first: opening the image takes longer.
        lanefs_fuse::directory(&self.dir).map_err(|error| mount_failure(&error))?;
        let (volume, reading) = self.open(mount_options.read_only)?;
        let trace = self.options.record.as_deref().map(|file| TraceFile::create(Path::new(file)));
        let trace = trace.transpose()?;
        let mut mount = Mount::start(volume, &self.dir, &mount_options)
            .map_err(|error| image_mount_failure(&self.image, &error))?;
        if let Some(trace) = &trace {
            mount.record(trace.begin()?);
        }
        if let (Some(seconds), Some(reading)) = (options.follow, &reading) {
            follow::start(&mut mount, Arc::clone(reading), Duration::from_secs(seconds.into()))?;
        }
        let service = MountService { image: self.image.clone(), runner, reading };
        if let Err(error) = mount.serve_commands(Arc::new(service)) {
            log::warn!("commands on the mounted volume are not possible: {error}");
        }
        trace.into_iter().for_each(TraceFile::keep);
        Ok(mount)
    }

    /// The source that the mount table shows.
    fn source(&self) -> PathBuf {
        match &self.image {
            Image::Memory(_) => PathBuf::from(String::from_utf8_lossy(&self.image.name()).into_owned()),
            Image::Path(path) => std::fs::canonicalize(path).unwrap_or_else(|_| path.clone()),
            Image::Publication(location) => location.to_string().into(),
        }
    }

    fn open(&self, read_only: bool) -> Result<(Volume, Option<Arc<Reading>>), Failure> {
        let access = if read_only { Access::Read } else { Access::Write };
        let (volume, reading) = self.image.open_telling(access, Tell::Log)?;
        self.image.warn_of_damage(&volume);
        if let Image::Memory(_) = self.image {
            // The user who mounts a fresh volume owns its root.
            let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
            let set = SetAttr { uid: Some(uid), gid: Some(gid), ..SetAttr::default() };
            let owned = volume.setattr(&Caller::OWNER, volume.root(), &set);
            owned.map_err(|error| self.image.failure(&error))?;
        }
        Ok((volume, reading))
    }
}

/// Opens a file to which messages are appended, or makes it.
fn open_log(path: &Path) -> Result<File, Failure> {
    let failed = |errno: Errno| Failure::host(path, &errno.into());
    let place = FilePlace::find(path).map_err(failed)?;
    match place.kind() {
        None | Some(FileType::RegularFile | FileType::CharacterDevice) => {
            place.append(0o666).map(File::from).map_err(failed)
        }
        Some(FileType::Directory) => Err(failed(Errno::ISDIR)),
        // A server must not wait for the reader of a pipe.
        Some(_) => {
            let what = "is a pipe, a socket or a block device";
            Err(Failure::usage(bytes::of_path(path), what, "name a file, or syslog"))
        }
    }
}

/// Has SIGINT and SIGTERM stop the mount, once there is one.
fn stop_on_signals() -> Arc<OnceLock<Stopper>> {
    let stopper = Arc::new(OnceLock::<Stopper>::new());
    let mount = Arc::clone(&stopper);
    interrupt::install_instead(move || match mount.get() {
        Some(stopper) => stopper.stop(),
        // Nothing is mounted yet.
        None => std::process::exit(i32::from(exit::INTERRUPTED)),
    });
    stopper
}

/// Aborts the process if a thread panics. Its requests would otherwise stay without a reply for ever. To the
/// volume an abort is a crash, which it survives; users see that the server ended.
fn abort_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        log::error!("aborted because of a bug: {panic}");
        std::process::abort();
    }));
}

/// Executes the commands of clients.
struct MountService {
    image: Image,
    runner: CommandLineRunner,
    /// Counts of the store of a publication.
    reading: Option<Arc<Reading>>,
}

impl Service for MountService {
    fn execute(&self, volume: &Volume, request: CommandRequest) -> u8 {
        let CommandRequest { arguments, streams } = request;
        console::as_client(streams, || (self.runner)(&self.image, volume, &arguments))
    }

    fn statistics(&self, volume: &Volume, counters: &Statistics, versions: usize) -> String {
        metrics::text(volume, counters, versions, self.reading.as_deref().map(Reading::counts))
    }
}
