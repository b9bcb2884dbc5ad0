//! Permissions, times and modes: the corner cases that Linux defines and programs rely on.

use lanefs::*;
use std::time::Duration;

const OWNER: Caller = Caller::OWNER;
/// The time of all stamps before each step of a test, so that the stamps of a step are visible.
const LONG_AGO: Time = Time(1_000_000_000);
const DAY: i64 = 24 * 60 * 60 * 1_000_000_000;

fn volume() -> Volume {
    Volume::create_memory(&CreateOptions { size: 32 << 20, ..CreateOptions::default() }).expect("create")
}

/// A user with this number and a group of the same number.
fn user(number: u32) -> Caller {
    Caller::user(number, number, &[])
}

fn code<T>(answer: Result<T>) -> std::result::Result<(), Code> {
    answer.map(drop).map_err(|error| error.code())
}

fn dir(volume: &Volume, name: &str, owner: u32, perm: u16) -> Ino {
    let ino = volume.mkdir(&OWNER, volume.root(), name.as_bytes(), 0o755).expect("mkdir").ino;
    own(volume, ino, owner, perm)
}

fn file(volume: &Volume, at: Ino, name: &str, owner: u32, perm: u16) -> Ino {
    let ino = volume.create_file(&OWNER, at, name.as_bytes(), 0o644).expect("create").ino;
    own(volume, ino, owner, perm)
}

fn own(volume: &Volume, ino: Ino, owner: u32, perm: u16) -> Ino {
    let set = SetAttr { uid: Some(owner), gid: Some(owner), perm: Some(perm), ..SetAttr::default() };
    volume.setattr(&OWNER, ino, &set).expect("setattr");
    ino
}

fn perm(volume: &Volume, ino: Ino) -> u16 {
    volume.getattr(ino).expect("getattr").perm
}

/// The stamps (mtime, ctime) that a step changes, for each inode. The clock ticks in between.
fn stamps(volume: &Volume, inodes: &[Ino], step: impl FnOnce()) -> Vec<&'static str> {
    let before: Vec<Attr> = inodes.iter().map(|ino| volume.getattr(*ino).expect("getattr")).collect();
    std::thread::sleep(Duration::from_millis(12));
    step();
    let change = |(ino, old): (&Ino, &Attr)| {
        let new = volume.getattr(*ino).expect("getattr");
        assert_eq!(new.btime, old.btime);
        match (new.mtime != old.mtime, new.ctime != old.ctime) {
            (false, false) => "",
            (true, true) => "both",
            (false, true) => "ctime",
            (true, false) => "mtime",
        }
    };
    inodes.iter().zip(&before).map(change).collect()
}

