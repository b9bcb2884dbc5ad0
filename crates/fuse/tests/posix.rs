//! Behaviour of a mounted volume, as programs see it. Each test mounts a volume of its own.
//!
//! The tests need /dev/fuse, and root or fusermount3. Without them they fail with a message that says so.

use lanefs::{AccessTimes, Caller, CreateOptions, Volume};
use lanefs_fuse::{Ended, Mount, Operation, Options, table};
use rustix::fs::{
    Access, AtFlags, CWD, FallocateFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, SeekFrom,
    XattrFlags,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A mount of a volume in memory, on a directory of its own.
struct Mounted {
    mount: Option<Mount>,
    dir: tempfile::TempDir,
}

impl Mounted {
    fn new() -> Self {
        Self::with(256 << 20, &Options::default())
    }

    fn with(size: u64, options: &Options) -> Self {
        let volume = Volume::create_memory(&CreateOptions { size, ..CreateOptions::default() }).unwrap();
        Self::of(volume, options)
    }

    fn of(volume: Volume, options: &Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let user = rustix::process::getuid().as_raw();
        let set = lanefs::SetAttr { uid: Some(user), ..lanefs::SetAttr::default() };
        if volume.access() != lanefs::Access::Read {
            volume.setattr(&Caller::OWNER, volume.root(), &set).unwrap();
        }
        let mut mount = Mount::start(volume, dir.path(), options).unwrap_or_else(|error| {
            panic!("this test needs /dev/fuse, and root or fusermount3 (package fuse3): {error}")
        });
        // The tests stop a mount or end its use; none depends on the speed of the machine.
        mount.set_stop_timeout(Duration::from_secs(3600));
        Mounted { mount: Some(mount), dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn mount(&self) -> &Mount {
        self.mount.as_ref().unwrap()
    }

    /// Stops the mount, of which no file is open any more.
    fn end(mut self) {
        assert_eq!(self.mount.take().unwrap().stop().unwrap(), Ended::Stopped);
    }
}

fn names(dir: &Path) -> BTreeSet<String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Calls `work` as another user, in a thread of its own, so that the test keeps its identity.
fn as_user<T: Send>(uid: u32, gid: u32, groups: &[u32], work: impl FnOnce() -> T + Send) -> T {
    let groups: Vec<Gid> = groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            rustix::thread::set_thread_groups(&groups).expect("this test needs root");
            rustix::thread::set_thread_res_gid(Gid::from_raw(gid), Gid::from_raw(gid), Gid::from_raw(gid))
                .unwrap();
            rustix::thread::set_thread_res_uid(Uid::from_raw(uid), Uid::from_raw(uid), Uid::from_raw(uid))
                .unwrap();
            work()
        });
        thread.join().unwrap()
    })
}

/// Waits until the kernel's coarse clock, from which it takes times of files, has advanced.
fn wait_for_clock() {
    let now = || rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    let begin = now();
    while now() == begin {
        std::thread::yield_now();
    }
}

#[test]
fn a_file_lives_on_while_it_is_open() {
    let m = Mounted::new();
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(m.path("f")).unwrap();
    file.write_all(b"here").unwrap();
    fs::remove_file(m.path("f")).unwrap();
    // New files must not reuse the inode.
    for number in 0..100 {
        fs::write(m.path(&number.to_string()), vec![b'x'; 5000]).unwrap();
    }
    file.write_all(b" and there").unwrap();
    file.rewind().unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "here and there");
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    file.sync_all().unwrap();
    drop(file);
    m.end();
}

#[test]
fn a_directory_lives_on_while_somebody_works_in_it() {
    let m = Mounted::new();
    fs::create_dir(m.path("d")).unwrap();
    let dir = File::open(m.path("d")).unwrap();
    fs::remove_dir(m.path("d")).unwrap();
    fs::create_dir(m.path("e")).unwrap();
    fs::write(m.path("e/f"), b"").unwrap();
    assert_eq!(rustix::fs::statat(&dir, "f", AtFlags::empty()), Err(Errno::NOENT));
    let made = rustix::fs::openat(&dir, "g", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR);
    assert_eq!(made.map(|_| ()), Err(Errno::NOENT));
    drop(dir);
    m.end();
}

