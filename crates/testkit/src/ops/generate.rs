//! Generates operations from a seed. It looks at the model, so that most operations have a target.

use super::names::any;
use super::{Bulk, Bytes, Data, EntryPath, Identity, Limits, Op, Profile, bulk_name};
use crate::model::{Model, ROOT};
use crate::one_hash;
use crate::seeded::Seeded;
use lanefs::{Allocate, RenameMode, Seek, SetAttr, Time, XattrMode};
use lanefs_format::{BLOCK, FileKind};
use std::ops::Bound;

/// Bytes of file data in the model above which writes become small.
const MOST_DATA_BYTES: u64 = 24 << 20;

/// A generator of operations.
#[derive(Clone, Debug)]
pub struct Generator {
    numbers: Seeded,
    profile: Profile,
    limits: Limits,
}

impl Generator {
    /// Creates a generator. The seed, the profile, the limits and the model determine all operations.
    pub fn new(seed: u64, profile: Profile, limits: Limits) -> Self {
        Generator { numbers: Seeded::new(seed), profile, limits }
    }

    /// Returns the next operation.
    pub fn next(&mut self, model: &Model) -> Op {
        let p = self.profile;
        let groups = [
            p.make.iter().sum(),
            p.move_and_remove.iter().sum(),
            p.look.iter().sum(),
            p.data.iter().sum(),
            p.attributes.iter().sum(),
            p.whole.iter().sum(),
        ];
        match self.numbers.weighted(&groups) {
            0 => self.make(model),
            1 => self.move_and_remove(model),
            2 => self.look(model),
            3 => self.data(model),
            4 => self.attributes(model),
            _ => self.whole(model),
        }
    }

    fn identity(&mut self) -> Identity {
        match (self.limits.users, self.numbers.chance(self.profile.users)) {
            (true, true) if self.numbers.chance(12) => Identity::Root,
            (true, true) => *self.numbers.pick(&Identity::USERS),
            _ => Identity::Owner,
        }
    }

    fn make(&mut self, model: &Model) -> Op {
        let (caller, at) = (self.identity(), self.new_path(model));
        match self.numbers.weighted(&self.profile.make) {
            0 => Op::Create { caller, at, perm: self.perm(true) },
            1 => {
                let kinds = [FileKind::Fifo, FileKind::Socket, FileKind::CharDevice, FileKind::BlockDevice];
                let kind = kinds[self.numbers.below(if self.limits.devices { 4 } else { 2 }) as usize];
                // Major 8, any minor: the host accepts these, too.
                let device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
                let is_whiteout = self.limits.whiteouts && self.numbers.chance(20);
                let rdev = if device && !is_whiteout { 0x800 + self.numbers.below(256) } else { 0 };
                Op::Mknod { caller, at, kind, perm: self.perm(true), rdev }
            }
            2 => Op::Mkdir { caller, at, perm: self.perm(false) },
            3 => Op::Symlink { caller, at, target: self.target(model) },
            5 if self.limits.whole_files => {
                let data = Data { len: self.numbers.length(70_000) as usize, seed: self.numbers.bits() };
                Op::CreateWhole { caller, at, data, set: self.any_attributes() }
            }
            _ => {
                let caller = if self.limits.user_links { caller } else { Identity::Owner };
                Op::Link { caller, path: self.path(model, |kind| kind != FileKind::Directory), at }
            }
        }
    }

    fn move_and_remove(&mut self, model: &Model) -> Op {
        let caller = self.identity();
        match self.numbers.weighted(&self.profile.move_and_remove) {
            0 => Op::Unlink { caller, at: self.existing_path(model, |kind| kind != FileKind::Directory) },
            1 => Op::Rmdir { caller, at: self.existing_path(model, |kind| kind == FileKind::Directory) },
            2 => {
                let from = self.existing_path(model, |_| true);
                let to = if self.numbers.chance(50) {
                    self.existing_path(model, |_| true)
                } else {
                    self.new_path(model)
                };
                let modes = [
                    RenameMode::Replace,
                    RenameMode::Replace,
                    RenameMode::NoReplace,
                    RenameMode::Exchange,
                    RenameMode::Whiteout,
                    RenameMode::NoReplaceWhiteout,
                ];
                let mode = modes[self.numbers.below(if self.limits.whiteouts { 6 } else { 4 }) as usize];
                Op::Rename { caller, from, to, mode }
            }
            3 => Op::RemoveAll { at: self.existing_path(model, |_| true) },
            _ => {
                let mut path = self.path(model, |kind| kind == FileKind::Directory).0;
                for _ in 0..self.numbers.between(1, 6) {
                    path.push(b'/');
                    path.extend(any(&mut self.numbers));
                }
                Op::MkdirAll { path: Bytes(path), perm: 0o755 }
            }
        }
    }

