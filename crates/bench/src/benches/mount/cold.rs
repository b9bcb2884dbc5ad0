//! `mount-read-small-cold`: whole small files in random order, on a disk, with nothing cached.

use super::bench::{MountBench, PASSTHROUGH};
use super::processors::on_one;
use super::rows::COLD;
use super::squash::{SQUASHFS, SQUASHFUSE};
use crate::benches::read::corpus::{Corpus, CorpusRequests, MOST_BYTES};
use crate::error::{Error, Result, check};
use crate::measure::stop::{STRIDE, Stop};
use crate::measure::values::LANEFS;
use crate::systems::file_volume::FileSet;
use crate::systems::peers::{Host, Medium, SpaceRequest, SquashImage};
use crate::systems::served::{ServedMount, forget};
use crate::systems::system::Named;
use rustix::fs::{self as sys, Mode, OFlags};
use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Minimum of ext4's rate.
const GOAL: f64 = 1.2;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const NEW_FILE: OFlags = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::CLOEXEC);

/// A system whose files are on a disk. Those that a process serves are mounted again for each run, so that
/// the process has nothing in memory.
enum ColdSystem<'i> {
    /// The volume of an image.
    Volume(PathBuf),
    /// A directory of the kernel's, by its name in reports.
    Kernel(&'static str, PathBuf),
    /// A passthrough to the directory of ext4.
    Passthrough(PathBuf),
    /// An image that `squashfuse` mounts.
    Squashfuse(&'i SquashImage),
}

impl Named for ColdSystem<'_> {
    fn name(&self) -> &str {
        match self {
            ColdSystem::Volume(_) => LANEFS,
            ColdSystem::Kernel(name, _) => name,
            ColdSystem::Passthrough(_) => PASSTHROUGH,
            ColdSystem::Squashfuse(_) => SQUASHFUSE,
        }
    }
}

impl ColdSystem<'_> {
    /// Calls `work` with the system's root directory, and with the process that serves it.
    fn mounted<T>(
        &self,
        bench: &MountBench,
        work: impl FnOnce(&Path, Option<&ServedMount>) -> Result<T>,
    ) -> Result<T> {
        let served = match self {
            ColdSystem::Kernel(_, path) => return work(path, None),
            ColdSystem::Volume(image) => bench.mount(image.into())?,
            ColdSystem::Passthrough(path) => bench.pass_through(path)?,
            ColdSystem::Squashfuse(image) => image.serve(&bench.stop)?,
        };
        let done = work(served.path(), Some(&served))?;
        served.end()?;
        Ok(done)
    }
}

/// Measures the row.
pub(super) fn measure(bench: &mut MountBench) -> Result<()> {
    let files = bench.settings.sizes.cold_files;
    let corpus = Corpus::new(files);
    let requests = CorpusRequests::new(&corpus, files);
    let need = SpaceRequest { inodes: corpus.len() as u64 * 2, bytes: corpus.bytes() * 2 };
    let mut hosts = bench.hosts(need, Medium::Disk)?;
    hosts.retain(|host| host.name() == "ext4");
    let (_temp, image) = bench.volume_on_disk((512 << 20) + need.bytes)?;
    // The passthrough shows the files of ext4, which are made once.
    let mut systems = vec![ColdSystem::Volume(image)];
    systems.extend(hosts.iter().map(|host| ColdSystem::Kernel("ext4", host.path().into())));
    for system in &systems {
        bench.progress.step(&format!("making {files} files on {}", system.name()));
        system.mounted(bench, |dir, _| make(dir, &corpus, &bench.stop))?;
    }
    systems.extend(hosts.iter().map(|host| ColdSystem::Passthrough(host.path().into())));
    let Squashed { image, kernel, has_program } = squashed(bench, hosts.first(), corpus.bytes())?;
    systems.extend(kernel.iter().map(|host| ColdSystem::Kernel(SQUASHFS, host.path().into())));
    systems.extend(image.iter().filter(|_| has_program).map(ColdSystem::Squashfuse));
    let systems: Vec<&ColdSystem<'_>> = systems.iter().collect();
    let values = bench.costs("small files", &systems, requests.len(), |system| {
        system.mounted(bench, |dir, served| {
            on_one(served.map(ServedMount::process), || read(dir, &corpus, &requests, &bench.stop))
        })
    })?;
    let row = values.row(COLD, "ns/file").map(|row| {
        row.param("files", files)
            .param("directories", corpus.directories().len())
            .param("mean_bytes", corpus.bytes() / files.max(1) as u64)
            .param("processors", 1)
            .goal_ratio("ext4", GOAL)
    });
    bench.row(row);
    Ok(())
}

