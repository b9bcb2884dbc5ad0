//! Batches of changes that conflict: few names, few directories, all of them made, moved and removed within
//! one batch.

use super::op::{Op, Round};
use lanefs::{Caller, FileKind, RenameMode, SetAttr, Volume};
use lanefs_testkit::seeded::Seeded;
use std::ops::Range;

const CALLER: Caller = Caller::OWNER;

/// Directories of most changes; the first five exist at the beginning.
const DIRS: [&str; 9] = ["/a", "/b", "/a/b", "/g", "/w", "/a/b/c", "/g/s", "/x", "/b/c"];

/// Directories that get hundreds of names and lose them.
const CROWDED: [&str; 4] = ["/w", "/a/b", "/g", "/full/of/names"];

/// Names in a crowded directory at most.
const CROWD: u64 = 2000;

/// Few names, two of which have the same hash with the seed of the volumes.
const NAMES: [&str; 9] = ["x", "y", "z", "b", "c", "s", "w", "collision-0061688", "collision-0088900"];

/// Paths through symbolic links, and through files.
const THROUGH: [&str; 12] = [
    "/to-a/x",
    "/to-a/b/y",
    "/a/up/b/y",
    "/dangling/x",
    "/loop/x",
    "/a/b/far/x",
    "/a/long/z",
    "/two/x",
    "/pipe/x",
    "/to-a",
    "/dangling",
    "/a/two",
];

/// Paths with dots.
const DOTS: [&str; 9] = ["/a/../b/x", "/a/./x", "..", ".", "/a/..", "../x", "/..", "/a/b/../../b/y", "x/.."];

/// Makes the tree with which all batches begin.
pub(crate) fn prepare(volume: &Volume) -> lanefs::Result<()> {
    for dir in &DIRS[..5] {
        volume.mkdir_all(dir, 0o755)?;
    }
    let group = SetAttr { gid: Some(77), perm: Some(0o2775), ..SetAttr::default() };
    volume.setattr(&CALLER, volume.resolve("/g")?.ino, &group)?;
    let long = format!("{}a", "./".repeat(400));
    let links = [("/to-a", "a"), ("/a/up", ".."), ("/dangling", "nowhere"), ("/loop", "loop")];
    for (path, to) in links.into_iter().chain([("/a/b/far", "/b"), ("/a/long", &long)]) {
        let (dir, name) = volume.resolve_parent(path.as_bytes())?;
        volume.symlink_at(&CALLER, dir, name, to.as_bytes())?;
    }
    let two = volume.write_file("/two", "two names")?;
    volume.link(&CALLER, two.ino, volume.resolve("/a")?.ino, b"two")?;
    volume.mknod(&CALLER, volume.root(), b"pipe", FileKind::Fifo, 0o600, 0)?;
    Ok(())
}