    fn look(&mut self, model: &Model) -> Op {
        let caller = self.identity();
        match self.numbers.weighted(&self.profile.look) {
            0 => {
                let existing = self.numbers.chance(60);
                let at = if existing { self.existing_path(model, |_| true) } else { self.new_path(model) };
                Op::Lookup { caller, at }
            }
            1 => {
                let with_base = self.limits.bases && self.numbers.chance(30);
                let base = with_base.then(|| self.path(model, |kind| kind == FileKind::Directory));
                let count = self.numbers.length(40);
                let paths = (0..count).map(|_| self.wild_path(model)).collect();
                Op::Resolve { caller, base, paths, follow: self.numbers.chance(60) }
            }
            2 => Op::Stat { path: self.wild_path(model), follow: self.numbers.chance(50) },
            3 => Op::Readlink { path: self.path(model, |kind| kind == FileKind::Symlink) },
            5 if self.limits.stable_cookies => self.list_while(model),
            _ => {
                let path = self.path(model, |kind| kind == FileKind::Directory);
                Op::List { caller, path, page: self.page() }
            }
        }
    }

    fn list_while(&mut self, model: &Model) -> Op {
        let path = self.path(model, |kind| kind == FileKind::Directory);
        let between = (0..self.numbers.between(1, 12))
            .map(|_| {
                let (at, caller) =
                    (EntryPath { dir: path.clone(), name: self.name(model, &path) }, Identity::Owner);
                match self.numbers.below(4) {
                    0 => Op::Create { caller, at, perm: 0o644 },
                    1 => Op::Mkdir { caller, at, perm: 0o755 },
                    2 => Op::Unlink { caller, at },
                    _ => {
                        let to = EntryPath { dir: path.clone(), name: self.name(model, &path) };
                        Op::Rename { caller, from: at, to, mode: RenameMode::Replace }
                    }
                }
            })
            .collect();
        Op::ListWhile { path, page: self.page(), between }
    }

    fn data(&mut self, model: &Model) -> Op {
        let (caller, path) = (self.identity(), self.path(model, |kind| kind == FileKind::File));
        // The end of the file is where most writes happen and where sizes go wrong.
        let end = plain(model, &path).and_then(|file| Some(model.content(file)?.size()));
        let offset = match end {
            Some(end) if self.numbers.chance(25) => {
                (end + self.numbers.below(3)).saturating_sub(self.numbers.below(3))
            }
            _ => self.offset(),
        };
        let room = self.limits.most_offset.saturating_sub(offset).saturating_add(4096);
        match self.numbers.weighted(&self.profile.data) {
            0 => Op::Read { caller, path, offset, len: self.numbers.length(300_000).min(room) as usize },
            1 => {
                let most = if model.data_bytes() > MOST_DATA_BYTES { 4096 } else { 3 << 20 };
                let most = if self.numbers.chance(90) { most.min(70_000) } else { most };
                let data = Data { len: self.numbers.length(most) as usize, seed: self.numbers.bits() };
                Op::Write { caller, path, offset, data }
            }
            2 => Op::Set {
                caller,
                path,
                follow: true,
                set: SetAttr { size: Some(offset), ..SetAttr::default() },
            },
            3 => {
                if self.limits.shift_range && self.numbers.chance(30) {
                    return self.shift(caller, path, end.unwrap_or(0));
                }
                let modes = [Allocate::PunchHole, Allocate::Extend, Allocate::KeepSize, Allocate::ZeroRange];
                let mode = modes[self.numbers.below(if self.limits.zero_range { 4 } else { 3 }) as usize];
                let len = match self.numbers.below(20) {
                    0 => 3 << 20,
                    1 if mode == Allocate::PunchHole => self.limits.most_offset / 2,
                    _ => self.numbers.length(100_000),
                };
                Op::Fallocate { caller, path, mode, offset, len }
            }
            _ => {
                let what = if self.numbers.chance(50) { Seek::Data } else { Seek::Hole };
                Op::Seek { path, offset, what }
            }
        }
    }

