//! Workloads: lists of steps that follow from a family and a number.

use super::alphabet::alphabet;
use super::base::{ATTRIBUTES_FILES, BYTES, Base, ONE_HASH_NAMES, ROOM, attributes_file, one_hash_path};
use super::op::{CrashOp, CrashStep, Persist, some_attributes};
use crate::seeded::Seeded;
use lanefs::{Allocate, RenameMode};
use std::fmt;
use std::str::FromStr;

/// A kind of workload. The numbers of `Seq1` are all there are; those of the others are seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Every operation of the alphabet, each followed by nothing, fsync of the file, of its directory, or
    /// sync.
    Seq1,
    /// Two operations.
    Seq2,
    /// Three operations.
    Seq3,
    /// 100 to 200 random operations on a nearly full volume.
    Long,
    /// 150 to 250 operations on directories of many long names, which are hash trees.
    Wide,
    /// 30 to 50 operations on a full volume in which large attributes are replaced by large files: metadata
    /// blocks become file data.
    Churn,
    /// 6 to 14 operations, some of which grow the volume.
    Grow,
    /// 10 to 25 operations that make files of data and holes, and copy ranges of them. They need more commits
    /// than one.
    Copies,
    /// 15 to 40 operations on a directory with as many names of one hash as its index has slots for, or a few
    /// more.
    OneHash,
}

impl Family {
    /// All of them.
    pub const ALL: [Family; 9] = [
        Family::Seq1,
        Family::Seq2,
        Family::Seq3,
        Family::Long,
        Family::Wide,
        Family::Churn,
        Family::Grow,
        Family::Copies,
        Family::OneHash,
    ];

    /// Returns the number of workloads, where they are few enough to be listed.
    pub fn count(self) -> Option<u64> {
        match self {
            Family::Seq1 => Some(alphabet().len() as u64 * Persist::ALL.len() as u64),
            _ => None,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::Seq1 => "seq1",
            Family::Seq2 => "seq2",
            Family::Seq3 => "seq3",
            Family::Long => "long",
            Family::Wide => "wide",
            Family::Churn => "churn",
            Family::Grow => "grow",
            Family::OneHash => "one-hash",
            Family::Copies => "copies",
        })
    }
}

impl FromStr for Family {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Family::ALL.into_iter().find(|family| family.to_string() == text).ok_or_else(|| {
            let names = Family::ALL.map(|family| family.to_string()).join(", ");
            format!("{text}: no family of workloads ({names})")
        })
    }
}

/// The operations on a volume before the crash. The last one is a close.
#[derive(Clone, Debug)]
pub struct Workload {
    pub(super) base: Base,
    /// Variant of the base.
    pub(super) variant: u64,
    /// Seed of the random choices of crash states.
    pub(super) seed: u64,
    pub(super) steps: Vec<CrashStep>,
}

impl Workload {
    /// The workload of this family and number.
    pub fn new(family: Family, number: u64) -> Self {
        let seed = Seeded::new(number ^ (family as u64) << 56).bits();
        let mut random = Seeded::new(seed);
        let (base, steps) = match family {
            Family::Seq1 => (Base::Tree, vec![nth(number)]),
            Family::Seq2 => (Base::Tree, (0..2).map(|_| any(&mut random)).collect()),
            Family::Seq3 => (Base::Tree, (0..3).map(|_| any(&mut random)).collect()),
            Family::Long => {
                let steps = random.between(100, 200);
                (Base::Full, (0..steps).map(|_| long(&mut random)).collect())
            }
            Family::Wide => {
                let steps = random.between(150, 250);
                (Base::Tree, (0..steps).map(|_| wide(&mut random)).collect())
            }
            Family::Churn => {
                let steps = random.between(30, 50);
                (Base::Attributes, (0..steps).map(|index| churn(&mut random, index)).collect())
            }
            Family::Grow => {
                let steps = random.between(6, 14);
                (Base::Growing, (0..steps).map(|_| growing(&mut random)).collect())
            }
            Family::OneHash => {
                let steps = random.between(15, 40);
                (Base::OneHash, (0..steps).map(|_| of_one_hash(&mut random)).collect())
            }
            Family::Copies => {
                let steps = random.between(10, 25);
                (Base::Tree, (0..steps).map(|_| copies(&mut random)).collect())
            }
        };
        Workload { base, variant: random.bits(), seed, steps }
    }
}

/// Step `number` of the alphabet: the operation changes slowest.
fn nth(number: u64) -> CrashStep {
    let all = alphabet();
    let ways = Persist::ALL.len() as u64;
    let op = all[(number / ways % all.len() as u64) as usize].clone();
    CrashStep { op, then: Persist::ALL[(number % ways) as usize] }
}