#[test]
fn names_that_come_go_and_move_stamp_what_linux_stamps() {
    let v = &volume();
    let (root, a, b) = (v.root(), dir(v, "a", 0, 0o755), dir(v, "b", 0, 0o755));
    let f = file(v, a, "f", 0, 0o644);
    let (_, g) = (file(v, b, "spare", 0, 0o644), file(v, b, "g", 0, 0o644));
    let replace = RenameMode::Replace;
    let done = |answer: Result<()>| answer.expect("it may be done");
    let all = [root, a, b, f, g];
    let create = || v.create_file(&OWNER, a, b"new", 0o644).map(drop);
    assert_eq!(stamps(v, &all, || done(create())), ["", "both", "", "", ""]);
    let link = || v.link(&OWNER, f, b, b"hard").map(drop);
    assert_eq!(stamps(v, &all, || done(link())), ["", "", "both", "ctime", ""]);
    assert_eq!(stamps(v, &all, || done(v.unlink(&OWNER, b, b"hard"))), ["", "", "both", "ctime", ""]);
    let within = || v.rename_at(&OWNER, a, b"f", a, b"f2", replace);
    assert_eq!(stamps(v, &all, || done(within())), ["", "both", "", "ctime", ""]);
    let across = || v.rename_at(&OWNER, a, b"f2", b, b"f", replace);
    assert_eq!(stamps(v, &all, || done(across())), ["", "both", "both", "ctime", ""]);
    // The replaced inode loses a name.
    v.link(&OWNER, g, a, b"g").expect("link");
    let over = || v.rename_at(&OWNER, b, b"f", a, b"g", replace);
    assert_eq!(stamps(v, &all, || done(over())), ["", "both", "both", "ctime", "ctime"]);
    let exchange = || v.rename_at(&OWNER, a, b"g", b, b"g", RenameMode::Exchange);
    assert_eq!(stamps(v, &all, || done(exchange())), ["", "both", "both", "ctime", "ctime"]);
    // Two names of one inode: nothing happens.
    v.link(&OWNER, f, a, b"one").expect("link");
    v.link(&OWNER, f, b, b"two").expect("link");
    let same = || v.rename_at(&OWNER, a, b"one", b, b"two", replace);
    assert_eq!(stamps(v, &all, || done(same())), ["", "", "", "", ""]);
    assert!(v.lookup(&OWNER, a, b"one").is_ok() && v.lookup(&OWNER, b, b"two").is_ok());
    let mkdir = || v.mkdir(&OWNER, a, b"d", 0o755).map(drop);
    assert_eq!(stamps(v, &all, || done(mkdir())), ["", "both", "", "", ""]);
    let links = v.getattr(a).expect("getattr").links;
    assert_eq!(stamps(v, &all, || done(v.rmdir(&OWNER, a, b"d"))), ["", "both", "", "", ""]);
    assert_eq!(v.getattr(a).expect("getattr").links, links - 1);
    // A failure stamps nothing.
    let fails = || assert!(create().is_err() && v.rmdir(&OWNER, root, b"a").is_err());
    assert_eq!(stamps(v, &all, fails), ["", "", "", "", ""]);
    // The last name is removed while the file is held.
    v.hold(g).expect("hold");
    assert_eq!(stamps(v, &[g], || done(v.unlink(&OWNER, a, b"g"))), ["ctime"]);
    let d = dir(v, "d", 0, 0o755);
    v.hold(d).expect("hold");
    assert_eq!(stamps(v, &[root, d], || done(v.rmdir(&OWNER, root, b"d"))), ["both", "ctime"]);
}

#[test]
fn content_and_attributes_stamp_what_linux_stamps() {
    let v = &volume();
    let f = file(v, v.root(), "f", 0, 0o644);
    let set = |set: SetAttr| v.setattr(&OWNER, f, &set).map(drop).expect("setattr");
    let none = SetAttr::default();
    assert_eq!(stamps(v, &[f], || v.write(&OWNER, f, 0, b"x").map(drop).expect("write")), ["both"]);
    assert_eq!(stamps(v, &[f], || v.write(&OWNER, f, 0, b"").map(drop).expect("write")), [""]);
    assert_eq!(stamps(v, &[f], || set(SetAttr { size: Some(9), ..none })), ["both"]);
    assert_eq!(stamps(v, &[f], || set(SetAttr { perm: Some(0o600), ..none })), ["ctime"]);
    assert_eq!(stamps(v, &[f], || set(SetAttr { uid: Some(0), ..none })), ["ctime"]);
    assert_eq!(stamps(v, &[f], || set(SetAttr { atime: Some(LONG_AGO), ..none })), ["ctime"]);
    assert_eq!(stamps(v, &[f], || set(SetAttr { mtime: Some(LONG_AGO), ..none })), ["both"]);
    assert_eq!(stamps(v, &[f], || set(none)), [""]);
    let punch = || v.fallocate(&OWNER, f, Allocate::PunchHole, 0, 5).expect("fallocate");
    assert_eq!(stamps(v, &[f], punch), ["both"]);
    let xattr = || v.setxattr(&OWNER, f, b"user.a", b"1", XattrMode::Set).expect("xattr");
    assert_eq!(stamps(v, &[f], xattr), ["ctime"]);
    assert_eq!(stamps(v, &[f], || v.removexattr(&OWNER, f, b"user.a").expect("xattr")), ["ctime"]);
    let g = file(v, v.root(), "g", 0, 0o644);
    assert_eq!(
        stamps(v, &[f, g], || v.copy_range(&OWNER, f, 0, g, 0, 9).map(drop).expect("copy")),
        ["", "both"]
    );
}