    /// Removes or inserts a range of a file of `end` bytes, mostly one that can be.
    fn shift(&mut self, caller: Identity, path: Bytes, end: u64) -> Op {
        let modes = [Allocate::CollapseRange, Allocate::InsertRange];
        let mode = *self.numbers.pick(&modes);
        let bits = if self.numbers.chance(90) { BLOCK - 1 } else { 0 };
        let offset = self.numbers.below(end.min(self.limits.most_offset / 2) + 1) & !bits;
        let most = if self.numbers.chance(90) { 40_000 } else { 3 << 20 };
        let len = (self.numbers.length(most) & !bits).max(BLOCK * u64::from(bits != 0));
        Op::Fallocate { caller, path, mode, offset, len }
    }

    fn attributes(&mut self, model: &Model) -> Op {
        let caller = self.identity();
        let mut set = SetAttr::default();
        match self.numbers.weighted(&self.profile.attributes) {
            0 => {
                // The permissions of a symbolic link mean nothing, and Linux refuses to change them.
                let path = self.path(model, |kind| kind != FileKind::Symlink);
                set.perm = Some(self.perm(true));
                return Op::Set { caller, path, follow: true, set };
            }
            1 => {
                let ids = [0, 1000, 1001, 1002, 70_000];
                set.uid = self.numbers.chance(40).then(|| *self.numbers.pick(&ids));
                set.gid = (set.uid.is_none() || self.numbers.chance(50)).then(|| *self.numbers.pick(&ids));
            }
            2 => {
                let times = [self.time(), self.time()];
                set.atime = self.numbers.chance(60).then_some(times[0]);
                set.mtime = (set.atime.is_none() || self.numbers.chance(50)).then_some(times[1]);
            }
            _ if self.limits.xattrs => return self.xattr(model, caller),
            _ => set.mtime = Some(self.time()),
        }
        Op::Set { caller, path: self.path(model, |_| true), follow: self.numbers.chance(70), set }
    }

    /// The attributes of a new file: any of them, and mostly those that its maker may set.
    fn any_attributes(&mut self) -> SetAttr {
        let is_given_away = self.numbers.chance(15);
        let ids = [0, 1000, 1001, 1002, 70_000];
        let times = [self.time(), self.time()];
        SetAttr {
            perm: self.numbers.chance(80).then(|| self.perm(true)),
            uid: is_given_away.then(|| *self.numbers.pick(&ids)),
            gid: (is_given_away && self.numbers.chance(50)).then(|| *self.numbers.pick(&ids)),
            size: self.numbers.chance(4).then(|| self.numbers.length(90_000)),
            atime: self.numbers.chance(50).then_some(times[0]),
            mtime: self.numbers.chance(70).then_some(times[1]),
        }
    }

    fn xattr(&mut self, model: &Model, caller: Identity) -> Op {
        let trusted = self.limits.trusted && self.numbers.chance(20);
        // Only files and directories have `user.` attributes; any inode may have others.
        let holds = |kind| matches!(kind, FileKind::File | FileKind::Directory);
        let path = self.path(model, |kind| trusted || holds(kind));
        let follow = !trusted || self.numbers.chance(70);
        let space: &[u8] = if trusted { b"trusted." } else { b"user." };
        let mut name = space.to_vec();
        match self.numbers.below(20) {
            0 => name.resize(255, b'z'),
            1 => name.resize(256, b'z'),
            _ => name.push(b'a' + self.numbers.below(6) as u8),
        }
        let name = Bytes(name);
        match self.numbers.below(6) {
            0 => Op::Getxattr { caller, path, follow, name },
            1 => Op::Listxattr { path, follow },
            2 => Op::Removexattr { caller, path, follow, name },
            _ => {
                let most = if self.numbers.chance(90) {
                    self.limits.most_value.min(500)
                } else {
                    self.limits.most_value
                };
                let value = Data { len: self.numbers.length(most) as usize, seed: self.numbers.bits() };
                let modes = [XattrMode::Set, XattrMode::Set, XattrMode::Create, XattrMode::Replace];
                Op::Setxattr { caller, path, follow, name, value, mode: *self.numbers.pick(&modes) }
            }
        }
    }

