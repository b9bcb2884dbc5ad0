//! Engines that make changes: the device, the CPU engine, ext4.

use crate::error::{Error, Result, check};
use crate::measure::stop::Stop;
use crate::measure::values::LANEFS;
use crate::session::Systems;
use crate::systems::lane::Lane;
use crate::systems::peers::{Host, remove_tree};
use crate::systems::system::{Named, System};
use crate::systems::workload::{Strings, chain_path};
use lanefs::bulk::{Applied, Change};
use lanefs::{Code, EngineExt, Ino, ResolveOptions};
use lanefs_gpu::Mirrored;
use rustix::fs::{Mode, OFlags, openat};
use std::cell::Cell;
use std::ffi::CStr;
use std::time::{Duration, Instant};

/// Directory of all changes.
const TOP: &CStr = c"top";

/// Changes in one call.
pub(super) const BATCH_CHANGES: usize = 1 << 16;

const FILE_MODE: u16 = 0o644;
const DIRECTORY_MODE: u16 = 0o755;
const NEW_FILE: OFlags = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::CLOEXEC);

/// One of these.
pub(super) enum Maker<'s, 'v> {
    Gpu(&'s Mirrored<'v>, MakerShared),
    Cpu(&'s Lane),
    Ext4(&'s Host),
}

/// Number of changes that were made in batches, and of all.
#[derive(Default)]
pub(super) struct MakerShared(Cell<(u64, u64)>);

impl Named for Maker<'_, '_> {
    fn name(&self) -> &str {
        match self {
            Maker::Gpu(..) => LANEFS,
            Maker::Cpu(_) => "cpu",
            Maker::Ext4(host) => host.name(),
        }
    }
}

/// Lists all, the device first. The CPU engine has a volume of its own, so that its changes do not reach the
/// mirror.
pub(super) fn makers<'s, 'v>(
    systems: &'s Systems,
    cpu: &'s Lane,
    mirrored: &'s Mirrored<'v>,
) -> Vec<Maker<'s, 'v>> {
    let hosts = systems.hosts.iter().map(Maker::Ext4);
    [Maker::Gpu(mirrored, MakerShared::default()), Maker::Cpu(cpu)].into_iter().chain(hosts).collect()
}

/// Returns the fraction of the changes that a device made together and not one by one.
pub(super) fn share_of_device(makers: &[Maker<'_, '_>]) -> f64 {
    let shares = makers.iter().filter_map(|maker| match maker {
        Maker::Gpu(_, shares) => Some(shares.0.get()),
        _ => None,
    });
    let (together, all) = shares.fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    together as f64 / all.max(1) as f64
}

impl Maker<'_, '_> {
    fn volume(&self) -> Option<&lanefs::Volume> {
        match self {
            Maker::Gpu(mirrored, _) => Some(mirrored.volume()),
            Maker::Cpu(lane) => Some(lane.volume()),
            Maker::Ext4(_) => None,
        }
    }

    /// Makes the empty directory.
    pub(super) fn begin(&self) -> Result<()> {
        if let Maker::Ext4(host) = self {
            host.make_directory(TOP)?;
            return host.settle();
        }
        let Some(volume) = self.volume() else { return Ok(()) };
        let made = volume.mkdir(&lanefs::Caller::OWNER, volume.root(), TOP.to_bytes(), DIRECTORY_MODE);
        made.map_err(Error::volume("the directory"))?;
        self.catch_up()
    }

    /// Removes the directory with its contents, and refreshes the device.
    pub(super) fn clear(&self) -> Result<()> {
        if let Maker::Ext4(host) = self {
            remove_tree(host.root(), TOP).map_err(host.error("removing the files of the last run"))?;
            return host.settle();
        }
        let Some(volume) = self.volume() else { return Ok(()) };
        let removed =
            volume.remove_all_with(&lanefs::Caller::OWNER, volume.root(), TOP.to_bytes(), |_, done| done);
        removed.map_err(Error::volume("removing the files of the last run"))?;
        self.catch_up()
    }

    /// The device copies the host's changes now, and not on the clock.
    fn catch_up(&self) -> Result<()> {
        let Maker::Gpu(mirrored, _) = self else { return Ok(()) };
        let found = mirrored.resolve_batch(&ResolveOptions::default(), &["/"]);
        found.map(drop).map_err(Error::volume("a lookup"))
    }

    /// Returns the directory of a volume.
    fn top(&self) -> Result<Ino> {
        let Some(volume) = self.volume() else { return Ok(Ino(0)) };
        let found = volume.lookup(&lanefs::Caller::OWNER, volume.root(), TOP.to_bytes());
        found.map(|(ino, _)| ino).map_err(Error::volume("the directory"))
    }

    /// Makes files with contents, each in an existing directory.
    pub(super) fn create(&self, paths: &Strings, content: &[u8], stop: &Stop) -> Result<Duration> {
        if let Maker::Ext4(host) = self {
            let top = host.directory(TOP)?;
            return host.timed(paths, stop, "creating", |path| {
                let file = openat(&top, path, NEW_FILE, Mode::from_bits_retain(FILE_MODE.into()))?;
                rustix::io::write(file, content).map(drop)
            });
        }
        self.each(paths, stop, |path| Change::Create { path, perm: FILE_MODE, data: content })
    }

    /// Removes files.
    pub(super) fn unlink(&self, paths: &Strings, stop: &Stop) -> Result<Duration> {
        if let Maker::Ext4(host) = self {
            return host.unlink_files(TOP, paths, stop);
        }
        self.each(paths, stop, |path| Change::Unlink { path })
    }

    /// Makes directories, parents first.
    pub(super) fn make_directories(&self, paths: &Strings, stop: &Stop) -> Result<Duration> {
        if let Maker::Ext4(host) = self {
            return host.make_subdirectories(TOP, paths, stop);
        }
        self.each(paths, stop, |path| Change::Mkdir { path, perm: DIRECTORY_MODE })
    }

    /// Makes directories with their parents. A volume receives the leaves only, ext4 all of them.
    pub(super) fn make_all(&self, lowest: &Strings, all: &Strings, stop: &Stop) -> Result<Duration> {
        if let Maker::Ext4(_) = self {
            return self.make_directories(all, stop);
        }
        self.each(lowest, stop, |path| Change::MkdirAll { path, perm: DIRECTORY_MODE })
    }

    /// Makes nested directories by one path.
    pub(super) fn make_chain(&self, depth: usize, stop: &Stop) -> Result<Duration> {
        if let Maker::Ext4(host) = self {
            return host.make_chain(TOP, depth, stop);
        }
        let path = chain_path(depth);
        self.apply(self.top()?, &[Change::MkdirAll { path: &path, perm: DIRECTORY_MODE }], stop)
    }

    fn each<'p>(
        &self,
        paths: &'p Strings,
        stop: &Stop,
        change: impl Fn(&'p [u8]) -> Change<'p>,
    ) -> Result<Duration> {
        let changes: Vec<_> = paths.iter().map(CStr::to_bytes).map(change).collect();
        self.apply(self.top()?, &changes, stop)
    }

    /// Applies these changes to a volume, all of which must succeed; returns the time.
    fn apply(&self, base: Ino, changes: &[Change<'_>], stop: &Stop) -> Result<Duration> {
        let mut answers: Vec<Applied> = Vec::with_capacity(changes.len());
        let start = Instant::now();
        for part in changes.chunks(BATCH_CHANGES) {
            stop.check()?;
            let made = match self {
                Maker::Gpu(mirrored, shares) => mirrored.apply(base, part).map(|(answers, by)| {
                    let (together, all) = shares.0.get();
                    shares.0.set((together + by.together, all + part.len() as u64));
                    answers
                }),
                Maker::Cpu(lane) => lane.volume().apply(base, part),
                Maker::Ext4(_) => Ok(Vec::new()),
            };
            answers.extend(made.map_err(Error::volume("changes"))?);
        }
        let elapsed = start.elapsed();
        let made = answers.iter().filter(|answer| answer.code == Code::Success).count() as u64;
        check(self.name(), "changes", made, changes.len())?;
        Ok(elapsed)
    }
}
