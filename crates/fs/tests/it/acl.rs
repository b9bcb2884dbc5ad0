//! Access control lists, compared with those of the host's own file system by random calls. Users other than
//! root call the host from threads of their own.

use lanefs::*;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

const OWNER: Caller = Caller::OWNER;
const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";
const NOBODY: u32 = u32::MAX;

type Entries = Vec<(u16, u16, u32)>;

fn value(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut value = vec![2, 0, 0, 0];
    for (tag, perm, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(perm.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

/// A list with an entry for user 1001, within the mask.
fn with_user(owner: u16, user: u16, mask: u16, others: u16) -> Vec<u8> {
    value(&[(1, owner, NOBODY), (2, user, 1001), (4, 4, NOBODY), (16, mask, NOBODY), (32, others, NOBODY)])
}

fn volume(inode_size: InodeSize) -> Volume {
    let options = CreateOptions { size: 32 << 20, inode_size, ..CreateOptions::default() };
    Volume::create_memory(&options).expect("a volume")
}

fn code<T>(answer: Result<T>) -> std::result::Result<(), Code> {
    answer.map(drop).map_err(|error| error.code())
}

fn assert_sound(volume: &Volume) {
    let report = volume.check(false, &|_, _| {}).expect("a check");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[test]
fn a_list_decides_about_named_users_and_follows_the_mode() {
    for size in [InodeSize::B128, InodeSize::B256] {
        let volume = volume(size);
        let named = Caller::user(1001, 1001, &[]);
        let dir = volume.mkdir(&OWNER, volume.root(), b"d", 0o700).expect("mkdir").ino;
        let file = volume.create_file(&OWNER, dir, b"f", 0o600).expect("create").ino;
        let perm = |ino| volume.getattr(ino).expect("getattr").perm;
        let lookup = |caller: &Caller| code(volume.lookup(caller, dir, b"f"));
        let resolve = |caller: &Caller| {
            let options = ResolveOptions { caller: caller.clone(), ..ResolveOptions::default() };
            volume.resolve_batch(&options, &["/d/f"]).expect("resolve")[0].code
        };
        let set = |caller: &Caller, ino, name: &str, value: &[u8]| {
            code(volume.setxattr(caller, ino, name.as_bytes(), value, XattrMode::Set))
        };
        assert_eq!(lookup(&named), Err(Code::AccessDenied));
        assert_eq!(set(&OWNER, dir, ACCESS, &with_user(7, 5, 7, 0)), Ok(()));
        assert_eq!(perm(dir), 0o770, "the mask");
        assert_eq!((lookup(&named), resolve(&named)), (Ok(()), Code::Success));
        assert_eq!(lookup(&Caller::user(1002, 1002, &[])), Err(Code::AccessDenied));
        assert_eq!(resolve(&Caller::user(1002, 1002, &[])), Code::AccessDenied);
        assert_eq!(
            volume.create_file(&named, dir, b"g", 0o600).map_err(|e| e.code()),
            Err(Code::AccessDenied)
        );
        // chmod changes the mask.
        volume.setattr(&OWNER, dir, &SetAttr { perm: Some(0o740), ..SetAttr::default() }).expect("chmod");
        assert_eq!(volume.getxattr(&OWNER, dir, ACCESS.as_bytes()).expect("list"), with_user(7, 5, 4, 0));
        assert_eq!(lookup(&named), Err(Code::AccessDenied));
        // A list that says no more than the mode is none.
        assert_eq!(set(&OWNER, dir, ACCESS, &value(&[(1, 7, 0), (4, 5, 0), (32, 1, 0)])), Ok(()));
        assert_eq!(perm(dir), 0o751);
        assert!(volume.listxattr(dir).expect("list").is_empty());
        assert_eq!(lookup(&named), Ok(()));
        // Files: reading and writing.
        assert_eq!(set(&OWNER, file, ACCESS, &with_user(6, 4, 6, 0)), Ok(()));
        assert_eq!(volume.read(&named, file, 0, &mut [0]).expect("read"), 0);
        assert_eq!(code(volume.write(&named, file, 0, b"x")), Err(Code::AccessDenied));
        // Only the owner sets lists, and only on some inodes.
        assert_eq!(set(&named, file, ACCESS, &with_user(6, 6, 6, 0)), Err(Code::NotPermitted));
        assert_eq!(code(volume.removexattr(&named, file, ACCESS.as_bytes())), Err(Code::NotPermitted));
        assert_eq!(set(&OWNER, file, DEFAULT, &with_user(6, 6, 6, 0)), Err(Code::AccessDenied));
        assert_eq!(set(&OWNER, file, DEFAULT, b""), Ok(()));
        let link = volume.symlink_at(&OWNER, dir, b"l", b"f").expect("symlink").ino;
        assert_eq!(set(&OWNER, link, ACCESS, &with_user(6, 6, 6, 0)), Err(Code::Unsupported));
        assert_eq!(set(&OWNER, file, ACCESS, &with_user(6, 9, 6, 0)), Err(Code::Invalid));
        assert_eq!(set(&OWNER, file, ACCESS, &vec![0; 5000]), Err(Code::AttributeTooLarge));
        assert_sound(&volume);
        // Removing leaves the mode.
        assert_eq!(code(volume.removexattr(&OWNER, file, ACCESS.as_bytes())), Ok(()));
        assert_eq!(code(volume.removexattr(&OWNER, file, ACCESS.as_bytes())), Ok(()));
        assert_eq!(
            (perm(file), code(volume.read(&named, file, 0, &mut [0]))),
            (0o660, Err(Code::AccessDenied))
        );
        assert_sound(&volume);
    }
}

/// A generator of random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn perm(&mut self) -> u16 {
        self.below(8) as u16
    }

    /// A valid list, now and then one that is not, and whether it is valid.
    fn list(&mut self) -> (Vec<u8>, bool) {
        let mut entries: Entries = vec![(1, self.perm(), NOBODY)];
        for (tag, first) in [(2, 1001), (4, 0), (8, 2001)] {
            if tag == 4 {
                entries.push((4, self.perm(), NOBODY));
                continue;
            }
            for id in first..first + 4 {
                if self.chance(30) {
                    entries.push((tag, self.perm(), id));
                }
            }
        }
        if entries.len() > 2 || self.chance(30) {
            entries.push((16, if self.chance(20) { 0 } else { self.perm() }, NOBODY));
        }
        entries.push((32, self.perm(), NOBODY));
        let is_valid = !self.chance(10);
        if !is_valid {
            let at = self.below(entries.len() as u64) as usize;
            match self.below(3) {
                0 => drop(entries.remove(at)),
                1 => entries[at].1 = 8,
                _ => entries[at].0 = 64,
            }
        }
        (value(&entries), is_valid)
    }
}

/// Users, with a group and further groups.
const USERS: [(u32, u32, &[u32]); 6] = [
    (0, 0, &[]),
    (1001, 2001, &[2002]),
    (1002, 2002, &[]),
    (1003, 2003, &[2001, 2004]),
    (1004, 3000, &[]),
    (1005, 3001, &[2003]),
];

/// Calls `work` as another user, in a thread of its own.
fn as_user<T: Send>((uid, gid, groups): (u32, u32, &[u32]), work: impl FnOnce() -> T + Send) -> T {
    let groups: Vec<Gid> = groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            rustix::thread::set_thread_groups(&groups).expect("this test needs root");
            rustix::thread::set_thread_res_gid(gid, gid, gid).expect("root may");
            rustix::thread::set_thread_res_uid(uid, uid, uid).expect("root may");
            work()
        });
        thread.join().expect("no panic")
    })
}