    fn whole(&mut self, model: &Model) -> Op {
        match self.numbers.weighted(&self.profile.whole) {
            0 => {
                let dir = self.dir(model);
                let kinds =
                    [Bulk::Files, Bulk::Files, Bulk::Remove, Bulk::Remove, Bulk::Links, Bulk::Directories];
                let count = self.numbers.length(self.profile.most_bulk);
                let (first, step) =
                    (self.numbers.below(self.profile.most_bulk + 1), self.numbers.between(1, 3));
                Op::Bulk { dir, what: *self.numbers.pick(&kinds), first, step, count }
            }
            1 => {
                let (dir, make) = (self.dir(model), self.numbers.chance(60));
                // More than an index has slots for, or a few.
                let all = one_hash::names().len() as u64;
                let is_many = self.profile.most_bulk > all / 2 && self.numbers.chance(60);
                let (first, count) = match (is_many, make) {
                    (true, true) => (self.numbers.below(3), self.numbers.between(260, all)),
                    (true, false) => (self.numbers.below(all), self.numbers.between(1, all)),
                    _ => (self.numbers.below(all), self.numbers.between(1, 24)),
                };
                Op::OneHash { dir, make, first: first as usize, count: count as usize }
            }
            2 => Op::Sync,
            _ => Op::Reopen,
        }
    }

    fn perm(&mut self, set_ids: bool) -> u16 {
        let usual = [0o644, 0o755, 0o777, 0o700, 0o600, 0o000, 0o1777, 0o750, 0o711, 0o770];
        let perm = if self.numbers.chance(75) {
            *self.numbers.pick(&usual)
        } else {
            self.numbers.below(0o10000) as u16
        };
        let perm = if self.limits.sticky { perm } else { perm & 0o6777 };
        match (set_ids, self.numbers.chance(10)) {
            (true, true) => perm | 0o6000,
            (true, false) => perm,
            // mkdir(2) ignores set-id bits, the volume's call keeps them.
            (false, _) => perm & 0o1777,
        }
    }

    /// A time from 1902 to 2200, in whole nanoseconds: the host's file systems can store it, too.
    fn time(&mut self) -> Time {
        Time::from_parts(
            self.numbers.below(4_100_000_000) as i64 - 2_100_000_000,
            self.numbers.below(1_000_000_000) as u32,
        )
    }

    fn page(&mut self) -> usize {
        *self.numbers.pick(&[1, 2, 7, 32, 100, 1000, 100_000])
    }

    /// Mostly near the start, at times near the bounds of blocks and of the map's levels, seldom far out.
    fn offset(&mut self) -> u64 {
        let bounds = [160, 4096, 8192, 2 << 20, 4 << 20, 1 << 30, 1 << 39, 1 << 48, self.limits.most_offset];
        let offset = match self.numbers.below(100) {
            0..25 => self.numbers.below(300),
            25..60 => self.numbers.below(40_000),
            60..80 => self.numbers.below(600_000),
            80..90 => self.numbers.below(12 << 20),
            _ => (*self.numbers.pick(&bounds) + self.numbers.below(200)).saturating_sub(100),
        };
        offset.min(self.limits.most_offset + 50)
    }

    /// A symbolic link's target: mostly a path that exists, absolute or relative; at times nonsense or a
    /// loop.
    fn target(&mut self, model: &Model) -> Bytes {
        let mut target = self.wild_path(model).0;
        if self.numbers.chance(40) {
            let relative: Vec<u8> = target.iter().copied().skip_while(|byte| *byte == b'/').collect();
            target = if relative.is_empty() { b".".to_vec() } else { relative };
        }
        match self.numbers.below(60) {
            0 => target.resize(4095, b'q'),
            1 => target.resize(4096, b'q'),
            2 => target.resize(161, b'q'),
            _ => {}
        }
        Bytes(target)
    }

    fn dir(&mut self, model: &Model) -> Bytes {
        if self.numbers.chance(self.profile.flat) {
            return Bytes(b"/".to_vec());
        }
        self.path(model, |kind| kind == FileKind::Directory)
    }