#[test]
fn a_reading_marks_the_time_where_that_is_news() {
    let v = &volume();
    let f = file(v, v.root(), "f", 0, 0o644);
    let times = |atime, mtime| {
        let set = SetAttr { atime: Some(Time(atime)), mtime: Some(Time(mtime)), ..SetAttr::default() };
        v.setattr(&OWNER, f, &set).expect("setattr");
        std::thread::sleep(Duration::from_millis(12));
    };
    let marks = || {
        let before = v.getattr(f).expect("getattr");
        std::thread::sleep(Duration::from_millis(12));
        v.accessed(f, AccessTimes::Relative).expect("accessed");
        let after = v.getattr(f).expect("getattr");
        assert_eq!(Attr { atime: before.atime, ..after }, before, "nothing else changes");
        after.atime != before.atime
    };
    let now = Time::now().0;
    times(now - 10, now - 20);
    assert!(marks(), "the inode changed since: setting times did");
    assert!(!marks(), "it was read since the last change");
    v.write(&OWNER, f, 0, b"x").expect("write");
    assert!(marks() && !marks());
    // Nothing changed since, but a day has passed. Only a clock that is ahead makes a ctime in the past.
    let ahead = Time::now().0 + 100 * DAY;
    times(ahead, now);
    assert!(!marks(), "a time of access in the future stays");
    let access = |rule| {
        let before = v.getattr(f).expect("getattr").atime;
        v.accessed(f, rule).expect("accessed");
        v.getattr(f).expect("getattr").atime != before
    };
    assert!(access(AccessTimes::Always), "also where it is no news");
    v.write(&OWNER, f, 0, b"y").expect("write");
    assert!(!access(AccessTimes::Never), "not even where it is");
    assert_eq!(code(v.accessed(Ino(7), AccessTimes::Relative)), Err(Code::StaleInode));
    let bytes = v.to_bytes().expect("bytes");
    let reader = Volume::open_device(Box::new(MemoryDevice::new(bytes)), Access::Read).expect("open");
    reader.accessed(f, AccessTimes::Always).expect("nothing happens");
}

#[test]
fn both_times_become_now_for_who_may_write_and_others_only_for_the_owner() {
    let v = &volume();
    let f = file(v, v.root(), "f", 1, 0o662);
    let given = SetAttr { mtime: Some(LONG_AGO), ..SetAttr::default() };
    assert_eq!(code(v.setattr(&user(1), f, &given)), Ok(()));
    assert_eq!(code(v.setattr(&user(2), f, &given)), Err(Code::NotPermitted));
    let touched = v.touch(&user(2), f).expect("may write");
    assert!(touched.mtime > LONG_AGO && touched.mtime == touched.atime && touched.ctime == touched.mtime);
    own(v, f, 1, 0o440);
    assert_eq!(code(v.touch(&user(2), f)), Err(Code::AccessDenied));
    assert_eq!(code(v.touch(&user(1), f)), Ok(()), "the owner needs no right to write");
}

#[test]
fn in_a_sticky_directory_only_owners_take_names_away() {
    let v = &volume();
    let sticky = dir(v, "sticky", 1, 0o1777);
    let other = dir(v, "other", 0, 0o777);
    let denied = Err(Code::NotPermitted);
    for (caller, right) in [(2, Ok(())), (1, Ok(())), (3, denied)] {
        let caller = &user(caller);
        let make = |at, name: &str| file(v, at, name, 2, 0o666);
        make(sticky, "f");
        assert_eq!(code(v.unlink(caller, sticky, b"f")), right);
        let _ = v.unlink(&OWNER, sticky, b"f");
        v.mkdir(&user(2), sticky, b"d", 0o777).expect("mkdir");
        assert_eq!(code(v.rmdir(caller, sticky, b"d")), right);
        let _ = v.rmdir(&OWNER, sticky, b"d");
        make(sticky, "f");
        assert_eq!(code(v.rename_at(caller, sticky, b"f", sticky, b"g", RenameMode::Replace)), right);
        let _ = v.unlink(&OWNER, sticky, b"f").or_else(|_| v.unlink(&OWNER, sticky, b"g"));
        make(sticky, "f");
        assert_eq!(code(v.rename_at(caller, sticky, b"f", other, b"f", RenameMode::Replace)), right);
        let _ = v.unlink(&OWNER, sticky, b"f").or_else(|_| v.unlink(&OWNER, other, b"f"));
        // A rename onto an existing file, and an exchange with one.
        make(sticky, "f");
        make(other, "f");
        assert_eq!(code(v.rename_at(caller, other, b"f", sticky, b"f", RenameMode::Exchange)), right);
        assert_eq!(code(v.rename_at(caller, other, b"f", sticky, b"f", RenameMode::Replace)), right);
        let _ = v.unlink(&OWNER, other, b"f");
        v.unlink(&OWNER, sticky, b"f").expect("unlink");
        // Every user may add a name.
        make(other, "new");
        assert_eq!(code(v.rename_at(caller, other, b"new", sticky, b"new", RenameMode::Replace)), Ok(()));
        v.unlink(&OWNER, sticky, b"new").expect("unlink");
    }
}