fn any(random: &mut Seeded) -> CrashStep {
    nth(random.below(alphabet().len() as u64 * Persist::ALL.len() as u64))
}

/// A random step among many names and little space.
fn long(random: &mut Seeded) -> CrashStep {
    let mut file = || format!("/d{}/{}", random.below(3), random.below(24));
    let (path, other) = (file(), file());
    let len = *random.pick(&[0, 10, 100, 500, 4096, 9000, 40_000]);
    let at = *random.pick(&[0, 0, 50, 700, 4096, 5000, 30_000]);
    let op = match random.below(28) {
        0..=2 => CrashOp::Create(path),
        3 => CrashOp::Whole(path, len),
        4..=8 => CrashOp::Write(path, None, len),
        9..=10 => CrashOp::Write(path, Some(at), len),
        11..=13 => CrashOp::Unlink(path),
        14 => CrashOp::Truncate(path, 0),
        15 => CrashOp::Truncate(path, at),
        16 => {
            let modes = [Allocate::Extend, Allocate::KeepSize, Allocate::PunchHole, Allocate::ZeroRange];
            match random.below(6) {
                0 => CrashOp::Fallocate(path, Allocate::CollapseRange, at & !4095, 4096),
                1 => CrashOp::Fallocate(path, Allocate::InsertRange, at & !4095, 8192),
                _ => CrashOp::Fallocate(path, *random.pick(&modes), at, len as u64 + 1),
            }
        }
        17..=18 => {
            let modes =
                [RenameMode::Replace, RenameMode::Replace, RenameMode::Exchange, RenameMode::Whiteout];
            CrashOp::Rename(path, other, *random.pick(&modes))
        }
        19 => CrashOp::Link(path, other),
        20 => CrashOp::Mkdir(format!("{}sub", &path[..4])),
        21 => CrashOp::Rmdir(format!("{}sub", &path[..4])),
        22 => CrashOp::SetXattr(path, "user.new", len % 10_000),
        23 => CrashOp::Hold(path),
        24 => CrashOp::Orphan(path),
        25 => CrashOp::WriteOrphan(at, len),
        26 => CrashOp::Release,
        _ => CrashOp::SetAttr(path, some_attributes(random.below(100))),
    };
    let then = match random.below(48) {
        0 => Persist::File,
        1 => Persist::Directory,
        2 | 3 => Persist::Sync,
        _ => Persist::Nothing,
    };
    CrashStep { op, then }
}

/// A random step among long names, which soon take many blocks; more are added than removed.
fn wide(random: &mut Seeded) -> CrashStep {
    let dirs = ["/a", "/a", "/a", "/b/full"];
    let mut name = || {
        let (dir, number) = (random.pick(&dirs), random.below(300));
        // The length follows from the number, so that names repeat.
        format!("{dir}/{number:x>width$}", width = 20 + (number * 37 % 200) as usize)
    };
    let (path, other) = (name(), name());
    let op = match random.below(22) {
        0..=8 => CrashOp::Create(path),
        9..=10 => CrashOp::Whole(path, random.below(9000) as usize),
        11 => CrashOp::Mkdir(path),
        12 => CrashOp::Symlink(path, "t".repeat(random.between(1, 300) as usize)),
        13 => CrashOp::Link(path, other),
        14 => CrashOp::Write(path, None, random.between(1, 9000) as usize),
        15 => CrashOp::SetXattr(path, "user.new", random.between(0, 5000) as usize),
        16 | 17 => CrashOp::Unlink(path),
        18 => CrashOp::Rmdir(path),
        19 => CrashOp::Orphan(path),
        20 => CrashOp::Release,
        _ => CrashOp::Rename(path, other, RenameMode::Replace),
    };
    let then = match random.below(240) {
        0 => Persist::File,
        1 => Persist::Directory,
        2 => Persist::Sync,
        _ => Persist::Nothing,
    };
    CrashStep { op, then }
}

/// A step among the last names of one hash that the directory has from the start, and further ones.
fn of_one_hash(random: &mut Seeded) -> CrashStep {
    let mut name = || one_hash_path(random.between(ONE_HASH_NAMES as u64 - 20, ONE_HASH_NAMES as u64 + 44));
    let (path, other) = (name(), name());
    let op = match random.below(12) {
        0..=3 => CrashOp::Link("/a/file".to_owned(), path),
        4 => CrashOp::Create(path),
        5..=7 => CrashOp::Unlink(path),
        8 => CrashOp::Rename(path, other, RenameMode::Replace),
        9 => CrashOp::Rename(path, other, RenameMode::Exchange),
        10 => CrashOp::Rename(path, format!("/b/{}", random.below(4)), RenameMode::Replace),
        _ => CrashOp::Rename(format!("/b/{}", random.below(4)), path, RenameMode::Replace),
    };
    let then = match random.below(12) {
        0 => Persist::Directory,
        1 => Persist::Sync,
        _ => Persist::Nothing,
    };
    CrashStep { op, then }
}

