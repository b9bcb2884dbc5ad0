//! Times of files, and the mount options for them.

use crate::posix::support::{Mounted, names, wait_for_clock};
use lanefs::AccessTimes;
use lanefs_fuse::{Operation, Options};
use rustix::fs::{AtFlags, CWD, OFlags};
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};

#[test]
fn times_of_access_are_kept_as_relatime_has_it_or_not_at_all() {
    let past = rustix::fs::Timespec { tv_sec: 1000, tv_nsec: 5 };
    let times = rustix::fs::Timestamps { last_access: past, last_modification: past };
    for (access_times, kept) in [(AccessTimes::Relative, false), (AccessTimes::Never, true)] {
        let m = Mounted::with(64 << 20, &Options { access_times, ..crate::mount_options() });
        fs::write(m.path("f"), b"text").unwrap();
        rustix::fs::utimensat(CWD, m.path("f"), &times, AtFlags::empty()).unwrap();
        let file = File::open(m.path("f")).unwrap();
        let changed = |meta: fs::Metadata| (meta.ctime(), meta.ctime_nsec());
        let before = changed(file.metadata().unwrap());
        wait_for_clock();
        // The kernel reads cached pages without a request.
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let after = fs::metadata(m.path("f")).unwrap();
        assert_eq!(after.atime() == 1000, kept);
        assert_eq!(changed(after), before, "reading is not a change");
        drop(file);
        m.end();
    }
}

#[test]
fn each_reading_counts_and_directories_do_not_where_options_say_so() {
    let past = rustix::fs::Timespec { tv_sec: 1000, tv_nsec: 5 };
    let ahead = rustix::fs::Timespec { tv_sec: 1 << 32, tv_nsec: 5 };
    let of = |meta: fs::Metadata| (meta.atime(), meta.atime_nsec());
    for (list, file_changes, directory_changes) in [
        ("relatime", false, false),
        ("strictatime", true, true),
        ("strictatime,nodiratime", true, false),
        ("lazytime,noatime", false, false),
    ] {
        let mut options = crate::mount_options();
        options.apply(list).unwrap();
        let m = Mounted::with(64 << 20, &options);
        fs::create_dir(m.path("d")).unwrap();
        fs::write(m.path("d/f"), b"text").unwrap();
        // By relatime, a time of access in the future stays.
        let times = rustix::fs::Timestamps { last_access: ahead, last_modification: past };
        for name in ["d", "d/f"] {
            rustix::fs::utimensat(CWD, m.path(name), &times, AtFlags::empty()).unwrap();
        }
        let (file, before) = (File::open(m.path("d/f")).unwrap(), [m.path("d/f"), m.path("d")]);
        let before = before.map(|path| of(fs::metadata(path).unwrap()));
        // The open counts as well.
        wait_for_clock();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        file.read_exact_at(&mut [0; 4], 0).unwrap();
        assert_eq!(names(&m.path("d")).len(), 1);
        let after = [m.path("d/f"), m.path("d")].map(|path| of(fs::metadata(path).unwrap()));
        let changed = (after[0] != before[0], after[1] != before[1]);
        assert_eq!(changed, (file_changes, directory_changes), "{list}");
        drop(file);
        m.end();
    }
}

#[test]
fn reading_what_the_kernel_has_cached_counts_by_the_open_where_each_reading_does() {
    let mut options = crate::mount_options();
    options.apply("strictatime").unwrap();
    let m = Mounted::with(64 << 20, &options);
    fs::create_dir(m.path("d")).unwrap();
    fs::write(m.path("d/f"), b"text").unwrap();
    let read = |open: &mut OpenOptions| {
        let mut text = String::new();
        open.open(m.path("d/f")).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
    };
    let of = |path: &str| {
        let meta = fs::metadata(m.path(path)).unwrap();
        (meta.atime(), meta.atime_nsec())
    };
    read(File::options().read(true));
    assert_eq!(names(&m.path("d")).len(), 1);
    let before = (of("d"), of("d/f"), m.requests(Operation::Read));
    wait_for_clock();
    // None of these is an access.
    drop(File::options().write(true).open(m.path("d/f")).unwrap());
    read(File::options().read(true).custom_flags(OFlags::NOATIME.bits() as i32));
    assert_eq!((of("d"), of("d/f"), m.requests(Operation::Read)), before);
    read(File::options().read(true));
    assert_eq!(names(&m.path("d")).len(), 1);
    assert_eq!(m.requests(Operation::Read), before.2, "the kernel's cache has the content");
    assert!(of("d") > before.0 && of("d/f") > before.1);
    m.end();
    // By other rules the kernel opens without requests.
    let m = Mounted::new();
    fs::write(m.path("f"), b"text").unwrap();
    fs::read(m.path("f")).unwrap();
    assert_eq!(m.requests(Operation::Open), 0);
    m.end();
}

#[test]
fn times_are_kept_to_the_nanosecond_before_and_after_1970() {
    let m = Mounted::new();
    fs::write(m.path("f"), b"").unwrap();
    for (seconds, nanoseconds) in
        [(0, 0), (1, 1), (-1, 999_999_999), (-2, 1), (-3_000_000_000, 0), (5_000_000_000, 7)]
    {
        let time = rustix::fs::Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
        let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
        rustix::fs::utimensat(CWD, m.path("f"), &times, AtFlags::empty()).unwrap();
        let meta = fs::metadata(m.path("f")).unwrap();
        assert_eq!((meta.mtime(), meta.mtime_nsec()), (seconds, nanoseconds));
        assert_eq!((meta.atime(), meta.atime_nsec()), (seconds, nanoseconds));
    }
    m.end();
}