#[test]
fn a_rename_refuses_what_linux_refuses() {
    let v = &volume();
    let root = v.root();
    let (d, e) = (dir(v, "d", 0, 0o755), dir(v, "e", 0, 0o755));
    let sub = v.mkdir(&OWNER, d, b"sub", 0o755).expect("mkdir").ino;
    file(v, root, "f", 0, 0o644);
    let rename =
        |from, name: &[u8], to, new: &[u8], mode| code(v.rename_at(&OWNER, from, name, to, new, mode));
    let replace = RenameMode::Replace;
    assert_eq!(rename(root, b"d", sub, b"x", replace), Err(Code::Invalid), "into itself");
    assert_eq!(rename(root, b"d", d, b"sub", replace), Err(Code::Invalid), "onto what is below it");
    assert_eq!(rename(d, b"sub", root, b"d", replace), Err(Code::NotEmpty), "onto what is above it");
    assert_eq!(rename(d, b"sub", root, b"d", RenameMode::Exchange), Err(Code::Invalid));
    assert_eq!(rename(root, b"e", root, b"d", replace), Err(Code::NotEmpty));
    assert_eq!(rename(root, b"f", root, b"e", replace), Err(Code::IsDirectory));
    assert_eq!(rename(root, b"e", root, b"f", replace), Err(Code::NotDirectory));
    assert_eq!(rename(root, b"none", root, b"f", replace), Err(Code::NotFound));
    assert_eq!(rename(root, b"e", root, b"f", RenameMode::NoReplace), Err(Code::Exists));
    assert_eq!(rename(root, b"e", root, b"none", RenameMode::Exchange), Err(Code::NotFound));
    let long = [b'n'; 256];
    assert_eq!(rename(root, b"e", root, &long, replace), Err(Code::NameTooLong));
    assert_eq!(rename(root, b"e", root, &long[..255], replace), Ok(()));
    assert_eq!(rename(root, &long[..255], root, b"e", replace), Ok(()));
    for dots in [&b"."[..], b".."] {
        assert_eq!(rename(d, dots, root, b"x", replace), Err(Code::Busy));
        assert_eq!(rename(root, b"e", d, dots, replace), Err(Code::Busy));
        assert_eq!(rename(root, b"e", d, dots, RenameMode::NoReplace), Err(Code::Exists));
    }
    // A directory over an empty one, and the counts of both parents.
    let links = |ino| v.getattr(ino).expect("getattr").links;
    let before = (links(root), links(d));
    assert_eq!(rename(d, b"sub", root, b"e", replace), Ok(()));
    assert_eq!((links(root), links(d)), (before.0, before.1 - 1));
    assert_eq!(code(v.getattr(e)), Err(Code::StaleInode));
    assert_eq!(v.lookup(&OWNER, sub, b"..").expect("lookup").0, root);
    // A directory that gets another parent must be writable.
    let mine = dir(v, "mine", 1, 0o777);
    let theirs = v.mkdir(&OWNER, mine, b"theirs", 0o755).expect("mkdir").ino;
    own(v, d, 1, 0o777);
    own(v, theirs, 2, 0o755);
    let moves = |to, name: &[u8]| code(v.rename_at(&user(1), mine, b"theirs", to, name, replace));
    assert_eq!(moves(d, b"theirs"), Err(Code::AccessDenied));
    own(v, theirs, 2, 0o757);
    assert_eq!(moves(d, b"theirs"), Ok(()));
}

