//! The program under the names by which mount(8) and umount(8) call their helpers.

use crate::commands::mount::MountRequest;
use crate::session::image::{self, Image};
use crate::session::mount_options::MountOptions;
use crate::session::mounted::{self, mount_failure};
use crate::session::publication::StoreArgs;
use crate::terminal::failure::{Failure, exit_code, print_clap};
use crate::terminal::{exit, interrupt};
use clap::Parser;
use lanefs_fuse::{remount, unmount};
use std::path::{Path, PathBuf};

/// `mount.fuse.lanefs IMAGE DIR [-sfnv] [-o OPTIONS]`, as mount(8) calls it.
#[derive(Debug, Parser)]
#[command(name = "mount.fuse.lanefs")]
struct MountHelper {
    #[arg(value_parser = image::parser())]
    image: Image,
    dir: PathBuf,
    /// Ignore unknown options
    #[arg(short)]
    sloppy: bool,
    /// Check the options and do nothing else
    #[arg(short)]
    fake: bool,
    /// Do not write /etc/mtab
    #[arg(short)]
    no_mtab: bool,
    /// Print a message on success
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
    /// Unmount even if the volume is in use
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

/// Exit code of a helper for wrong usage, as mount(8) defines it.
const HELPER_USAGE: u8 = 1;
/// Exit code of a helper for any other failure, as mount(8) defines it.
const HELPER_FAILED: u8 = 32;

/// Runs the helper, if mount(8) or umount(8) called the program by its name. Returns the exit code.
pub(crate) fn run_if_called() -> Option<u8> {
    let called = PathBuf::from(std::env::args_os().next()?);
    let outcome = match called.file_name()?.to_str()? {
        "mount.fuse.lanefs" | "mount.lanefs" => MountHelper::try_parse().map(MountHelper::mount),
        "umount.fuse.lanefs" | "umount.lanefs" => UnmountHelper::try_parse().map(UnmountHelper::unmount),
        _ => return None,
    };
    Some(match outcome.map(exit_code) {
        Ok(exit::OK) => exit::OK,
        Ok(exit::USAGE) => HELPER_USAGE,
        Ok(_) => HELPER_FAILED,
        Err(error) => {
            print_clap(&error);
            if error.use_stderr() { HELPER_USAGE } else { exit::OK }
        }
    })
}

/// Advice for a user whose mount(8) finds no helper of ours. It calls `mount.fuse` then, which runs the
/// program by its own name.
pub(crate) const MISSING_LINK: &str =
    "mount(8) needs /sbin/mount.fuse.lanefs, a link to this program; or use `lanefs mount`";

/// Returns whether the arguments are those of a helper, `IMAGE DIR -o OPTIONS`, and the program's name is
/// not.
pub(crate) fn is_called_by_another_name() -> bool {
    let words: Vec<_> = std::env::args_os().skip(1).take(3).collect();
    matches!(&words[..], [image, dir, option] if option == "-o"
        && Path::new(image).is_absolute() && Path::new(dir).is_absolute())
}

impl MountHelper {
    fn mount(self) -> Result<u8, Failure> {
        let mut options = MountOptions::default();
        self.apply(&mut options).map_err(|error| mount_failure(&error))?;
        if self.fake {
            return Ok(exit::OK);
        }
        if options.remount {
            let done =
                remount::remount(&self.dir, |mount| MountOptions::change(mount, |all| self.apply(all)));
            return done.map(|()| exit::OK).map_err(|error| mount_failure(&error));
        }
        StoreArgs::add_of_mount(&options)?;
        MountRequest { image: self.image, dir: self.dir, options, quiet: !self.verbose }.start()
    }

    /// Applies the options of the command line.
    fn apply(&self, options: &mut MountOptions) -> lanefs_fuse::Result<()> {
        for option in self.options.iter().flat_map(|list| list.split(',')) {
            match options.apply(option) {
                Err(error) if !self.sloppy => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

impl UnmountHelper {
    fn unmount(self) -> Result<u8, Failure> {
        interrupt::install();
        let unmounted = match self.lazy || self.force {
            true => unmount::detach(&self.dir).map_err(|error| mount_failure(&error)),
            false => mounted::unmount(&self.dir),
        };
        unmounted.map(|()| exit::OK)
    }
}