    fn new_path(&mut self, model: &Model) -> EntryPath {
        let dir = self.dir(model);
        let wide = self.profile.most_bulk > 1000 && self.numbers.chance(60);
        let name = if wide { bulk_name(self.numbers.below(9000)) } else { any(&mut self.numbers) };
        EntryPath { dir, name: Bytes(name) }
    }

    fn existing_path(&mut self, model: &Model, fits: impl Fn(FileKind) -> bool) -> EntryPath {
        if self.numbers.chance(self.profile.existing) {
            for _ in 0..6 {
                let mut way = self.walk(model);
                let kind = way.1;
                if fits(kind)
                    && let Some(name) = way.0.pop()
                {
                    return EntryPath { dir: joined(&way.0), name: Bytes(name) };
                }
            }
        }
        self.new_path(model)
    }

    /// A name in one directory: an existing one, or any.
    fn name(&mut self, model: &Model, dir: &Bytes) -> Bytes {
        if self.numbers.chance(70)
            && let Some((name, _)) = plain(model, dir).and_then(|at| self.child(model, at))
        {
            return Bytes(name);
        }
        let mut name = any(&mut self.numbers);
        if name == b"." || name == b".." {
            name = bulk_name(self.numbers.below(9000));
        }
        Bytes(name)
    }

    fn path(&mut self, model: &Model, fits: impl Fn(FileKind) -> bool) -> Bytes {
        if self.numbers.chance(self.profile.existing) {
            for _ in 0..8 {
                let way = self.walk(model);
                if fits(way.1) {
                    return joined(&way.0);
                }
            }
        }
        self.wild_path(model)
    }

    /// A path that may exist, spelled in any of the ways in which paths are spelled.
    fn wild_path(&mut self, model: &Model) -> Bytes {
        let mut names = self.walk(model).0;
        if self.numbers.chance(40) {
            names.push(any(&mut self.numbers));
        }
        let mut path = Vec::new();
        for name in names {
            path.push(b'/');
            match self.numbers.below(40) {
                0 => path.push(b'/'),
                1 => path.extend(b"./"),
                2 => path.extend(b"../"),
                _ => {}
            }
            path.extend(name);
            if self.numbers.below(40) == 0 {
                path.extend(b"/..");
            }
        }
        match self.numbers.below(20) {
            0 => path.push(b'/'),
            1 => path.extend(b"/."),
            _ if path.is_empty() => path.push(b'/'),
            _ => {}
        }
        Bytes(path)
    }

    /// A random walk down from the root: its names, and the type at its end.
    fn walk(&mut self, model: &Model) -> (Vec<Vec<u8>>, FileKind) {
        let (mut at, mut names) = (ROOT, Vec::new());
        while names.len() < 12 && (names.is_empty() || self.numbers.chance(75)) {
            let Some((name, child)) = self.child(model, at) else { break };
            names.push(name);
            at = child;
        }
        (names, model.kind(at).unwrap_or(FileKind::Directory))
    }

    fn child(&mut self, model: &Model, dir: u64) -> Option<(Vec<u8>, u64)> {
        let entries = model.entries(dir).filter(|entries| !entries.is_empty())?;
        let (name, child) = if entries.len() <= 40 {
            entries.iter().nth(self.numbers.below(entries.len() as u64) as usize)?
        } else {
            // A wide directory is not walked: the successor of a random name of the series is enough.
            let is_one_hash = self.numbers.chance(25);
            let start = if is_one_hash {
                self.numbers.pick(one_hash::names()).clone()
            } else {
                bulk_name(self.numbers.below(9000))
            };
            entries
                .range::<[u8], _>((Bound::Included(&start[..]), Bound::Unbounded))
                .next()
                .or(entries.iter().next())?
        };
        Some((name.clone(), *child))
    }
}

/// The inode of a path without symbolic links and dots.
fn plain(model: &Model, path: &Bytes) -> Option<u64> {
    let mut names = path.0.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    names.try_fold(ROOT, |at, name| model.entries(at)?.get(name).copied())
}

fn joined(names: &[Vec<u8>]) -> Bytes {
    if names.is_empty() {
        return Bytes(b"/".to_vec());
    }
    let mut path = Vec::new();
    for name in names {
        path.push(b'/');
        path.extend(name);
    }
    Bytes(path)
}