#[test]
fn removals_and_links_refuse_what_linux_refuses() {
    let v = &volume();
    let root = v.root();
    let d = dir(v, "d", 0, 0o755);
    let f = file(v, d, "f", 0, 0o644);
    assert_eq!(code(v.unlink(&OWNER, root, b"d")), Err(Code::IsDirectory));
    assert_eq!(code(v.rmdir(&OWNER, d, b"f")), Err(Code::NotDirectory));
    assert_eq!(code(v.rmdir(&OWNER, root, b"d")), Err(Code::NotEmpty));
    assert_eq!(code(v.rmdir(&OWNER, d, b".")), Err(Code::Invalid));
    assert_eq!(code(v.rmdir(&OWNER, d, b"..")), Err(Code::NotEmpty));
    assert_eq!(code(v.unlink(&OWNER, d, b".")), Err(Code::IsDirectory));
    assert_eq!(code(v.unlink(&user(1), d, b"f")), Err(Code::AccessDenied));
    assert_eq!(code(v.link(&OWNER, d, root, b"x")), Err(Code::NotPermitted));
    assert_eq!(code(v.link(&OWNER, f, root, b"d")), Err(Code::Exists));
    assert_eq!(code(v.link(&user(1), f, root, b"x")), Err(Code::AccessDenied));
    assert_eq!(code(v.link(&OWNER, f, f, b"x")), Err(Code::NotDirectory));
    assert_eq!(code(v.mkdir(&OWNER, root, &[b'n'; 256], 0o755)), Err(Code::NameTooLong));
    assert_eq!(code(v.mkdir(&OWNER, root, b".", 0o755)), Err(Code::Exists));
    assert_eq!(code(v.symlink_at(&OWNER, root, b"s", b"")), Err(Code::NotFound));
    assert_eq!(code(v.symlink_at(&OWNER, root, b"s", &[b't'; 4096])), Err(Code::NameTooLong));
    let device = v.mknod(&user(1), d, b"x", FileKind::CharDevice, 0o600, 5);
    assert_eq!(code(device), Err(Code::AccessDenied));
    own(v, d, 1, 0o755);
    let device = v.mknod(&user(1), d, b"x", FileKind::CharDevice, 0o600, 5);
    assert_eq!(code(device), Err(Code::NotPermitted));
    let cut = |ino, size| v.setattr(&OWNER, ino, &SetAttr { size: Some(size), ..SetAttr::default() });
    assert_eq!(code(cut(d, 0)), Err(Code::IsDirectory));
    let fifo = v.mknod(&OWNER, root, b"fifo", FileKind::Fifo, 0o644, 0).expect("mknod").ino;
    assert_eq!(code(cut(fifo, 0)), Err(Code::Invalid));
    assert_eq!(code(cut(f, u64::MAX)), Err(Code::FileTooLarge));
}

#[test]
fn owners_groups_and_set_id_bits_change_as_linux_changes_them() {
    let v = &volume();
    let root = v.root();
    let f = file(v, root, "f", 1, 0o6755);
    let chown =
        |caller: &Caller, uid, gid| code(v.setattr(caller, f, &SetAttr { uid, gid, ..SetAttr::default() }));
    let chmod = |caller: &Caller, ino, perm| {
        code(v.setattr(caller, ino, &SetAttr { perm: Some(perm), ..SetAttr::default() }))
    };
    let denied = Err(Code::NotPermitted);
    let member = Caller::user(1, 1, &[7]);
    assert_eq!(chown(&member, Some(2), None), denied, "nobody gives a file away");
    assert_eq!(chown(&member, None, Some(9)), denied, "nor to a group that he is not in");
    assert_eq!(chown(&user(2), None, Some(2)), denied);
    assert_eq!(perm(v, f), 0o6755);
    assert_eq!(chown(&member, Some(1), Some(7)), Ok(()));
    assert_eq!(perm(v, f), 0o755, "a change of owner takes the set-id bits");
    assert_eq!(chmod(&user(2), f, 0o777), denied);
    assert_eq!(chmod(&member, f, 0o6755), Ok(()));
    assert_eq!(perm(v, f), 0o6755);
    assert_eq!(chown(&OWNER, Some(1), Some(9)), Ok(()));
    assert_eq!(perm(v, f), 0o755, "root's too");
    assert_eq!(chmod(&member, f, 0o2755), Ok(()));
    assert_eq!(perm(v, f), 0o755, "no set-group-id for who is not in the group");
    let d = dir(v, "keeps", 1, 0o6755);
    let set = SetAttr { gid: Some(8), ..SetAttr::default() };
    v.setattr(&OWNER, d, &set).expect("chown");
    assert_eq!(perm(v, d), 0o6755, "a directory keeps them");
    // A write, a truncation and an allocation by an unprivileged caller.
    for step in 0..3 {
        let caller = user(3);
        let f = file(v, root, &format!("w{step}"), 1, 0o6777);
        match step {
            0 => code(v.write(&caller, f, 0, b"x")),
            1 => code(v.setattr(&caller, f, &SetAttr { size: Some(1), ..SetAttr::default() })),
            _ => code(v.fallocate(&caller, f, Allocate::Extend, 0, 9)),
        }
        .expect("may write");
        assert_eq!(perm(v, f), 0o777, "step {step}");
        own(v, f, 1, 0o6777);
        v.write(&OWNER, f, 0, b"x").expect("write");
        assert_eq!(perm(v, f), 0o6777, "root keeps them");
    }
}