/// A step of a workload on a device with room. A size below the present one changes nothing.
fn growing(random: &mut Seeded) -> CrashStep {
    match random.below(4) {
        0 => {
            let size = random.between(BYTES, ROOM) & !4095;
            CrashStep { op: CrashOp::Grow(size), then: *random.pick(&[Persist::Nothing, Persist::Sync]) }
        }
        1 => wide(random),
        _ => any(random),
    }
}

/// A step of a workload that empties a metadata chunk and writes data there.
fn churn(random: &mut Seeded, index: u64) -> CrashStep {
    let data = |number: u64| format!("/b/d{number}");
    let new = |number: u64| format!("/a/n{number}");
    let op = match random.below(22) {
        _ if index < ATTRIBUTES_FILES => CrashOp::Unlink(attributes_file(index)),
        0..=3 => CrashOp::Create(data(random.below(5))),
        4..=10 => CrashOp::Write(data(random.below(5)), None, random.between(10_000, 200_000) as usize),
        11 | 12 => CrashOp::Unlink(data(random.below(5))),
        13 => CrashOp::Truncate(data(random.below(5)), random.below(100_000)),
        14 | 15 => CrashOp::Create(new(random.below(4))),
        16..=18 => CrashOp::SetXattr(new(random.below(4)), "user.a", random.between(1, 40_000) as usize),
        19 => CrashOp::Orphan(data(random.below(5))),
        20 => CrashOp::Release,
        _ => CrashOp::Unlink(new(random.below(4))),
    };
    let then = match random.below(16) {
        0 => Persist::File,
        1 => Persist::Sync,
        _ => Persist::Nothing,
    };
    CrashStep { op, then }
}

/// A step among few files of many pieces: half of the steps copy.
fn copies(random: &mut Seeded) -> CrashStep {
    let files = ["/a/file", "/b/file", "/b/full/x"];
    let (from, path) = (random.pick(&files).to_string(), random.pick(&files).to_string());
    let mut block = || 4096 * random.below(60);
    let (one, two) = (block(), block());
    let len = random.between(1, 250_000);
    let op = match random.below(16) {
        // They fill the journal, so that commits come at any point of a copy in parts.
        12.. => CrashOp::SetXattr(path, "user.new", random.between(1, 50_000) as usize),
        0..=1 => CrashOp::Write(path, Some(one), random.between(1, 9000) as usize),
        2 => CrashOp::Truncate(path, one),
        3..=4 => CrashOp::Fallocate(path, Allocate::PunchHole, one, len),
        5 => CrashOp::Write(path, Some(one + 1000), random.between(1, 30_000) as usize),
        6..=9 => CrashOp::Copy(from, one, path, two, len),
        _ => CrashOp::Copy(from, one + 700, path, two + 90, len),
    };
    let then = match random.below(10) {
        0 => Persist::File,
        1 => Persist::Sync,
        _ => Persist::Nothing,
    };
    CrashStep { op, then }
}

#[cfg(test)]
mod tests {
    use super::super::fill::fill;
    use super::*;

    #[test]
    fn churn_puts_file_data_where_metadata_were() -> Result<(), String> {
        use crate::crash::{DeviceEvent, record};
        for number in 0..3 {
            let recording = record(&Workload::new(Family::Churn, number))?;
            let data = fill(1, 0, 1)[0];
            let was_metadata = |at: u64| {
                let mut first = [0];
                recording.base.read(at, &mut first) && first[0] != 0 && first[0] != data
            };
            let over_metadata = |event: &DeviceEvent| {
                let DeviceEvent::Write { at, data: bytes } = event else { return 0 };
                let blocks = bytes.chunks(4096).enumerate();
                blocks.filter(|(i, b)| b[0] == data && was_metadata(at + *i as u64 * 4096)).count()
            };
            let count: usize = recording.log.iter().map(over_metadata).sum();
            assert!(count >= 20, "number {number}: {count} blocks");
        }
        Ok(())
    }

    #[test]
    fn the_short_family_has_every_operation_with_each_way_to_make_it_durable() {
        let count = Family::Seq1.count().unwrap_or(0);
        let steps: Vec<CrashStep> = (0..count).map(nth).collect();
        assert!(count >= 240, "{count}");
        for (index, step) in steps.iter().enumerate() {
            assert!(!steps[..index].contains(step), "{step} is there twice");
        }
    }
}
