//! A mount that becomes read-only and writable again while it is used, by this crate's call and by mount(2)
//! alone.
//!
//! The tests need /dev/fuse and root: no other user may change a mount.

use lanefs::{Access, CreateOptions, MemoryDevice, Volume};
use lanefs_fuse::{Error, Mount, Options, remount, table};
use rustix::fs::{AtFlags, CWD};
use rustix::io::Errno;
use rustix::mount::MountFlags;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A mount of a volume in a file.
struct Mounted {
    mount: Mount,
    dir: PathBuf,
    image: PathBuf,
    _host: tempfile::TempDir,
}

impl Mounted {
    fn new(access: Access) -> Self {
        let host = tempfile::tempdir().unwrap();
        let (dir, image) = (host.path().join("mnt"), host.path().join("v.lane"));
        fs::create_dir(&dir).unwrap();
        let options = CreateOptions { size: 32 << 20, ..CreateOptions::default() };
        let volume = Volume::create(&image, &options).unwrap();
        volume.write_file("/f", b"text").unwrap();
        volume.close().unwrap();
        let volume = Volume::open(&image, access).unwrap();
        let options = Options { read_only: access == Access::Read, ..crate::mount_options() };
        let mount = Mount::start(volume, &dir, &options)
            .unwrap_or_else(|error| panic!("this test needs root and /dev/fuse: {error}"));
        Mounted { mount, dir, image, _host: host }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn remount(&self, list: &str) -> lanefs_fuse::Result<()> {
        remount::remount(&self.dir, |options| options.apply(list))
    }

    /// Opens a copy of the image as it is now; fails where that is between two writes.
    fn try_on_device(&self) -> lanefs::Result<Volume> {
        let bytes = fs::read(&self.image).unwrap();
        Volume::open_device(Box::new(MemoryDevice::new(bytes)), Access::Read)
    }

    fn on_device(&self) -> Volume {
        self.try_on_device().unwrap()
    }

    fn is_closed_on_device(&self) -> bool {
        self.try_on_device().is_ok_and(|volume| volume.superblock().clean)
    }
}

fn is_read_only(result: io::Result<()>) -> bool {
    result.is_err_and(|error| error.raw_os_error() == Some(Errno::ROFS.raw_os_error()))
}

fn is_busy(result: lanefs_fuse::Result<()>) -> bool {
    matches!(result, Err(Error::Busy { .. }))
}

fn is_listed_read_only(dir: &Path) -> bool {
    table::find(dir).unwrap().unwrap().read_only
}

#[test]
fn options_that_are_impossible_mount_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for threads in [0, 257, usize::MAX] {
        let volume = Volume::create_memory(&CreateOptions { size: 8 << 20, ..CreateOptions::default() });
        let options = Options { threads: Some(threads), ..crate::mount_options() };
        let refused = Mount::start(volume.unwrap(), dir.path(), &options).err().expect("refused");
        assert!(refused.is_usage() && refused.to_string().contains("from 1 to 256"), "{refused}");
        assert!(table::find(dir.path()).unwrap().is_none());
    }
}

#[test]
fn a_volume_that_is_open_for_reading_is_mounted_for_reading() {
    let host = tempfile::tempdir().unwrap();
    let image = host.path().join("v.lane");
    let options = CreateOptions { size: 8 << 20, ..CreateOptions::default() };
    Volume::create(&image, &options).and_then(Volume::close).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let volume = Volume::open(&image, Access::Read).unwrap();
    let mount = Mount::start(volume, dir.path(), &crate::mount_options()).unwrap();
    assert!(is_listed_read_only(dir.path()));
    assert!(is_read_only(fs::write(dir.path().join("x"), "x")));
    mount.stopper().stop();
    mount.wait().unwrap();
}

#[test]
fn a_mount_becomes_read_only_with_everything_durable_and_writable_again() {
    let m = Mounted::new(Access::Write);
    for round in 0..3 {
        let name = format!("round{round}");
        fs::write(m.path(&name), b"written").unwrap();
        assert!(!m.on_device().superblock().clean);
        m.remount("ro").unwrap();
        assert!(is_listed_read_only(&m.dir));
        assert!(is_read_only(fs::write(m.path("f"), b"x")) && is_read_only(fs::create_dir(m.path("d"))));
        assert_eq!(fs::read(m.path(&name)).unwrap(), b"written");
        let closed = m.on_device();
        assert!(closed.superblock().clean, "a crash from here on leaves a closed volume");
        assert_eq!(closed.read_file(format!("/{name}")).unwrap(), b"written");
        m.remount("rw").unwrap();
        assert!(!is_listed_read_only(&m.dir));
    }
    fs::create_dir(m.path("d")).unwrap();
    m.mount.stop().unwrap();
    let volume = Volume::open(&m.image, Access::Write).unwrap();
    assert!(volume.check(false, &|_, _| ()).unwrap().findings.is_empty());
    assert!(volume.resolve("/d").is_ok());
}

