//! A mount that moves from version to version of its volume, as the kernel and its programs see it.
//!
//! The tests need /dev/fuse.

use lanefs::{Access, CreateOptions, FileSystem, MemoryDevice, Volume};
use lanefs_fuse::{CommandRequest, Error, Mount, Mover, Options, RemoteVolume, Service, Statistics, find};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};

/// Makes a volume with content, and opens it for reading.
fn made(fill: impl FnOnce(&Volume)) -> Volume {
    let host = tempfile::tempdir().unwrap();
    let image = host.path().join("v.lane");
    let options = CreateOptions { size: 32 << 20, ..CreateOptions::default() };
    let volume = Volume::create(&image, &options).unwrap();
    fill(&volume);
    volume.close().unwrap();
    let device = MemoryDevice::new(fs::read(image).unwrap());
    Volume::open_device(Box::new(device), Access::Read).unwrap()
}

/// Makes a volume in which every file is as long and consists of the byte.
fn volume(byte: u8, files: &[&str]) -> Volume {
    made(|volume| {
        for file in files {
            let (dir, _) = file.rsplit_once('/').unwrap();
            if !dir.is_empty() {
                volume.mkdir_all(dir, 0o755).unwrap();
            }
            volume.write_file(file, vec![byte; 3 << 20]).unwrap();
        }
    })
}

struct Mounted {
    mount: Mount,
    mover: Mover,
    dir: PathBuf,
    _host: tempfile::TempDir,
}

impl Mounted {
    fn new(volume: Volume) -> Self {
        let host = tempfile::tempdir().unwrap();
        let dir = host.path().to_owned();
        let options = Options { read_only: volume.is_read_only(), ..crate::mount_options() };
        let mount = Mount::start(volume, &dir, &options)
            .unwrap_or_else(|error| panic!("this test needs /dev/fuse: {error}"));
        Mounted { mover: mount.mover(), mount, dir, _host: host }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Waits until the mount serves so many versions: the kernel returns inodes when it likes.
    fn wait_for_versions(&self, count: usize) {
        for _ in 0..6000 {
            self.mover.end_unused();
            if self.mount.versions() == count {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("the mount serves {} versions", self.mount.versions());
    }
}

/// The byte of which a file consists.
fn byte(path: &Path) -> io::Result<u8> {
    let content = fs::read(path)?;
    assert_eq!(content.len(), 3 << 20);
    assert!(content.iter().all(|byte| *byte == content[0]), "bytes of two versions in one file");
    Ok(content[0])
}

fn names(dir: &Path) -> BTreeSet<String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn is_missing<T>(result: io::Result<T>) -> bool {
    result.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

#[test]
fn new_lookups_see_the_new_version_and_open_files_keep_theirs() {
    let mut m = Mounted::new(volume(1, &["/stays", "/goes", "/d/f", "/d/goes"]));
    // All names are in the kernel's cache, also those that do not exist.
    for name in ["stays", "goes", "d/f"] {
        assert_eq!(byte(&m.path(name)).unwrap(), 1);
    }
    assert!(is_missing(byte(&m.path("comes"))) && is_missing(byte(&m.path("d/comes"))));
    assert_eq!(names(&m.dir).len(), 3);
    // Of this file the kernel has no byte in its cache.
    let open = File::open(m.path("d/goes")).unwrap();
    let dir = File::open(m.path("d")).unwrap();
    let (root, file) = (fs::metadata(&m.dir).unwrap(), fs::metadata(m.path("stays")).unwrap());

    m.mover.move_to(volume(2, &["/stays", "/comes", "/d/f", "/d/comes"])).unwrap();
    for name in ["stays", "comes", "d/f", "d/comes"] {
        assert_eq!(byte(&m.path(name)).unwrap(), 2, "{name}");
    }
    assert!(is_missing(byte(&m.path("goes"))) && is_missing(byte(&m.path("d/goes"))));
    assert_eq!(names(&m.dir), ["comes", "d", "stays"].map(String::from).into());
    assert_eq!(names(&m.path("d")), ["comes", "f"].map(String::from).into());
    assert_eq!(fs::metadata(&m.dir).unwrap().ino(), root.ino());
    assert_ne!(fs::metadata(m.path("stays")).unwrap().ino(), file.ino(), "it is another file");

    // The open file is the first version, all of it.
    let mut bytes = vec![0; 3 << 20];
    open.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 1));
    let below = |name| rustix::fs::statat(&dir, name, rustix::fs::AtFlags::empty());
    assert!(below("goes").is_ok() && below("comes").is_err(), "a directory in use keeps its names");
    assert_eq!(m.mount.versions(), 2);
    drop((open, dir));
    m.wait_for_versions(1);
    m.mount.stop().unwrap();
}

#[test]
fn a_directory_that_is_listed_while_the_mount_moves_is_one_version() {
    let files: Vec<String> = (0..2000).map(|number| format!("/d/{number}")).collect();
    let listed = |first: usize| {
        made(|volume| {
            volume.mkdir_all("/d", 0o755).unwrap();
            for file in files.iter().skip(first) {
                volume.write_file(file, b"").unwrap();
            }
        })
    };
    let mut m = Mounted::new(listed(0));
    let mut listing = fs::read_dir(m.path("d")).unwrap();
    assert!(listing.next().is_some());
    m.mover.move_to(listed(100)).unwrap();
    assert_eq!(listing.count(), 1999);
    assert_eq!(fs::read_dir(m.path("d")).unwrap().count(), 1900);
    m.mount.stop().unwrap();
}

#[test]
fn threads_that_read_while_the_mount_moves_never_see_a_mixture() {
    const VERSIONS: u8 = 40;
    let mut m = Mounted::new(volume(1, &["/d/f"]));
    let dir = m.dir.clone();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = || {
            let (mut last, mut reads) = (0, 0);
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                let byte = byte(&dir.join("d/f")).unwrap();
                assert!(byte >= last, "version {byte} after version {last}");
                (last, reads) = (byte, reads + 1);
            }
            reads
        };
        let readers = [scope.spawn(reader), scope.spawn(reader)];
        for version in 2..=VERSIONS {
            m.mover.move_to(volume(version, &["/d/f"])).unwrap();
            assert_eq!(byte(&dir.join("d/f")).unwrap(), version);
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        let reads = readers.map(|reader| reader.join().unwrap());
        assert!(reads.iter().all(|reads| *reads > 0));
    });
    m.wait_for_versions(1);
    m.mount.stop().unwrap();
}

