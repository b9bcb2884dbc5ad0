//! `lanefs mount`.

mod follow;
mod server;
mod trace_file;

pub use server::{CommandLineRunner, MountRequest};

use crate::session::image::{self, Image};
use crate::session::mount_options::MountOptions;
use crate::session::mounted::image_mount_failure;
use crate::session::publication::StoreArgs;
use crate::terminal::exit;
use crate::terminal::failure::Failure;
use clap::Args;
use lanefs_fuse::{Options, remount};
use std::path::PathBuf;

/// Mount a volume on a directory, for all programs to use
///
/// A background process serves the volume. It ends when the volume is unmounted: with `lanefs umount`,
/// umount(8), or a signal to that process. Root may mount anywhere, and root's mounts are open to all users
/// as far as permissions inside the volume allow. Other users need fusermount3 (package fuse3). IMAGE may be
/// mem:SIZE: a volume in memory, gone when it is unmounted. A volume that is mounted already gets a second
/// directory (root only): a bind of the first mount, with the same server.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs mount v.lane /mnt
  lanefs mount v.lane /mnt -o ro,noatime
  lanefs mount -o remount,ro v.lane /mnt
  lanefs mount mem:1G ~/scratch
  lanefs mount --follow s3://bucket/data#latest /mnt
  lanefs umount /mnt

In /etc/fstab, once /sbin/mount.fuse.lanefs is a link to this program:
  /var/v.lane  /mnt  fuse.lanefs  defaults,nofail  0  0")]
pub struct Mount {
    #[arg(value_name = "IMAGE", value_parser = image::parser(), help = image::HELP)]
    image: Image,
    /// Directory to mount on
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Serve from this process, which ends with the mount; messages go to standard error
    #[arg(long, short)]
    foreground: bool,
    /// Refuse changes; several processes may mount one image this way
    #[arg(long, short)]
    read_only: bool,
    /// Let other users access a mount of a user (root's mounts are open to all users)
    #[arg(long)]
    allow_other: bool,
    /// Options as in /etc/fstab: ro, noatime, nodiratime, strictatime, allow_other, nocommands, nodev,
    /// nosuid, noexec, threads=N, transport=dev|uring, log=FILE, cache=SIZE, follow=SECONDS, cache-dir=DIR,
    /// cache-size=SIZE, no-cache, endpoint=URL, record=FILE; with remount, those of a mount that exists
    /// change
    #[arg(short = 'o', value_name = "OPTIONS", action = clap::ArgAction::Append)]
    options: Vec<String>,
    /// Move to each new version of the publication's tag: ask for it every so many seconds [default: 30].
    /// Files that are open stay as they are
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    follow: Option<String>,
    /// Write the path of each file that is read to the new file FILE, one a line, in the order of their first
    /// reading: a trace for `lanefs warm`
    #[arg(long, value_name = "FILE")]
    record: Option<String>,
    /// Threads that serve requests [default: two per CPU]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Where messages go once the mount works: a file, or syslog
    #[arg(long, value_name = "FILE")]
    log: Option<String>,
    /// Print nothing on success
    #[arg(long, short)]
    quiet: bool,
    /// This is the background process
    #[arg(long, hide = true)]
    background: bool,
}

impl Mount {
    /// Mounts the volume, and serves it if that is this process's task. `runner` executes commands of
    /// clients.
    ///
    /// # Errors
    /// The options are wrong, the image cannot be opened, or the host refuses the mount.
    pub fn execute(&self, runner: CommandLineRunner) -> Result<u8, Failure> {
        let failure = |error| image_mount_failure(&self.image, &error);
        let mut options = MountOptions::default();
        self.apply(&mut options).map_err(failure)?;
        if options.remount {
            let change = |mount: &mut Options| MountOptions::change(mount, |all| self.apply(all));
            remount::remount(&self.dir, change).map_err(failure)?;
            return Ok(exit::OK);
        }
        StoreArgs::add_of_mount(&options)?;
        let request =
            MountRequest { image: self.image.clone(), dir: self.dir.clone(), options, quiet: self.quiet };
        match (self.background, self.foreground) {
            (true, _) => request.serve(true, runner),
            (false, true) => request.serve(false, runner),
            (false, false) => request.start(),
        }
    }

    /// Applies the options of the command line.
    fn apply(&self, options: &mut MountOptions) -> lanefs_fuse::Result<()> {
        for list in &self.options {
            options.apply(list)?;
        }
        options.mount.read_only |= self.read_only;
        options.mount.allow_other |= self.allow_other;
        if let Some(threads) = self.threads {
            options.apply(&format!("threads={threads}"))?;
        }
        match self.follow.as_deref() {
            None => {}
            Some("") => options.apply("follow")?,
            Some(seconds) => options.apply(&format!("follow={seconds}"))?,
        }
        options.log = self.log.clone().or(options.log.take());
        options.record = self.record.clone().or(options.record.take());
        Ok(())
    }
}
