//! Names, listings, extended attributes, special files, and many threads at once.

use crate::posix::support::{Mounted, names, pattern, wait_for_clock};
use rustix::fs::{Access, AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, RenameFlags, XattrFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[test]
fn extended_attributes_are_probed_replaced_and_refused() {
    let m = Mounted::new();
    let f = m.path("f");
    fs::write(&f, b"").unwrap();
    let set = |name: &str, value: &[u8], flags| rustix::fs::setxattr(&f, name, value, flags);
    let get = |name: &str, room: usize| {
        let mut value = vec![0; room];
        rustix::fs::getxattr(&f, name, &mut value[..]).map(|n| value[..n.min(room)].to_vec())
    };
    set("user.a", b"one", XattrFlags::empty()).unwrap();
    assert_eq!(set("user.a", b"two", XattrFlags::CREATE), Err(Errno::EXIST));
    assert_eq!(set("user.b", b"two", XattrFlags::REPLACE), Err(Errno::NODATA));
    set("user.a", b"longer", XattrFlags::REPLACE).unwrap();
    assert_eq!(rustix::fs::getxattr_query(&f, "user.a"), Ok(6));
    assert_eq!(rustix::fs::listxattr_query(&f), Ok(7));
    assert_eq!(get("user.a", 3), Err(Errno::RANGE));
    assert_eq!(get("user.a", 100).unwrap(), b"longer");
    assert_eq!(get("user.none", 100), Err(Errno::NODATA));
    assert_eq!(rustix::fs::removexattr(&f, "user.none"), Err(Errno::NODATA));
    assert_eq!(get("system.posix_acl_access", 100), Err(Errno::NODATA));
    assert_eq!(get("system.nfs4_acl", 100), Err(Errno::OPNOTSUPP));
    assert_eq!(set("nonsense.a", b"x", XattrFlags::empty()), Err(Errno::OPNOTSUPP));
    let large = vec![b'v'; 65536];
    set("user.large", &large, XattrFlags::empty()).unwrap();
    assert_eq!(get("user.large", 65536).unwrap(), large);
    rustix::fs::removexattr(&f, "user.large").unwrap();
    assert_eq!(get("user.large", 65536), Err(Errno::NODATA));
    m.end();
}

#[test]
fn renames_replace_exchange_and_refuse() {
    let m = Mounted::new();
    fs::write(m.path("a"), b"A").unwrap();
    fs::write(m.path("b"), b"B").unwrap();
    let rename =
        |from: &str, to: &str, flags| rustix::fs::renameat_with(CWD, m.path(from), CWD, m.path(to), flags);
    assert_eq!(rename("a", "b", RenameFlags::NOREPLACE), Err(Errno::EXIST));
    rename("a", "b", RenameFlags::EXCHANGE).unwrap();
    assert_eq!(fs::read(m.path("a")).unwrap(), b"B");
    assert_eq!(rename("a", "c", RenameFlags::EXCHANGE), Err(Errno::NOENT));
    assert_eq!(rename("a", "b", RenameFlags::from_bits_retain(8)), Err(Errno::INVAL));
    rename("a", "c", RenameFlags::NOREPLACE).unwrap();
    rename("c", "b", RenameFlags::empty()).unwrap();
    assert_eq!(names(m.dir.path()), BTreeSet::from(["b".to_owned()]));
    assert_eq!(fs::read(m.path("b")).unwrap(), b"B");
    m.end();
}

#[test]
fn a_listing_goes_on_while_entries_go() {
    let m = Mounted::new();
    fs::create_dir(m.path("d")).unwrap();
    for number in 0..3000 {
        fs::write(m.path(&format!("d/{number}")), b"").unwrap();
    }
    let mut seen = BTreeSet::new();
    for (count, entry) in fs::read_dir(m.path("d")).unwrap().enumerate() {
        let entry = entry.unwrap();
        assert!(seen.insert(entry.file_name()), "{entry:?} comes twice");
        assert!(entry.metadata().unwrap().is_file());
        if count % 2 == 0 {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    assert_eq!(seen.len(), 3000);
    assert_eq!(
        names(&m.path("d")).len(),
        1500,
        "the kernel's copy of the listing is not used for another one"
    );
    let dots: Vec<_> = rustix::fs::Dir::read_from(File::open(m.path("d")).unwrap())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_name().to_bytes().starts_with(b"."))
        .map(|entry| (entry.file_name().to_bytes().to_vec(), entry.ino()))
        .collect();
    let inode = |path: PathBuf| fs::metadata(path).unwrap().ino();
    assert_eq!(dots, [(b".".to_vec(), inode(m.path("d"))), (b"..".to_vec(), inode(m.path("")))]);
    m.end();
}

#[test]
fn changes_are_seen_at_once_for_all_that_the_kernel_remembers() {
    let m = Mounted::new();
    let (a, b) = (m.path("a"), m.path("b"));
    assert_eq!(rustix::fs::access(&a, Access::EXISTS), Err(Errno::NOENT), "remembered as missing");
    fs::write(&a, b"one").unwrap();
    fs::hard_link(&a, &b).unwrap();
    assert_eq!(fs::metadata(&a).unwrap().nlink(), 2);
    fs::write(&b, b"three").unwrap();
    assert_eq!((fs::metadata(&a).unwrap().len(), fs::read(&a).unwrap()), (5, b"three".to_vec()));
    let before = fs::metadata(m.path("")).unwrap();
    wait_for_clock();
    fs::remove_file(&b).unwrap();
    let after = fs::metadata(m.path("")).unwrap();
    assert!(after.mtime_nsec() != before.mtime_nsec() || after.mtime() != before.mtime());
    assert_eq!(fs::metadata(&a).unwrap().nlink(), 1);
    fs::create_dir(m.path("d")).unwrap();
    assert_eq!(fs::metadata(m.path("")).unwrap().nlink(), before.nlink() + 1);
    m.end();
}

#[test]
fn special_files_links_and_locks_work() {
    let m = Mounted::new();
    rustix::fs::mknodat(CWD, m.path("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let number = rustix::fs::makedev(259, 70_000);
    rustix::fs::mknodat(CWD, m.path("disk"), FileType::BlockDevice, Mode::RUSR, number).unwrap();
    assert_eq!(fs::metadata(m.path("disk")).unwrap().rdev(), number);
    let socket = std::os::unix::net::UnixListener::bind(m.path("socket")).unwrap();
    std::os::unix::net::UnixStream::connect(m.path("socket")).unwrap();
    rustix::fs::symlink("disk", m.path("link")).unwrap();
    assert_eq!(fs::read_link(m.path("link")).unwrap(), Path::new("disk"));
    let [one, two] = [(); 2].map(|()| File::create(m.path("lock")).unwrap());
    rustix::fs::flock(&one, FlockOperation::LockExclusive).unwrap();
    assert_eq!(rustix::fs::flock(&two, FlockOperation::NonBlockingLockExclusive), Err(Errno::WOULDBLOCK));
    assert_eq!(
        fs::write(m.path(&"n".repeat(256)), b"").unwrap_err().raw_os_error(),
        Some(Errno::NAMETOOLONG.raw_os_error())
    );
    drop((one, two, socket));
    m.end();
}

#[test]
fn many_threads_make_rename_and_remove_at_once() {
    const THREADS: usize = 8;
    const FILES: usize = 300;
    let m = Mounted::new();
    fs::create_dir(m.path("all")).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let m = &m;
            scope.spawn(move || {
                let own = m.path(&format!("own{thread}"));
                fs::create_dir(&own).unwrap();
                for number in 0..FILES {
                    let (here, there) =
                        (own.join(number.to_string()), m.path(&format!("all/{thread}-{number}")));
                    fs::write(&here, pattern(3000 + number, number as u64)).unwrap();
                    fs::rename(&here, &there).unwrap();
                    assert!(fs::read(&there).unwrap() == pattern(3000 + number, number as u64));
                    if number % 3 == 0 {
                        fs::remove_file(&there).unwrap();
                    }
                    // All threads compete for one name.
                    let _ = fs::hard_link(
                        m.path(&format!("all/{thread}-{}", number.saturating_sub(1))),
                        m.path("prize"),
                    );
                    let _ = fs::rename(m.path("prize"), own.join("prize"));
                    let _ = fs::remove_file(own.join("prize"));
                }
            });
        }
    });
    assert_eq!(names(&m.path("all")).len(), THREADS * (FILES - FILES.div_ceil(3)));
    m.end();
}

#[test]
fn a_file_without_a_name_gets_one_or_goes() {
    let m = Mounted::new();
    let open = |flags: OFlags| {
        let flags = flags | OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        rustix::fs::open(m.dir.path(), flags, Mode::from_raw_mode(0o640)).map(File::from)
    };
    let link = |file: &File| {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        rustix::fs::linkat(CWD, path, CWD, m.path("f"), AtFlags::SYMLINK_FOLLOW)
    };
    let mut file = open(OFlags::empty()).unwrap();
    file.write_all(b"text").unwrap();
    let meta = file.metadata().unwrap();
    assert_eq!((meta.nlink(), meta.mode() & 0o777, names(m.dir.path()).len()), (0, 0o640, 0));
    link(&file).unwrap();
    drop(file);
    assert_eq!(fs::read(m.path("f")).unwrap(), b"text");
    assert_eq!(fs::metadata(m.path("f")).unwrap().nlink(), 1);
    // `O_EXCL`: it never gets a name.
    let other = open(OFlags::EXCL).unwrap();
    fs::remove_file(m.path("f")).unwrap();
    assert_eq!(link(&other), Err(Errno::NOENT));
    drop(other);
    m.end();
}