#[test]
fn a_mount_that_cannot_move_stays_and_says_why() {
    let mut m = Mounted::new(volume(1, &["/f"]));
    let mut open = File::open(m.path("f")).unwrap();
    let writable =
        Volume::create_memory(&CreateOptions { size: 32 << 20, ..CreateOptions::default() }).unwrap();
    let refused = m.mover.move_to(writable).unwrap_err();
    assert!(matches!(refused, Error::Move(_)) && refused.to_string().contains("writing"), "{refused}");
    assert_eq!(byte(&m.path("f")).unwrap(), 1);
    let mut first = [0; 1];
    open.read_exact(&mut first).unwrap();
    drop(open);
    let mut mover = m.mount.mover();
    m.mount.stop().unwrap();
    let refused = mover.move_to(volume(2, &["/f"])).unwrap_err();
    assert!(refused.to_string().contains("has ended"), "{refused}");

    let writable =
        Volume::create_memory(&CreateOptions { size: 32 << 20, ..CreateOptions::default() }).unwrap();
    let mut m = Mounted::new(writable);
    let refused = m.mover.move_to(volume(2, &["/f"])).unwrap_err();
    assert!(refused.to_string().contains("writing"), "{refused}");
    m.mount.stop().unwrap();
}

/// The mount has no commands of its own; clients make calls.
struct NoCommands;

impl Service for NoCommands {
    fn execute(&self, _: &Volume, _: CommandRequest) -> u8 {
        0
    }

    fn statistics(&self, _: &Volume, _: &Statistics, versions: usize) -> String {
        versions.to_string()
    }
}

#[test]
fn a_client_stays_on_its_version_with_every_connection() {
    let mut m = Mounted::new(volume(1, &["/f"]));
    m.mount.serve_commands(Arc::new(NoCommands)).unwrap();
    let mounted = find::find(&m.dir).expect("the mount").expect("mounted");
    let (before, f) = (RemoteVolume::open(&mounted, || false).unwrap(), b"f");
    m.mover.move_to(volume(2, &["/f"])).unwrap();
    let after = RemoteVolume::open(&mounted, || false).unwrap();
    let byte = |remote: &RemoteVolume| {
        let (ino, _) = remote.lookup(remote.root(), f).unwrap();
        let mut bytes = vec![0; 3 << 20];
        assert_eq!(remote.read(ino, 0, &mut bytes).unwrap(), bytes.len());
        assert!(bytes.iter().all(|byte| *byte == bytes[0]));
        bytes[0]
    };
    // More threads than one need more connections than the first.
    let started = Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                started.wait();
                (0..8).for_each(|_| assert_eq!((byte(&before), byte(&after)), (1, 2)));
            });
        }
    });
    assert_eq!(mounted.statistics(|| false).unwrap(), "2");
    drop(before);
    m.wait_for_versions(1);
    m.mount.stop().unwrap();
}
