//! Mounting: in the background or here, and on behalf of mount(8).

use crate::console::{self, Streams};
use crate::escape::escape;
use crate::exit::{self, Failure};
use crate::image::Image;
use crate::{context, image, interrupt, metrics, size};
use clap::Parser;
use lanefs::{Access, Caller, SetAttr, Volume};
use lanefs_fuse::daemon::{self, Started};
use lanefs_fuse::{
    CommandRequest, Ended, Error, Mount, Options, Service, Statistics, Stopper, client, logging, processes,
    unmount,
};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// What to mount where.
pub struct Request {
    /// The volume.
    pub image: Image,
    /// The directory.
    pub dir: PathBuf,
    /// How.
    pub options: Options,
    /// Nothing is said on success.
    pub quiet: bool,
}

/// A failure to mount or unmount, where no image is involved.
pub fn plain_failure(error: &Error) -> Failure {
    let exit = match error {
        Error::Option(_) => exit::USAGE,
        Error::Directory { .. } | Error::Busy { .. } => exit::PARTIAL,
        Error::Volume(_) => exit::IMAGE,
        Error::Host { .. } | Error::Helper(_) => exit::HOST,
    };
    Failure::Message { exit, text: escape(error.to_string().as_bytes()), ends: true }
}

/// A failure to mount this image.
pub fn failure(image: &Image, error: &Error) -> Failure {
    match error {
        Error::Volume(error) => image.failure(error),
        other => plain_failure(other),
    }
}

impl Request {
    /// Starts a process that serves, and returns when it works.
    ///
    /// # Errors
    /// Where there can be no such process; its own errors it tells itself, and the exit code says so.
    pub fn start(&self) -> Result<u8, Failure> {
        let image = match &self.image {
            Image::Memory(bytes) => OsString::from(format!("mem:{bytes}")),
            Image::Path(path) => path.clone().into(),
        };
        let mut options = self.options.clone();
        options.cache = options.cache.or_else(|| image::cache().map(|bytes| bytes.to_string()));
        let arguments = ["mount", "--background", "-o", &options.list(), "--"].map(OsString::from);
        let arguments = arguments.into_iter().chain([image, self.dir.clone().into()]);
        let started = daemon::start(arguments);
        match started.map_err(|error| Failure::host(Path::new("starting a process"), &error))? {
            Started::Failed(code) => Ok(code),
            Started::Ready(process) => {
                if !self.quiet {
                    let (image, dir) = (
                        context::shown(&self.image.name()),
                        context::shown(crate::bytes::of_path(&self.dir)),
                    );
                    writeln!(std::io::stdout(), "{image}: mounted on {dir} (process {process})")?;
                }
                Ok(exit::OK)
            }
        }
    }

    /// Mounts and serves until it is unmounted.
    ///
    /// # Errors
    /// Where the image cannot be opened or mounted, and where it could not be closed.
    pub fn serve(&self, background: bool) -> Result<u8, Failure> {
        let log = self.options.log.as_deref();
        let file = logging::start(log)
            .map_err(|error| Failure::host(Path::new(log.unwrap_or("standard error")), &error))?;
        let mut options = self.options.clone();
        if let Some(cache) = &options.cache {
            let bytes = size::parse_size(cache).map_err(|why| Failure::usage("cache", &why, ""))?;
            image::set_cache(bytes);
        }
        options.source = self.source();
        let stopper = Arc::new(OnceLock::<Stopper>::new());
        let told = Arc::clone(&stopper);
        interrupt::install_instead(move || match told.get() {
            Some(stopper) => stopper.stop(),
            // Nothing is mounted yet.
            None => std::process::exit(i32::from(exit::INTERRUPTED)),
        });
        // First what is soon told.
        lanefs_fuse::directory(&self.dir).map_err(|error| plain_failure(&error))?;
        let volume = self.open()?;
        let mut mount =
            Mount::start(volume, &self.dir, &options).map_err(|error| failure(&self.image, &error))?;
        if let Err(error) = mount.serve_commands(Arc::new(Commands(self.image.clone()))) {
            log::warn!("no commands beside the mount: {error}");
        }
        let _ = stopper.set(mount.stopper());
        end_with_a_thread();
        let name = context::shown(&self.image.name());
        if background {
            daemon::detach(file.as_ref())
                .map_err(|error| Failure::host(Path::new("leaving the terminal"), &error))?;
        }
        log::info!("{name}: mounted on {}", mount.dir().display());
        match mount.wait() {
            Ok(Ended::CutOff) => log::warn!("{name}: closed, with files still open"),
            Ok(Ended::Unmounted | Ended::Stopped) => log::info!("{name}: unmounted and closed"),
            Err(error) => {
                log::error!("{name}: {error}");
                // In the foreground the log is where errors go.
                return Ok(failure(&self.image, &error).exit());
            }
        }
        Ok(exit::OK)
    }

    /// What the table of mounts shows.
    fn source(&self) -> PathBuf {
        match &self.image {
            Image::Memory(_) => PathBuf::from(String::from_utf8_lossy(&self.image.name()).into_owned()),
            Image::Path(path) => std::fs::canonicalize(path).unwrap_or_else(|_| path.clone()),
        }
    }

    fn open(&self) -> Result<Volume, Failure> {
        let access = if self.options.read_only { Access::Read } else { Access::Write };
        let volume = self.image.open(access).map_err(|failure| self.say_who(failure))?;
        if let Image::Memory(_) = self.image {
            // Whoever mounts it shall be able to use it.
            let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
            let set = SetAttr { uid: Some(uid), gid: Some(gid), ..SetAttr::default() };
            volume
                .setattr(&Caller::OWNER, volume.root(), &set)
                .map_err(|error| self.image.failure(&error))?;
        }
        Ok(volume)
    }