fn errno(code: std::result::Result<(), Code>) -> std::result::Result<(), Errno> {
    code.map_err(|code| Errno::from_raw_os_error(code.errno()))
}

/// The same tree on the host and on a volume.
struct Both {
    host: PathBuf,
    volume: Volume,
}

impl Both {
    fn ino(&self, path: &str) -> Ino {
        self.volume.resolve_no_follow(format!("/{path}")).expect("the name is there").ino
    }

    /// Calls both as one user. `is_exact`: no call fails for two reasons, of which either may be the error.
    fn call(
        &self,
        (caller, is_exact): (usize, bool),
        what: &str,
        host: impl FnOnce(&Path) -> rustix::io::Result<()> + Send,
        volume: impl FnOnce(&Volume, &Caller) -> Result<()>,
    ) {
        let (uid, gid, groups) = USERS[caller];
        let theirs = as_user(USERS[caller], || host(&self.host));
        let ours = errno(code(volume(&self.volume, &Caller::user(uid, gid, groups))));
        let is_same = if is_exact { theirs == ours } else { theirs.is_ok() == ours.is_ok() };
        assert!(is_same, "{what} by {:?}: the host {theirs:?}, the volume {ours:?}", USERS[caller]);
    }

    /// Compares modes, lists and permissions of one name.
    fn compare(&self, path: &str, what: &str) {
        let (there, ino) = (self.host.join(path), self.ino(path));
        let attr = self.volume.getattr(ino).expect("getattr");
        let mode = std::fs::symlink_metadata(&there).expect("metadata").mode() as u16;
        assert_eq!(format!("{:o}", attr.mode()), format!("{mode:o}"), "{what}: mode of {path}");
        for name in [ACCESS, DEFAULT] {
            let mut value = vec![0; 5000];
            let theirs = rustix::fs::lgetxattr(&there, name, &mut value[..]).map(|len| &value[..len]).ok();
            let ours = self.volume.getxattr(&OWNER, ino, name.as_bytes()).ok();
            assert_eq!(ours.as_deref(), theirs, "{what}: {name} of {path}");
        }
        for user in USERS {
            let caller = Caller::user(user.0, user.1, user.2);
            // The directories above decide first.
            let is_reached = reach(&self.volume, &caller, path).is_ok();
            let ours = self.permissions(&caller, &attr).map(|granted| granted.map(|it| it && is_reached));
            let theirs = as_user(user, || {
                [4, 2, 1, 3].map(|wanted: u32| {
                    let access = rustix::fs::Access::from_bits_retain(wanted as _);
                    rustix::fs::accessat(CWD, &there, access, AtFlags::EACCESS).is_ok()
                })
            });
            for (ours, theirs) in ours.into_iter().zip(theirs) {
                assert!(ours.is_none_or(|ours| ours == theirs), "{what}: {path}, {mode:o}, for {user:?}");
            }
        }
    }