#[test]
fn writers_and_files_without_a_name_keep_a_mount_writable() {
    let m = Mounted::new(Access::Write);
    let writer = File::options().append(true).open(m.path("f")).unwrap();
    assert!(is_busy(m.remount("ro")));
    drop(writer);
    let nameless = File::open(m.path("f")).unwrap();
    fs::remove_file(m.path("f")).unwrap();
    assert!(is_busy(m.remount("ro")));
    fs::write(m.path("g"), b"still writable").unwrap();
    drop(nameless);
    let reader = File::open(m.path("g")).unwrap();
    m.remount("ro").unwrap();
    assert!(is_read_only(fs::write(m.path("g"), b"x")));
    drop(reader);
    m.mount.stop().unwrap();
}

/// systemd and the helper-less `mount -i` call mount(2) alone.
#[test]
fn the_server_adopts_a_remount_that_it_was_not_told_of() {
    let m = Mounted::new(Access::Write);
    fs::write(m.path("g"), b"g").unwrap();
    rustix::mount::mount_remount(&m.dir, MountFlags::RDONLY | MountFlags::NOATIME, c"").unwrap();
    // The thread that waits for changes of the table adopts it at some time; no request is needed.
    while !m.is_closed_on_device() {
        std::thread::yield_now();
    }
    rustix::mount::mount_remount(&m.dir, MountFlags::NOATIME, c"").unwrap();
    // statfs(2) adopts it at once.
    rustix::fs::statfs(&m.dir).unwrap();
    fs::write(m.path("g"), b"again").unwrap();
    let past = rustix::fs::Timespec { tv_sec: 1000, tv_nsec: 5 };
    let times = rustix::fs::Timestamps { last_access: past, last_modification: past };
    rustix::fs::utimensat(CWD, m.path("g"), &times, AtFlags::empty()).unwrap();
    let read = || {
        let file = File::open(m.path("g")).unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        file.read_exact_at(&mut [0; 5], 0).unwrap();
        fs::metadata(m.path("g")).unwrap().atime()
    };
    assert_eq!(read(), 1000, "noatime");
    m.remount("strictatime").unwrap();
    assert_ne!(read(), 1000);
    m.mount.stop().unwrap();
}

#[test]
fn a_volume_opened_for_reading_stays_read_only() {
    let m = Mounted::new(Access::Read);
    m.remount("noatime").unwrap();
    let error = m.remount("rw").unwrap_err();
    assert!(error.to_string().contains("opened for reading only"), "{error}");
    assert!(is_listed_read_only(&m.dir));
    assert!(is_read_only(fs::write(m.path("f"), b"x")));
    m.mount.stop().unwrap();
}

#[test]
fn only_a_mount_of_lanefs_can_be_changed() {
    let dir = tempfile::tempdir().unwrap();
    for dir in [dir.path(), Path::new("/proc")] {
        let refused = remount::remount(dir, |options| options.apply("ro"));
        assert!(matches!(refused, Err(Error::Directory { .. })), "{refused:?}");
    }
}

#[test]
fn a_volume_is_used_beside_its_mount_and_after_it() {
    let options = CreateOptions { size: 64 << 20, ..CreateOptions::default() };
    let volume = Arc::new(Volume::create_memory(&options).expect("a volume"));
    volume.write_file("/a", b"first").expect("write");
    for round in 0..2 {
        let dir = tempfile::tempdir().expect("a directory");
        let mount = Mount::start(Arc::clone(&volume), dir.path(), &crate::mount_options())
            .unwrap_or_else(|error| panic!("round {round}: {error}"));
        // The kernel keeps what it has read until it is told of a change.
        for content in ["second", "third, longer", "4"] {
            let path = dir.path().join("a");
            fs::read(&path).expect("read");
            volume.write_file("/a", content).expect("write");
            let is_new = || fs::read(&path).expect("read") == content.as_bytes();
            let patience = std::time::Instant::now();
            while !is_new() {
                assert!(patience.elapsed().as_secs() < 60, "the kernel has the old content");
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        fs::write(dir.path().join(format!("by-mount-{round}")), b"there").expect("write");
        let shared = mount.volume().expect("the volume");
        assert!(Arc::ptr_eq(&shared, &volume));
        let other = tempfile::tempdir().expect("a directory");
        let error = Mount::start(Arc::clone(&volume), other.path(), &crate::mount_options()).err();
        assert!(error.expect("refused").to_string().contains("mounted already"));
        drop(shared);
        mount.stop().expect("stop");
        assert_eq!(volume.read_file(format!("/by-mount-{round}")).expect("read"), b"there");
        volume.write_file("/after", b"it goes on").expect("write");
    }
    Arc::try_unwrap(volume).expect("nobody else has it").close().expect("close");
}