/// Rounds, all of which follow from a seed, whatever their outcome.
pub(crate) struct Generator {
    numbers: Seeded,
    /// Links, dots and paths that are none are frequent in this round; else they are rare.
    is_wild: bool,
    /// This round has none at all, so an engine can make all changes together.
    is_tame: bool,
    /// The directory that was crowded last, and with which names.
    crowded: (String, Range<u64>),
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Generator {
            numbers: Seeded::new(seed),
            is_wild: false,
            is_tame: false,
            crowded: ("/w".into(), 0..100),
        }
    }

    /// Makes a generator whose rounds have only changes for batches.
    pub(crate) fn tame(seed: u64) -> Self {
        Generator { is_tame: true, ..Self::new(seed) }
    }

    /// Returns the next round.
    pub(crate) fn round(&mut self) -> Round {
        self.is_wild = self.numbers.chance(35) && !self.is_tame;
        let mut ops = self.mood();
        // Moods among one another: a directory of the one is renamed by the other.
        if self.numbers.chance(30) {
            for op in self.mood() {
                let at = self.numbers.below(ops.len() as u64 + 1) as usize;
                ops.insert(at, op);
            }
        }
        let base = if self.is_tame || self.numbers.chance(60) { "/" } else { self.numbers.pick(&DIRS) };
        Round { base: base.into(), ops }
    }

    fn mood(&mut self) -> Vec<Op> {
        match self.numbers.weighted(&[40, 14, 14, 8, 8, 8, 8]) {
            0 => {
                let count = self.numbers.between(1, 250);
                (0..count).map(|_| self.any()).collect()
            }
            1 => self.crowd(),
            2 => self.thin(),
            3 => {
                let (mut ops, more) = (self.thin(), self.crowd());
                ops.extend(more);
                ops.extend(self.thin());
                ops
            }
            4 => self.shift(),
            5 => self.deep(),
            _ => self.wander(),
        }
    }

    fn dir(&mut self) -> String {
        (*self.numbers.pick(&DIRS)).to_owned()
    }

    fn name(&mut self) -> String {
        match self.numbers.below(40) {
            0 => "n".repeat(200),
            1 => "n".repeat(255),
            _ => (*self.numbers.pick(&NAMES)).to_owned(),
        }
    }

    fn path(&mut self) -> Vec<u8> {
        let odd = match (self.is_wild, self.is_tame) {
            (true, _) => [12, 8, 8],
            (_, false) => [0, 0, 2],
            (_, true) => [0; 3],
        };
        let text = match self.numbers.weighted(&[60, 12, 8, odd[0], odd[1], odd[2]]) {
            0 => format!("{}/{}", self.dir(), self.name()),
            1 => self.name(),
            2 => self.dir(),
            3 => (*self.numbers.pick(&THROUGH)).to_owned(),
            4 => (*self.numbers.pick(&DOTS)).to_owned(),
            _ => return self.odd(),
        };
        text.into_bytes()
    }

    /// Paths in an unusual form, and texts that are not a path.
    fn odd(&mut self) -> Vec<u8> {
        let (dir, name) = (self.dir(), self.name());
        match self.numbers.below(12) {
            0 => Vec::new(),
            1 => b"/".to_vec(),
            2 => b"///".to_vec(),
            3 => format!("{dir}//{name}").into_bytes(),
            4 => format!("{dir}/{name}/").into_bytes(),
            5 => format!("/{dir}///{name}///").into_bytes(),
            6 => format!("{dir}/{}", "l".repeat(256)).into_bytes(),
            7 => format!("{}/{name}", "l".repeat(256)).into_bytes(),
            8 => [dir.as_bytes(), b"/a\0b"].concat(),
            9 => format!("{dir}{}/{name}", "/../a".repeat(900)).into_bytes(),
            10 => format!("{dir}/{name}/{name}/{name}").into_bytes(),
            _ => format!("{dir}/").into_bytes(),
        }
    }

    fn perm(&mut self) -> u16 {
        *self.numbers.pick(&[0o644, 0o755, 0o600, 0o2755, 0o1777, 0o4711, 0o17_777, 0])
    }

    fn data(&mut self) -> Vec<u8> {
        let len = match self.numbers.below(10) {
            0..=4 => 0,
            5..=7 => self.numbers.below(200),
            8 => self.numbers.below(5000),
            _ => *self.numbers.pick(&[32, 33, 160, 161, 4096, 4097, 20_000]),
        };
        let mark = self.numbers.bits() as usize;
        (0..len as usize).map(|at| (at.wrapping_mul(7) ^ mark) as u8 | 1).collect()
    }

    fn create(&mut self, path: impl Into<Vec<u8>>) -> Op {
        Op::Create { path: path.into(), perm: self.perm(), data: self.data() }
    }

    fn rename(&mut self, from: impl Into<Vec<u8>>, to: impl Into<Vec<u8>>) -> Op {
        // These are left to the host by every engine.
        let rare = if self.is_wild { [6, 6, 2] } else { [0; 3] };
        let mode = RenameMode::ALL[self.numbers.weighted(&[70, 24, rare[0], rare[1], rare[2]])];
        Op::Rename { from: from.into(), to: to.into(), mode }
    }

    fn any(&mut self) -> Op {
        let path = self.path();
        match self.numbers.weighted(&[34, 10, 12, 16, 10, 18]) {
            0 => self.create(path),
            1 => Op::Mkdir { path, perm: self.perm() },
            2 => {
                let more = if self.numbers.chance(40) {
                    format!("/{}/{}", self.name(), self.name())
                } else {
                    String::new()
                };
                Op::MkdirAll { path: [&path[..], more.as_bytes()].concat(), perm: self.perm() }
            }
            3 => Op::Unlink { path },
            4 => Op::Rmdir { path },
            _ => {
                let to = self.path();
                self.rename(path, to)
            }
        }
    }

    /// The path of an entry of a crowded directory, by its number: long names and short ones, some of them
    /// directories.
    fn crowded(dir: &str, number: u64) -> String {
        let long = match number % 31 {
            0 => 200,
            1 | 2 => 60,
            _ => 0,
        };
        format!("{dir}/n{number}{}", "-".repeat(long))
    }

    fn is_dir(number: u64) -> bool {
        number % 9 == 4
    }

    fn range(&mut self) -> (String, Range<u64>) {
        let dir = match self.numbers.below(5) {
            0 | 1 => format!("/new-{}", self.numbers.below(20)),
            _ => (*self.numbers.pick(&CROWDED)).to_owned(),
        };
        let count = *self.numbers.pick(&[30, 100, 300, 600, 1500]);
        let first = self.numbers.below(CROWD - count);
        (dir, first..first + count)
    }

    /// Hundreds of names in one directory, so that regions are divided.
    fn crowd(&mut self) -> Vec<Op> {
        let (dir, range) = self.range();
        self.crowded = (dir.clone(), range.clone());
        let mut ops = Vec::new();
        // Another entry may have got that name.
        if self.numbers.chance(60) {
            ops.push(Op::Unlink { path: dir.clone().into() });
        }
        ops.push(Op::MkdirAll { path: dir.clone().into(), perm: 0o755 });
        let with_data = self.numbers.chance(30);
        for number in range {
            let path = Self::crowded(&dir, number).into_bytes();
            ops.push(if Self::is_dir(number) {
                Op::Mkdir { path, perm: 0o755 }
            } else {
                let data = if with_data { self.data() } else { Vec::new() };
                Op::Create { path, perm: 0o644, data }
            });
        }
        ops
    }

    /// Removes most of them, so that regions are united; at times all, and the directory too.
    fn thin(&mut self) -> Vec<Op> {
        let (dir, mut range) = if self.numbers.chance(60) { self.crowded.clone() } else { self.range() };
        let kept = *self.numbers.pick(&[0, 0, 3, 10]);
        let is_all = self.numbers.chance(40);
        if is_all {
            range = 0..CROWD;
        }
        let mut ops = Vec::new();
        for number in range {
            if kept > 0 && self.numbers.below(kept) == 0 {
                continue;
            }
            let path = Self::crowded(&dir, number).into_bytes();
            // Some calls are the wrong ones.
            let is_dir = Self::is_dir(number) != (self.numbers.below(100) == 0);
            ops.push(if is_dir { Op::Rmdir { path } } else { Op::Unlink { path } });
        }
        if is_all {
            ops.push(Op::Rmdir { path: dir.into() });
        }
        ops
    }

    /// Renames entries of a crowded directory, there or into another one, and some of these again.
    fn shift(&mut self) -> Vec<Op> {
        let (dir, range) = if self.numbers.chance(60) { self.crowded.clone() } else { self.range() };
        let to_dir =
            if self.numbers.chance(50) { dir.clone() } else { (*self.numbers.pick(&CROWDED)).to_owned() };
        let by = *self.numbers.pick(&[1, 9, 500]);
        let mut ops = Vec::new();
        for number in range {
            let from = Self::crowded(&dir, number);
            let to = Self::crowded(&to_dir, (number + by) % CROWD);
            ops.push(self.rename(from, to));
        }
        if self.numbers.chance(50) {
            ops.reverse();
        }
        ops
    }

    /// A chain of directories, a file at its end, the chain moved and taken down from below.
    fn deep(&mut self) -> Vec<Op> {
        let levels = *self.numbers.pick(&[3, 17, 60, 300]) as usize;
        let top = format!("/{}", self.numbers.pick(&["deep", "deeper", "a/deep", "deep/d/d/d"]));
        let path = |levels: usize| format!("{top}{}", "/d".repeat(levels)).into_bytes();
        let mut ops = vec![Op::MkdirAll { path: path(levels), perm: self.perm() }];
        ops.push(self.create([&path(levels)[..], b"/leaf"].concat()));
        ops.push(self.create([&path(levels / 2)[..], b"/leaf"].concat()));
        if self.numbers.chance(50) {
            let to = self.path();
            ops.push(self.rename(path(levels / 2), to));
            ops.push(Op::MkdirAll { path: path(levels), perm: 0o755 });
        }
        if self.numbers.chance(50) {
            ops.push(Op::Unlink { path: [&path(levels)[..], b"/leaf"].concat() });
            ops.push(Op::Unlink { path: [&path(levels / 2)[..], b"/leaf"].concat() });
            ops.extend((0..=levels).rev().map(|levels| Op::Rmdir { path: path(levels) }));
        }
        ops
    }

    /// Directories get other names while their content changes under the old and the new ones.
    fn wander(&mut self) -> Vec<Op> {
        let mut ops = Vec::new();
        for _ in 0..self.numbers.between(2, 25) {
            let (from, to) = (self.dir(), self.dir());
            for _ in 0..self.numbers.below(6) {
                let dir = if self.numbers.chance(50) { from.clone() } else { to.clone() };
                let path = format!("{dir}/{}", self.name()).into_bytes();
                ops.push(match self.numbers.below(4) {
                    0 => Op::Unlink { path },
                    1 => Op::MkdirAll { path, perm: self.perm() },
                    2 => Op::Rmdir { path },
                    _ => self.create(path),
                });
            }
            let below = if self.numbers.chance(30) { format!("/{}", self.name()) } else { String::new() };
            ops.push(self.rename(from, to + &below));
        }
        ops
    }
}