    /// Whether a user may read, write, search, and write and search; `None` where no call of a volume tells.
    fn permissions(&self, caller: &Caller, attr: &Attr) -> [Option<bool>; 4] {
        let (volume, ino) = (&self.volume, attr.ino);
        match attr.kind {
            FileKind::File => [
                Some(volume.read(caller, ino, 0, &mut [0]).is_ok()),
                Some(volume.write(caller, ino, 0, b"").is_ok()),
                None,
                None,
            ],
            FileKind::Directory => {
                let made = volume.create_file(caller, ino, b"probe", 0o600).is_ok();
                if made {
                    volume.unlink(&OWNER, ino, b"probe").expect("unlink");
                }
                let reads = volume.readdir(caller, ino, 0, 1).is_ok();
                [Some(reads), None, Some(volume.lookup(caller, ino, b".").is_ok()), Some(made)]
            }
            _ => [None; 4],
        }
    }
}

#[test]
fn random_calls_have_the_outcome_of_the_host() {
    let temporary = tempfile::tempdir().expect("a directory");
    let host = temporary.path().to_owned();
    std::fs::set_permissions(&host, Permissions::from_mode(0o755)).expect("chmod");
    let probe = rustix::fs::setxattr(&host, ACCESS, &with_user(7, 5, 5, 5), XattrFlags::empty());
    if probe == Err(Errno::OPNOTSUPP) {
        eprintln!("SKIPPED: the temporary directory's file system has no access control lists");
        return;
    }
    rustix::fs::removexattr(&host, ACCESS).expect("removed");
    // Only directories without a default list mask modes, and the volume's callers do.
    // The umask is the process's, and other tests have theirs.
    if std::env::var_os("LANEFS_TEST_ALONE").is_none() {
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        child.args(["--exact", "acl::random_calls_have_the_outcome_of_the_host", "--nocapture"]);
        assert!(child.env("LANEFS_TEST_ALONE", "1").status().expect("run").success());
        return;
    }
    rustix::process::umask(Mode::empty());
    let both = Both { host, volume: volume(InodeSize::B256) };
    both.volume
        .setattr(&OWNER, both.volume.root(), &SetAttr { perm: Some(0o755), ..SetAttr::default() })
        .expect("chmod");
    std::fs::set_permissions(&both.host, Permissions::from_mode(0o755)).expect("chmod");
    let random = &mut Random(20_261_123);
    let mut names: Vec<String> = vec![String::new()];
    for round in 0..1200 {
        let path = names[random.below(names.len() as u64) as usize].clone();
        let is_directory = path.is_empty() || path.ends_with('d');
        let caller = if random.chance(60) { 0 } else { random.below(USERS.len() as u64) as usize };
        let what = match random.below(10) {
            0..4 if !path.is_empty() => {
                let name = if random.chance(60) { ACCESS } else { DEFAULT };
                let (list, is_valid) = random.list();
                let what = format!("{round}: {name} of {path} becomes {list:?}");
                both.call(
                    (caller, caller == 0 && is_valid),
                    &what,
                    |host| rustix::fs::lsetxattr(host.join(&path), name, &list, XattrFlags::empty()),
                    |volume, caller| {
                        let ino = reach(volume, caller, &path)?;
                        volume.setxattr(caller, ino, name.as_bytes(), &list, XattrMode::Set)
                    },
                );
                what
            }
            4 if !path.is_empty() => {
                let name = if random.chance(60) { ACCESS } else { DEFAULT };
                let what = format!("{round}: {name} of {path} goes");
                both.call(
                    (0, true),
                    &what,
                    |host| rustix::fs::lremovexattr(host.join(&path), name),
                    |volume, caller| {
                        let ino = reach(volume, caller, &path)?;
                        volume.removexattr(caller, ino, name.as_bytes())
                    },
                );
                what
            }
            5 if !path.is_empty() && !path.ends_with('l') => {
                let mode = random.below(0o4000) as u16;
                let what = format!("{round}: {path} becomes {mode:o}");
                both.call(
                    (0, true),
                    &what,
                    |host| rustix::fs::chmod(host.join(&path), Mode::from_raw_mode(mode.into())),
                    |volume, caller| {
                        let set = SetAttr { perm: Some(mode), ..SetAttr::default() };
                        volume.setattr(caller, both.ino(&path), &set).map(drop)
                    },
                );
                what
            }
            6 if !path.is_empty() => {
                let (uid, gid) = (1000 + random.below(5) as u32, 2000 + random.below(4) as u32);
                let what = format!("{round}: {path} is given to {uid} and {gid}");
                both.call(
                    (0, true),
                    &what,
                    |host| {
                        let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
                        rustix::fs::chownat(CWD, host.join(&path), uid, gid, AtFlags::SYMLINK_NOFOLLOW)
                    },
                    |volume, caller| {
                        let set = SetAttr { uid: Some(uid), gid: Some(gid), ..SetAttr::default() };
                        volume.setattr(caller, both.ino(&path), &set).map(drop)
                    },
                );
                what
            }
            _ if is_directory && names.len() < 60 => {
                let kind = *[b'f', b'd', b'd', b'p', b'l'].get(random.below(5) as usize).unwrap_or(&b'f');
                let mode = random.below(0o1000) as u16;
                let slash = if path.is_empty() { "" } else { "/" };
                let new = format!("{path}{slash}{round}{}", kind as char);
                make(&both, &new, kind, mode);
                names.push(new.clone());
                both.compare(&new, &format!("{round}: {new} is made with {mode:o}"));
                continue;
            }
            _ => continue,
        };
        both.compare(&path, &what);
    }
    assert!(names.len() > 30);
    assert_sound(&both.volume);
}