    /// Names who has the image, where somebody has.
    fn say_who(&self, failure: Failure) -> Failure {
        let Image::Path(path) = &self.image else { return failure };
        let who = processes::of_image(path);
        match failure {
            Failure::Message { exit: exit::IMAGE, text, ends } if !who.is_empty() => {
                let who = escape(who.to_string().as_bytes());
                Failure::Message { exit: exit::IMAGE, text: format!("{text}: {who}"), ends }
            }
            other => other,
        }
    }
}

/// Runs the commands of clients.
struct Commands(Image);

impl Service for Commands {
    fn execute(&self, volume: &Volume, request: CommandRequest) -> u8 {
        let CommandRequest { arguments, input, output, errors, cancelled: gone } = request;
        let streams = Arc::new(Streams { input, output, errors, gone });
        console::for_client(streams, || crate::run::on_mounted(&self.0, volume, &arguments))
    }

    fn statistics(&self, volume: &Volume, counters: &Statistics) -> String {
        metrics::text(volume, counters)
    }
}

/// The failure of a command for which nobody else may have the image.
pub(crate) fn in_use(image: &Image) -> Failure {
    Failure::new(exit::IMAGE, image.name(), "is mounted", "unmount it with `lanefs umount` first")
}

/// True where the image is mounted, or what is named is the directory of a mount.
pub(crate) fn is_mounted(image: &Image) -> bool {
    matches!(image, Image::Path(path) if client::find(path).is_some())
}

/// Has this process's command line done by the process that serves the image, or what is mounted on the directory that was given
/// in place of one. `None` where nothing is mounted.
pub(crate) fn pass_on(image: &Image) -> Option<Result<u8, Failure>> {
    let Image::Path(path) = image else { return None };
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let code = client::find(path)?.execute(&words, &interrupt::raised);
    Some(code.map_err(|error| plain_failure(&error)))
}

/// A thread that panics would leave requests without an answer for ever. Better that all end, as in a crash, which the volume
/// survives and users see.
fn end_with_a_thread() {
    std::panic::set_hook(Box::new(|panic| {
        log::error!("ended by a fault of the program: {panic}");
        std::process::abort();
    }));
}

/// `mount.fuse.lanefs IMAGE DIR [-sfnv] [-o OPTIONS]`, as mount(8) calls it.
#[derive(Debug, Parser)]
#[command(name = "mount.fuse.lanefs")]
struct MountHelper {
    #[arg(value_parser = image::parser())]
    image: Image,
    dir: PathBuf,
    /// Tolerate unknown options
    #[arg(short)]
    sloppy: bool,
    /// Do nothing
    #[arg(short)]
    fake: bool,
    /// Do not write /etc/mtab
    #[arg(short)]
    no_mtab: bool,
    /// Say what is done
    #[arg(short)]
    verbose: bool,
    #[arg(short)]
    options: Vec<String>,
    #[arg(short = 't')]
    of_type: Option<String>,
    #[arg(short = 'N')]
    namespace: Option<String>,
}

/// `umount.fuse.lanefs DIR [-flnrv]`, as umount(8) calls it.
#[derive(Debug, Parser)]
#[command(name = "umount.fuse.lanefs")]
struct UnmountHelper {
    dir: PathBuf,
    /// Also while it is in use
    #[arg(short)]
    lazy: bool,
    #[arg(short)]
    force: bool,
    #[arg(short)]
    no_mtab: bool,
    #[arg(short)]
    read_only: bool,
    #[arg(short)]
    verbose: bool,
    #[arg(short = 't')]
    of_type: Option<String>,
    #[arg(short = 'N')]
    namespace: Option<String>,
}

// What mount(8) and umount(8) expect of helpers.
const HELPER_USAGE: u8 = 1;
const HELPER_FAILED: u8 = 32;

/// The exit code, where this program was called by the name of a helper of mount(8) or umount(8).
pub fn as_helper() -> Option<u8> {
    let called = PathBuf::from(std::env::args_os().next()?);
    let outcome = match called.file_name()?.to_str()? {
        "mount.fuse.lanefs" | "mount.lanefs" => MountHelper::try_parse().map(MountHelper::run),
        "umount.fuse.lanefs" | "umount.lanefs" => UnmountHelper::try_parse().map(UnmountHelper::run),
        _ => return None,
    };
    Some(match outcome.map(crate::run::plain) {
        Ok(exit::OK) => exit::OK,
        Ok(exit::USAGE) => HELPER_USAGE,
        Ok(_) => HELPER_FAILED,
        Err(error) => {
            exit::show_clap(&error);
            if error.use_stderr() { HELPER_USAGE } else { exit::OK }
        }
    })
}

impl MountHelper {
    fn run(self) -> Result<u8, Failure> {
        let mut options = Options::default();
        for option in self.options.iter().flat_map(|list| list.split(',')) {
            match options.apply(option) {
                Err(error) if !self.sloppy => return Err(plain_failure(&error)),
                _ => {}
            }
        }
        if self.fake {
            return Ok(exit::OK);
        }
        Request { image: self.image, dir: self.dir, options, quiet: !self.verbose }.start()
    }
}

impl UnmountHelper {
    fn run(self) -> Result<u8, Failure> {
        interrupt::install();
        let done = match self.lazy || self.force {
            true => unmount::detach(&self.dir),
            false => unmount::unmount(&self.dir, &interrupt::raised),
        };
        done.map(|()| exit::OK).map_err(|error| plain_failure(&error))
    }
}