#[test]
fn large_and_sparse_files_are_what_was_written() {
    let m = Mounted::new();
    let data = pattern(40 << 20, 7);
    fs::write(m.path("large"), &data).unwrap();
    assert!(fs::read(m.path("large")).unwrap() == data);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(m.path("sparse"))
        .unwrap();
    file.write_all_at(b"far", 1 << 40).unwrap();
    file.write_all_at(b"near", 1 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), (1 << 40) + 3);
    assert!(file.metadata().unwrap().blocks() < 1000);
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(0)), Ok(1 << 20));
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Hole(1 << 20)), Ok((1 << 20) + 4096));
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(2 << 20)), Ok(1 << 40));
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(2 << 40)), Err(Errno::NXIO));
    let mut zeros = [1; 8192];
    file.read_exact_at(&mut zeros, 1 << 30).unwrap();
    assert_eq!(zeros, [0; 8192]);
    drop(file);
    m.end();
}

#[test]
fn space_is_allocated_punched_and_zeroed() {
    let m = Mounted::new();
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(m.path("f")).unwrap();
    let all = |n: usize| {
        let mut bytes = vec![0; n];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    };
    file.write_all_at(&[7; 16384], 0).unwrap();
    rustix::fs::fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 4096, 4096).unwrap();
    assert_eq!(all(16384).iter().filter(|byte| **byte == 0).count(), 4096);
    rustix::fs::fallocate(&file, FallocateFlags::ZERO_RANGE, 8192, 100).unwrap();
    assert_eq!(all(16384).iter().filter(|byte| **byte == 0).count(), 4196);
    rustix::fs::fallocate(&file, FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE, 16000, 100_000)
        .unwrap();
    assert_eq!(file.metadata().unwrap().len(), 16384);
    assert!(file.metadata().unwrap().blocks() * 512 >= 100_000);
    assert_eq!(all(16384)[16000..], [0; 384]);
    rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 1 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 16384);
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 1 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1 << 20);
    let refused = rustix::fs::fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096);
    assert_eq!(refused, Err(Errno::OPNOTSUPP));
    drop(file);
    m.end();
}

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
    assert_eq!(rename("a", "b", RenameFlags::WHITEOUT), Err(Errno::INVAL));
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
fn a_full_volume_says_so_and_goes_on() {
    let m = Mounted::with(16 << 20, &Options::default());
    let mut file = File::create(m.path("f")).unwrap();
    let mut written = 0;
    let error = loop {
        match file.write(&pattern(1 << 20, 3)) {
            Ok(bytes) => written += bytes as u64,
            Err(error) => break error,
        }
    };
    assert_eq!(error.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
    assert_eq!(file.metadata().unwrap().len(), written);
    let stat = rustix::fs::statvfs(m.dir.path()).unwrap();
    assert!(
        stat.f_bfree * stat.f_frsize < 1 << 20,
        "the last bit is used, too: {} blocks free",
        stat.f_bfree
    );
    drop(file);
    fs::remove_file(m.path("f")).unwrap();
    m.end();
}

#[test]
fn a_read_only_mount_changes_nothing() {
    let image = tempfile::tempdir().unwrap();
    let path = image.path().join("v.lane");
    let volume =
        Volume::create(&path, &CreateOptions { size: 16 << 20, ..CreateOptions::default() }).unwrap();
    volume.write_file("/f", b"text").unwrap();
    volume.close().unwrap();
    let bytes = fs::read(&path).unwrap();
    let volume = Volume::open(&path, lanefs::Access::Read).unwrap();
    let m = Mounted::of(volume, &Options { read_only: true, ..Options::default() });
    assert_eq!(fs::read(m.path("f")).unwrap(), b"text");
    let refused = Some(Errno::ROFS.raw_os_error());
    assert_eq!(fs::write(m.path("f"), b"x").unwrap_err().raw_os_error(), refused);
    assert_eq!(fs::create_dir(m.path("d")).unwrap_err().raw_os_error(), refused);
    assert_eq!(fs::remove_file(m.path("f")).unwrap_err().raw_os_error(), refused);
    m.end();
    assert!(fs::read(&path).unwrap() == bytes, "the image has changed");
}

#[test]
fn what_a_user_makes_is_his_and_groups_count() {
    let m = Mounted::new();
    let dir = |name: &str, mode: u32, uid: u32, gid: u32| {
        fs::create_dir(m.path(name)).unwrap();
        std::os::unix::fs::chown(m.path(name), Some(uid), Some(gid)).unwrap();
        fs::set_permissions(m.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    dir("own", 0o700, 1001, 9);
    dir("shared", 0o2770, 0, 2000);
    dir("open", 0o777, 0, 0);
    dir("closed", 0o755, 0, 0);
    // All users but the group may write there, which is odd but possible.
    dir("odd", 0o707, 0, 2000);
    let make = |name: &str| {
        let path = m.path(name);
        File::create(&path).map(|file| file.metadata().unwrap()).map(|meta| (meta.uid(), meta.gid()))
    };
    let denied = |made: std::io::Result<(u32, u32)>| {
        made.unwrap_err().raw_os_error() == Some(Errno::ACCESS.raw_os_error())
    };
    as_user(1001, 1001, &[2000], || {
        assert_eq!(make("own/f").unwrap(), (1001, 1001));
        assert_eq!(make("shared/f").unwrap(), (1001, 2000), "the group comes from the directory");
        assert_eq!(make("open/f").unwrap(), (1001, 1001));
        assert!(denied(make("closed/f")));
        assert!(denied(make("odd/f")), "a member of the group");
        fs::create_dir(m.path("shared/d")).unwrap();
        assert_eq!(fs::metadata(m.path("shared/d")).unwrap().mode() & 0o7777, 0o2755);
    });
    as_user(1002, 1002, &[], || {
        assert!(denied(make("own/g")));
        assert!(denied(make("shared/g")));
        assert_eq!(make("odd/g").unwrap(), (1002, 1002));
        rustix::fs::symlink("x", m.path("open/link")).unwrap();
        assert_eq!(fs::symlink_metadata(m.path("open/link")).unwrap().uid(), 1002);
    });
    assert_eq!(make("closed/f").unwrap(), (0, 0));
    m.end();
}

#[test]
fn sticky_directories_protect_what_is_not_ones_own() {
    let m = Mounted::new();
    fs::create_dir(m.path("tmp")).unwrap();
    fs::set_permissions(m.path("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
    as_user(1001, 1001, &[], || File::create(m.path("tmp/f")).unwrap());
    as_user(1002, 1002, &[], || {
        let error = fs::remove_file(m.path("tmp/f")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::PERM.raw_os_error()));
        let error = fs::rename(m.path("tmp/f"), m.path("tmp/g")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::PERM.raw_os_error()));
    });
    as_user(1001, 1001, &[], || fs::remove_file(m.path("tmp/f")).unwrap());
    m.end();
}

#[test]
fn privileges_go_when_others_change_a_program() {
    let m = Mounted::new();
    fs::create_dir(m.path("d")).unwrap();
    fs::set_permissions(m.path("d"), fs::Permissions::from_mode(0o777)).unwrap();
    let program = m.path("d/program");
    let perm = || fs::metadata(&program).unwrap().mode() & 0o7777;
    let make = |mode| {
        fs::write(&program, b"text").unwrap();
        std::os::unix::fs::chown(&program, None, Some(77)).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
    };
    let open = || OpenOptions::new().write(true).open(&program).unwrap();
    fs::write(m.path("source"), [b's'; 5000]).unwrap();
    // As ext4 does it, for a user outside of the file's group and for a member.
    for (before, [outside, member]) in [
        (0o6777, [0o777; 2]),
        (0o6676, [0o676; 2]),
        (0o2766, [0o766, 0o2766]),
        (0o6666, [0o666, 0o2666]),
        (0o4777, [0o777; 2]),
        (0o666, [0o666; 2]),
    ] {
        for (groups, after) in [(&[][..], outside), (&[77][..], member)] {
            let check = |how: &str, change: &(dyn Fn() + Sync)| {
                make(before);
                as_user(1001, 1001, groups, change);
                assert_eq!(perm(), after, "{before:o} {how}, groups {groups:?}");
            };
            check("written to", &|| open().write_all(b"x").unwrap());
            check("cut off", &|| open().set_len(1).unwrap());
            for flags in [
                FallocateFlags::empty(),
                FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                FallocateFlags::ZERO_RANGE,
            ] {
                check("allocated", &|| rustix::fs::fallocate(open(), flags, 0, 9000).unwrap());
            }
            check("copied to", &|| {
                let from = File::open(m.path("source")).unwrap();
                let copied = rustix::fs::copy_file_range(&from, None, open(), None, 100).unwrap();
                assert_eq!(copied, 100);
            });
        }
    }
    make(0o6777);
    open().write_all(b"x").unwrap();
    assert_eq!(perm(), 0o6777, "root may");
    rustix::fs::setxattr(&program, "security.capability", &CAPABILITY, XattrFlags::empty()).unwrap();
    as_user(1001, 1001, &[], || open().write_all(b"x").unwrap());
    let mut value = [0; 64];
    let left = rustix::fs::getxattr(&program, "security.capability", &mut value[..]);
    assert_eq!(left, Err(Errno::NODATA));
    make(0o6777);
    std::os::unix::fs::chown(&program, Some(5), None).unwrap();
    assert_eq!(perm(), 0o777);
    m.end();
}

const ACCESS_LIST: &str = "system.posix_acl_access";
const DEFAULT_LIST: &str = "system.posix_acl_default";

/// An access control list as setfacl(1) writes it, with permissions of the owner, of user 1001, of the group,
/// of the mask and of others.
fn list([owner, user, group, mask, others]: [u8; 5]) -> [u8; 44] {
    [
        2, 0, 0, 0, //
        1, 0, owner, 0, 0xff, 0xff, 0xff, 0xff, //
        2, 0, user, 0, 0xe9, 3, 0, 0, //
        4, 0, group, 0, 0xff, 0xff, 0xff, 0xff, //
        16, 0, mask, 0, 0xff, 0xff, 0xff, 0xff, //
        32, 0, others, 0, 0xff, 0xff, 0xff, 0xff,
    ]
}

fn get_list(path: &Path, name: &str) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; 5000];
    rustix::fs::getxattr(path, name, &mut value[..]).map(|len| value[..len].to_vec())
}

#[test]
fn access_control_lists_decide_and_follow_the_mode() {
    let m = Mounted::new();
    let (dir, file) = (m.path("d"), m.path("d/f"));
    fs::create_dir(&dir).unwrap();
    fs::write(&file, b"text").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    let chmod = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let set =
        |path: &Path, name: &str, list: &[u8]| rustix::fs::setxattr(path, name, list, XattrFlags::empty());
    let read = |uid| as_user(uid, uid, &[], || fs::read(&file).map_err(|error| error.raw_os_error()));
    let (denied, text) = (Err(Some(Errno::ACCESS.raw_os_error())), Ok(b"text".to_vec()));
    chmod(&dir, 0o700);
    chmod(&file, 0o644);
    assert_eq!(read(1001), denied);
    set(&dir, ACCESS_LIST, &list([7, 5, 5, 7, 0])).unwrap();
    assert_eq!((mode(&dir), read(1001), read(1002)), (0o770, text.clone(), denied.clone()));
    set(&file, ACCESS_LIST, &list([6, 0, 4, 4, 4])).unwrap();
    assert_eq!((mode(&file), read(1001)), (0o644, denied.clone()));
    set(&file, ACCESS_LIST, &list([6, 7, 4, 4, 0])).unwrap();
    assert_eq!((mode(&file), read(1001)), (0o640, text.clone()));
    assert_eq!(get_list(&file, ACCESS_LIST).unwrap(), list([6, 7, 4, 4, 0]));
    assert_eq!(rustix::fs::listxattr_query(&file), Ok(ACCESS_LIST.len() + 1));
    // The mask follows chmod.
    chmod(&file, 0o620);
    assert_eq!(get_list(&file, ACCESS_LIST).unwrap(), list([6, 7, 4, 2, 0]));
    assert_eq!(read(1001), denied);
    chmod(&file, 0o640);
    assert_eq!(read(1001), text);
    // Only the owner sets lists, and a stranger to the group loses the set-group-id bit.
    std::os::unix::fs::chown(&file, Some(1001), Some(77)).unwrap();
    chmod(&file, 0o2640);
    let by =
        |uid, groups: &[u32]| as_user(uid, uid, groups, || set(&file, ACCESS_LIST, &list([6, 7, 4, 4, 0])));
    assert_eq!(by(1002, &[]), Err(Errno::ACCESS), "the directory denies search");
    assert_eq!((by(1001, &[77]), mode(&file)), (Ok(()), 0o2640));
    assert_eq!((by(1001, &[]), mode(&file)), (Ok(()), 0o640));
    chmod(&dir, 0o777);
    set(&dir, ACCESS_LIST, &list([7, 7, 7, 7, 7])).unwrap();
    assert_eq!(by(1002, &[]), Err(Errno::PERM));
    // As ext4 refuses them.
    assert_eq!(set(&file, DEFAULT_LIST, &list([6, 7, 4, 4, 0])), Err(Errno::ACCESS));
    assert_eq!(set(&file, ACCESS_LIST, &list([6, 8, 4, 4, 0])), Err(Errno::INVAL));
    // A list that says no more than the mode is none.
    let minimal =
        [&list([6, 0, 4, 0, 0])[..12], &list([6, 0, 4, 0, 0])[20..28], &list([0; 5])[36..]].concat();
    set(&file, ACCESS_LIST, &minimal).unwrap();
    assert_eq!((mode(&file), get_list(&file, ACCESS_LIST)), (0o640, Err(Errno::NODATA)));
    rustix::fs::removexattr(&dir, ACCESS_LIST).unwrap();
    assert_eq!((mode(&dir), get_list(&dir, ACCESS_LIST)), (0o777, Err(Errno::NODATA)));
    m.end();
}

#[test]
fn default_lists_are_inherited_in_place_of_the_umask() {
    let m = Mounted::new();
    fs::create_dir(m.path("d")).unwrap();
    let run = |script: &str| {
        let shell = std::process::Command::new("sh").args(["-c", script]).current_dir(m.dir.path()).status();
        assert!(shell.unwrap().success(), "{script}");
    };
    let make = "umask 077; mkdir $D/a; mkfifo $D/p; : > $D/f; ln -s f $D/l";
    let modes = || ["d/a", "d/p", "d/f"].map(|name| fs::metadata(m.path(name)).unwrap().mode() & 0o7777);
    run(&make.replace("$D", "d"));
    assert_eq!(modes(), [0o700, 0o600, 0o600], "without a list the umask counts");
    run("rm -r d/*");
    let all = list([7, 7, 5, 7, 1]);
    rustix::fs::setxattr(m.path("d"), DEFAULT_LIST, &all, XattrFlags::empty()).unwrap();
    run(&make.replace("$D", "d"));
    assert_eq!(modes(), [0o771, 0o660, 0o660]);
    assert_eq!(get_list(&m.path("d/a"), DEFAULT_LIST).unwrap(), all);
    assert_eq!(get_list(&m.path("d/a"), ACCESS_LIST).unwrap(), all);
    for name in ["d/f", "d/p"] {
        assert_eq!(get_list(&m.path(name), ACCESS_LIST).unwrap(), list([6, 7, 5, 6, 0]), "{name}");
    }
    // A named user makes files there, which belong to that user.
    rustix::fs::setxattr(m.path("d"), ACCESS_LIST, &list([7, 7, 0, 7, 0]), XattrFlags::empty()).unwrap();
    let made = as_user(1001, 1003, &[], || fs::write(m.path("d/mine"), b"text"));
    made.unwrap();
    let mine = fs::metadata(m.path("d/mine")).unwrap();
    assert_eq!((mine.uid(), mine.gid(), mine.mode() & 0o777), (1001, 1003, 0o660));
    assert!(as_user(1002, 1003, &[], || fs::write(m.path("d/not"), b"text")).is_err());
    m.end();
}

/// A set of file capabilities as setcap(8) writes it: version 2, effective, CAP_NET_RAW.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

#[test]
fn times_of_access_are_kept_as_relatime_has_it_or_not_at_all() {
    let past = rustix::fs::Timespec { tv_sec: 1000, tv_nsec: 5 };
    let times = rustix::fs::Timestamps { last_access: past, last_modification: past };
    for (access_times, kept) in [(AccessTimes::Relative, false), (AccessTimes::Never, true)] {
        let m = Mounted::with(64 << 20, &Options { access_times, ..Options::default() });
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
        assert_eq!(changed(after), before, "reading is no change");
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
        let mut options = Options::default();
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
    let made = rustix::fs::open(m.path(""), OFlags::TMPFILE | OFlags::RDWR, Mode::RWXU);
    assert_eq!(made.map(|_| ()), Err(Errno::OPNOTSUPP));
    assert_eq!(
        fs::write(m.path(&"n".repeat(256)), b"").unwrap_err().raw_os_error(),
        Some(Errno::NAMETOOLONG.raw_os_error())
    );
    drop((one, two, socket));
    m.end();
}

#[test]
fn ranges_are_copied_inside_the_volume() {
    let m = Mounted::new();
    let data = pattern(5 << 20, 11);
    fs::write(m.path("from"), &data).unwrap();
    let (from, to) = (File::open(m.path("from")).unwrap(), File::create(m.path("to")).unwrap());
    let (mut read, mut write) = (0, 100);
    while read < data.len() as u64 {
        let bytes =
            rustix::fs::copy_file_range(&from, Some(&mut read), &to, Some(&mut write), 3 << 20).unwrap();
        assert!(bytes > 0);
    }
    let copy = fs::read(m.path("to")).unwrap();
    assert!(copy[..100] == [0; 100] && copy[100..] == data);
    let all = m.mount().statistics().snapshot();
    assert!(
        all.iter().any(|one| one.operation == Operation::CopyRange && one.count > 0),
        "the volume copied"
    );
    drop((from, to));
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
fn what_was_written_is_there_when_the_mount_has_ended() {
    let image = tempfile::tempdir().unwrap();
    let path = image.path().join("v.lane");
    let volume =
        Volume::create(&path, &CreateOptions { size: 64 << 20, ..CreateOptions::default() }).unwrap();
    let m = Mounted::of(volume, &Options::default());
    fs::write(m.path("f"), b"written").unwrap();
    m.end();
    let volume = Volume::open(&path, lanefs::Access::Read).unwrap();
    assert!(volume.check(false, &|_, _| ()).unwrap().findings.is_empty());
    let (ino, _) = volume.lookup(&Caller::OWNER, volume.root(), b"f").unwrap();
    let mut text = [0; 16];
    assert_eq!(volume.read(&Caller::OWNER, ino, 0, &mut text).unwrap(), 7);
}

#[test]
fn open_files_are_waited_for_and_then_cut_off() {
    let m = Mounted::new();
    let file = File::create(m.path("f")).unwrap();
    let Mounted { mut mount, dir } = m;
    let mount = mount.take().unwrap();
    let stopper = mount.stopper();
    let waiter = std::thread::spawn(move || mount.wait().unwrap());
    stopper.stop();
    while table::find(dir.path()).unwrap().is_some() {
        std::thread::yield_now();
    }
    file.write_all_at(b"still there", 0).unwrap();
    stopper.stop();
    assert_eq!(waiter.join().unwrap(), Ended::CutOff);
    let error = file.write_all_at(b"no longer", 0).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::NOTCONN.raw_os_error()));
}