/// Finds a name as a user, who needs search permission above it.
fn reach(volume: &Volume, caller: &Caller, path: &str) -> Result<Ino> {
    let options = ResolveOptions { caller: caller.clone(), follow: false, ..ResolveOptions::default() };
    let found = volume.resolve_batch(&options, &[format!("/{path}")])?[0];
    found.ino.ok_or(found.code.into())
}

/// Makes a name as root.
fn make(both: &Both, path: &str, kind: u8, mode: u16) {
    let there = both.host.join(path);
    let (parent, name) = both.volume.resolve_parent(path.as_bytes()).expect("the parent");
    let (volume, caller, bits) = (&both.volume, Caller::user(0, 0, &[]), Mode::from_raw_mode(mode.into()));
    match kind {
        b'f' => {
            rustix::fs::open(&there, OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY, bits).expect("open");
            volume.create_file(&caller, parent, name, mode).expect("create");
        }
        b'd' => {
            rustix::fs::mkdir(&there, bits).expect("mkdir");
            volume.mkdir(&caller, parent, name, mode).expect("mkdir");
        }
        b'p' => {
            rustix::fs::mknodat(CWD, &there, rustix::fs::FileType::Fifo, bits, 0).expect("mkfifo");
            volume.mknod(&caller, parent, name, FileKind::Fifo, mode, 0).expect("mknod");
        }
        _ => {
            rustix::fs::symlink("target", &there).expect("symlink");
            volume.symlink_at(&caller, parent, name, b"target").expect("symlink");
        }
    }
}
