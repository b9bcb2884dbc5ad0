//! `lanefs mount`.

use crate::exit::Failure;
use crate::image::{self, Image};
use crate::mounting::{self, Request};
use clap::Args;
use lanefs_fuse::Options;
use std::path::PathBuf;

/// Mount a volume on a directory, for all programs to use
///
/// The volume is served by a process in the background, which ends when it is unmounted: with `lanefs umount`, umount(8), or a
/// signal to that process. Root may mount anywhere, and what root mounts is for everybody, as far as permissions inside the volume
/// allow. Users need fusermount3 (package fuse3). IMAGE may be mem:SIZE: a volume in memory, gone when it is unmounted.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs mount v.lane /mnt
  lanefs mount v.lane /mnt -o ro,noatime
  lanefs mount mem:1G ~/scratch
  lanefs umount /mnt

In /etc/fstab, once /sbin/mount.fuse.lanefs is a link to this program:
  /var/v.lane  /mnt  fuse.lanefs  defaults,nofail  0  0")]
pub struct Mount {
    /// The volume: a file, a raw device, or mem:SIZE for a fresh one in memory
    #[arg(value_name = "IMAGE", value_parser = image::parser())]
    image: Image,
    /// The directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Serve from this process, which then ends with the mount; messages go to standard error
    #[arg(long, short)]
    foreground: bool,
    /// Let nothing be changed; several may mount one image so
    #[arg(long, short)]
    read_only: bool,
    /// Let other users in, where a user mounts (root's mounts are for everybody)
    #[arg(long)]
    allow_other: bool,
    /// Options as in /etc/fstab: ro, noatime, allow_other, nodev, nosuid, noexec, threads=N, log=FILE, cache=SIZE
    #[arg(short = 'o', value_name = "OPTIONS", action = clap::ArgAction::Append)]
    options: Vec<String>,
    /// Threads that answer (without it, twice as many as there are processors)
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Where messages go once it works: a file, or syslog
    #[arg(long, value_name = "FILE")]
    log: Option<String>,
    /// Say nothing on success
    #[arg(long, short)]
    quiet: bool,
    /// This is the process in the background
    #[arg(long, hide = true)]
    background: bool,
}

impl Mount {
    /// Mounts, and serves where that is this process's task.
    ///
    /// # Errors
    /// Where the options make no sense, the image cannot be opened, or the host does not let it be mounted.
    pub fn run(&self) -> Result<u8, Failure> {
        let mut options = Options::default();
        for list in &self.options {
            options.apply(list).map_err(|error| mounting::failure(&self.image, &error))?;
        }
        options.read_only |= self.read_only;
        options.allow_other |= self.allow_other;
        if let Some(threads) = self.threads {
            options
                .apply(&format!("threads={threads}"))
                .map_err(|error| mounting::failure(&self.image, &error))?;
        }
        options.log = self.log.clone().or(options.log);
        let request =
            Request { image: self.image.clone(), dir: self.dir.clone(), options, quiet: self.quiet };
        match (self.background, self.foreground) {
            (true, _) => request.serve(true),
            (false, true) => request.serve(false),
            (false, false) => request.start(),
        }
    }
}