#[test]
fn what_is_made_in_a_set_group_id_directory_has_its_group() {
    let v = &volume();
    let d = dir(v, "d", 0, 0o2777);
    let set = SetAttr { gid: Some(50), ..SetAttr::default() };
    v.setattr(&OWNER, d, &set).expect("chown");
    let caller = user(4);
    let made = v.create_file(&caller, d, b"f", 0o2770).expect("create");
    assert_eq!((made.uid, made.gid, made.perm), (4, 50, 0o770), "a stranger gets no set-group-id program");
    let made = v.create_unnamed(&caller, d, 0o600).expect("create");
    assert_eq!((made.uid, made.gid), (4, 50));
    let made = v.mkdir(&caller, d, b"sub", 0o755).expect("mkdir");
    assert_eq!((made.gid, made.perm), (50, 0o2755), "directories inherit it");
    let made = v.create_file(&caller, v.root(), b"f", 0o644);
    assert_eq!(code(made), Err(Code::AccessDenied));
}

#[test]
fn a_rename_leaves_a_whiteout_of_its_caller_or_nothing_is_done() {
    let v = &Volume::create_memory(&CreateOptions { size: 8 << 20, ..CreateOptions::default() })
        .expect("a volume");
    let root = v.root();
    let d = dir(v, "d", 1, 0o2755);
    let f = file(v, d, "0", 1, 0o644);
    let whiteout = |number: u32| {
        let (old, new) = (number.to_string(), (number + 1).to_string());
        v.rename_at(&user(1), d, old.as_bytes(), d, new.as_bytes(), RenameMode::Whiteout)
    };
    whiteout(0).expect("rename");
    let left = v.lookup(&OWNER, d, b"0").expect("lookup");
    assert_eq!(left.1, FileKind::CharDevice);
    let left = v.getattr(left.0).expect("getattr");
    assert_eq!((left.perm, left.rdev, left.links, left.uid, left.gid), (0, 0, 1, 1, 1));
    // A user who may not change the directory leaves none.
    let stranger = v.rename_at(&user(2), d, b"1", root, b"x", RenameMode::Whiteout);
    assert_eq!(code(stranger), Err(Code::AccessDenied));
    let same = v.rename_at(&user(1), d, b"1", d, b"1", RenameMode::Whiteout);
    assert_eq!((code(same), v.lookup(&OWNER, d, b"1").expect("lookup").0), (Ok(()), f));
    // Each takes an inode, until there is none: then nothing is done.
    let last = (1..).find(|number| match code(whiteout(*number)) {
        Ok(()) => false,
        Err(error) => {
            assert_eq!(error, Code::NoSpace);
            true
        }
    });
    let last = last.expect("the volume is full");
    let before = v.statfs().expect("statfs");
    assert_eq!(code(whiteout(last)), Err(Code::NoSpace));
    assert_eq!(v.lookup(&OWNER, d, last.to_string().as_bytes()).expect("lookup").0, f);
    assert_eq!(code(v.lookup(&OWNER, d, (last + 1).to_string().as_bytes())), Err(Code::NotFound));
    assert_eq!(v.statfs().expect("statfs").inodes, before.inodes);
    assert!(v.check(false, &|_, _| ()).expect("check").findings.is_empty());
    // A rename without a whiteout works on a full volume: it gives the name's space back.
    v.rename_at(&OWNER, d, last.to_string().as_bytes(), d, b"0", RenameMode::Replace).expect("rename");
    assert!(v.check(false, &|_, _| ()).expect("check").findings.is_empty());
}