/// SquashFS with the files of ext4.
#[derive(Default)]
struct Squashed {
    kernel: Option<Host>,
    image: Option<SquashImage>,
    has_program: bool,
}

/// Packs the files of ext4, and mounts the image once in each way: a note names the one that fails.
fn squashed(bench: &mut MountBench, ext4: Option<&Host>, bytes: u64) -> Result<Squashed> {
    let Some(ext4) = ext4 else {
        bench.note(
            "SquashFS, by the kernel and by squashfuse, is left out: its files are those of ext4".into(),
        );
        return Ok(Squashed::default());
    };
    let Some(image) = bench.squashed(ext4.path(), bytes, Medium::Disk)? else {
        return Ok(Squashed::default());
    };
    let (kernel, program) = (bench.squashfs(&image)?, bench.squashfuse(&image)?);
    Ok(Squashed { kernel, image: Some(image), has_program: program.is_some() })
}

fn open(dir: &Path) -> Result<OwnedFd> {
    sys::open(dir, DIRECTORY, Mode::empty()).map_err(Error::host(dir.display().to_string()))
}

/// Makes all files, directory by directory.
fn make(dir: &Path, corpus: &Corpus, stop: &Stop) -> Result<()> {
    let root = open(dir)?;
    for directory in corpus.directories().iter() {
        sys::mkdirat(&root, directory, Mode::from(0o755)).map_err(Error::host("mkdir"))?;
    }
    let mut data = Vec::new();
    for (file, path) in corpus.paths().iter().enumerate() {
        if file % STRIDE == 0 {
            stop.check()?;
        }
        data.clear();
        corpus.content(file, &mut data);
        let made = sys::openat(&root, path, NEW_FILE, Mode::from(0o644)).map_err(failed("creating", path))?;
        let mut done = 0;
        while done < data.len() {
            done += rustix::io::write(&made, &data[done..]).map_err(failed("writing", path))?;
        }
    }
    sys::syncfs(&root).map_err(Error::host("syncfs"))
}

/// Drops the kernel's caches, and reads and checks all requested files by open, read and close.
fn read(dir: &Path, corpus: &Corpus, requests: &CorpusRequests, stop: &Stop) -> Result<Duration> {
    forget(true)?;
    let root = open(dir)?;
    let paths: Vec<&CStr> = requests.strings.iter().collect();
    let (mut good, mut buffer) = (0, vec![0; MOST_BYTES]);
    let start = Instant::now();
    for (number, (file, path)) in requests.files.iter().zip(paths).enumerate() {
        if number % STRIDE == 0 {
            stop.check()?;
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let opened = sys::openat(&root, path, flags, Mode::empty()).map_err(failed("opening", path))?;
        let len = rustix::io::read(&opened, &mut buffer).map_err(failed("reading", path))?;
        good += u64::from(corpus.is_right(*file, &buffer[..len]));
    }
    let elapsed = start.elapsed();
    check(&dir.display().to_string(), "small files", good, requests.len())?;
    Ok(elapsed)
}

fn failed(what: &str, path: &CStr) -> impl FnOnce(rustix::io::Errno) -> Error {
    Error::host(format!("{what} {}", path.to_string_lossy()))
}
