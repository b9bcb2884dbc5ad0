//! Fingerprints of directories of the host.

use crate::on_host::host::HostMeta;
use lanefs::{FileKind, Time};
use std::hash::{DefaultHasher, Hasher, RandomState};

/// Size of a key in bytes.
pub(super) const KEY_BYTES: usize = 16;
/// Size in bytes of what a fingerprint takes of a file beside its name.
const FILE_BYTES: usize = 72;

/// Nanoseconds for which a file is too new: the host's clock for times of files moves in steps, so a change a
/// moment later may leave the same time. Linux makes 100 steps a second or more.
const STEP_NS: i64 = 100_000_000;
/// Nanoseconds of a second.
const SECOND_NS: i64 = 1_000_000_000;

/// The key of fingerprints. Others do not know it, so nobody makes two directories of one fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FingerprintKey(pub(super) [u8; KEY_BYTES]);

impl FingerprintKey {
    /// Makes a key that nobody knows.
    pub(super) fn random() -> Self {
        let word = || std::hash::BuildHasher::hash_one(&RandomState::new(), 0_u64).to_le_bytes();
        let mut key = [0; KEY_BYTES];
        key[..8].copy_from_slice(&word());
        key[8..].copy_from_slice(&word());
        FingerprintKey(key)
    }

    /// The keyed hash of some bytes.
    pub(super) fn hash(self, parts: &[&[u8]]) -> u128 {
        // SipHash keeps 256 bits of state, so its second word is as good as the first.
        let mut hasher = DefaultHasher::new();
        hasher.write(&self.0);
        for part in parts {
            hasher.write(part);
        }
        let first = hasher.finish();
        hasher.write_u8(1);
        u128::from(first) << 64 | u128::from(hasher.finish())
    }
}

/// Most names of a directory that a walk keeps for the comparison, which is needed to use parts alone.
pub(super) const MOST_WALKED: usize = 1024;
/// Most parts of the names of a directory.
const PARTS: usize = 64;
/// Names of a part, about.
const PART_NAMES: usize = 4;

/// The part of a directory's names in which a name is. A user who chooses names may put all of them into one,
/// and gains nothing.
fn part_of(name: &[u8]) -> usize {
    let hash =
        name.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    (hash ^ hash >> 16) as usize % PARTS
}

/// Parts of the names of a directory, a bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NameParts(u64);

impl NameParts {
    pub(super) fn has(self, name: &[u8]) -> bool {
        self.0 >> part_of(name) & 1 == 1
    }
}

/// The fingerprint of a directory that is being read: the sum over its own attributes and its names, which
/// come in any order. The names have a sum in each of some parts, too: where only files have changed, few
/// parts tell which.
#[derive(Clone, Debug)]
pub(super) struct Fingerprint {
    /// `None` where the directory has something that its fingerprint would not tell.
    sum: Option<u128>,
    dev: u64,
    /// Of the directory without its names; another value where that would not tell its next change.
    own: u64,
    names: usize,
    parts: Box<[u64; PARTS]>,
    /// Parts with names that their sums would not tell.
    untold: u64,
    /// It has all names, and takes no more.
    is_whole: bool,
    is_spoiled: bool,
}

impl Fingerprint {
    /// Begins with the directory itself, whose attributes were read at `now` or later.
    pub(super) fn new(key: FingerprintKey, dir: &HostMeta, now: Time) -> Self {
        let own = key.hash(&[&bytes(dir)]);
        let sum = is_settled(dir, now).then_some(own);
        let own = if sum.is_some() { own as u64 } else { unlike(own as u64) };
        Fingerprint { sum, own, ..Self::without_names(dir.id.dev) }
    }

    fn without_names(dev: u64) -> Self {
        let parts = Box::new([0; PARTS]);
        Fingerprint {
            sum: Some(0),
            dev,
            own: 0,
            names: 0,
            parts,
            untold: 0,
            is_whole: false,
            is_spoiled: false,
        }
    }

    /// Adds a name with its file, whose attributes were read at `now` or later. A file with several names may
    /// get one more elsewhere.
    pub(super) fn add(&mut self, key: FingerprintKey, name: &[u8], file: &HostMeta, now: Time) {
        if self.is_whole {
            return;
        }
        let is_dir = file.kind == FileKind::Directory;
        let is_told = file.id.dev == self.dev && (is_dir || file.links == 1 && is_settled(file, now));
        // A directory has a fingerprint of its own, but here it is told which one has the name.
        let of_name = match is_dir {
            true => key.hash(&[&file.id.ino.to_le_bytes(), name]),
            false => key.hash(&[&bytes(file), name]),
        };
        self.sum = self.sum.filter(|_| is_told).map(|sum| sum.wrapping_add(of_name));
        self.names += 1;
        let part = part_of(name);
        self.parts[part] = self.parts[part].wrapping_add(of_name as u64);
        self.untold |= u64::from(!is_told) << part;
    }

    /// Ends a fingerprint that has all names of its directory.
    pub(super) fn end(&mut self) {
        self.is_whole = true;
    }

    /// The sums of the directory itself and of each part; none for a directory of few names. A part with a
    /// name that is not told has a sum that no part has.
    pub(super) fn parts(&self) -> Vec<u64> {
        let count = (self.names / PART_NAMES).checked_ilog2().map_or(1, |log| 1 << log).min(PARTS);
        let is_kept = self.sum.is_some() || self.names <= MOST_WALKED;
        if count < 2 || self.is_spoiled || !is_kept {
            return Vec::new();
        }
        let mut sums = vec![0_u64; count];
        self.add_parts(&mut sums);
        for (_, sum) in sums.iter_mut().enumerate().filter(|(at, _)| self.has_untold(*at, count)) {
            *sum = unlike(*sum);
        }
        sums.insert(0, self.own);
        sums
    }

    /// True where the part `at` of `count` has a name that is not told.
    fn has_untold(&self, at: usize, count: usize) -> bool {
        (at..PARTS).step_by(count).any(|part| self.untold >> part & 1 == 1)
    }

    /// Adds the sums of the parts, which are fewer in `sums`.
    fn add_parts(&self, sums: &mut [u64]) {
        for (part, sum) in self.parts.iter().enumerate() {
            let at = part % sums.len();
            sums[at] = sums[at].wrapping_add(*sum);
        }
    }

    /// The parts that have changed since they had the sums `known`; `None` where that says nothing, or the
    /// directory itself has changed, and perhaps lost names.
    pub(super) fn changed_parts(&self, known: &[u64]) -> Option<NameParts> {
        let (own, known) = known.split_first()?;
        if *own != self.own || known.is_empty() || known.len() > PARTS || !known.len().is_power_of_two() {
            return None;
        }
        let mut sums = vec![0; known.len()];
        self.add_parts(&mut sums);
        let is_changed = |at: usize| sums.get(at) != known.get(at) || self.has_untold(at, known.len());
        let changed: Vec<bool> = (0..known.len()).map(is_changed).collect();
        let bits = (0..PARTS).filter(|part| changed[part % changed.len()]);
        Some(NameParts(bits.fold(0, |bits, part| bits | 1 << part)))
    }

    /// The fingerprint of no names, for a part of those of the same directory.
    pub(super) fn of_part(&self) -> Self {
        Self::without_names(self.dev)
    }

    /// Adds a part.
    pub(super) fn join(&mut self, part: &Fingerprint) {
        self.sum = self.sum.zip(part.sum).map(|(sum, part)| sum.wrapping_add(part));
        self.names += part.names;
        self.is_spoiled |= part.is_spoiled;
        self.untold |= part.untold;
        part.add_parts(&mut self.parts[..]);
    }

    /// Gives up the fingerprint.
    pub(super) fn spoil(&mut self) {
        self.sum = None;
        self.is_spoiled = true;
    }

    /// The value; 0 where the directory has none.
    pub(super) fn value(&self) -> u128 {
        self.sum.unwrap_or_default()
    }
}

/// A value in the place of a sum that must not be found again.
fn unlike(sum: u64) -> u64 {
    !sum
}

/// True where the next change of a file will leave another time. Some file systems keep whole seconds: a
/// clock that is set back, or begins at the same time with each start, gives the same one again, so they
/// never tell. That it gives the same nanosecond again is as good as impossible.
fn is_settled(file: &HostMeta, now: Time) -> bool {
    file.ctime.0.rem_euclid(SECOND_NS) != 0 && file.ctime.0.saturating_add(STEP_NS) < now.0
}

/// The attributes of a file as bytes. Access times are not among them.
fn bytes(file: &HostMeta) -> [u8; FILE_BYTES] {
    let HostMeta {
        id,
        kind,
        perm,
        uid,
        gid,
        links,
        size,
        sectors: _,
        rdev,
        mtime,
        ctime,
        atime: _,
        has_far_time: _,
    } = *file;
    // The numbers of names and the size of a directory follow from its names.
    let (links, size) = if kind == FileKind::Directory { (0, 0) } else { (links, size) };
    let words = [
        id.dev,
        id.ino,
        u64::from(perm) << 8 | kind as u64,
        u64::from(uid) << 32 | u64::from(gid),
        links,
        size,
        rdev,
        mtime.0 as u64,
        ctime.0 as u64,
    ];
    let mut bytes = [0; FILE_BYTES];
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::on_host::hostdir::FileId;

    const KEY: FingerprintKey = FingerprintKey([7; KEY_BYTES]);

    fn file(ino: u64) -> HostMeta {
        HostMeta {
            id: FileId { dev: 3, ino },
            kind: FileKind::File,
            perm: 0o644,
            uid: 5,
            gid: 6,
            links: 1,
            size: 7,
            sectors: 8,
            rdev: 0,
            mtime: Time(1_000_000_001),
            ctime: Time(2_000_000_001),
            atime: Time(9),
            has_far_time: false,
        }
    }

    fn dir(ino: u64) -> HostMeta {
        HostMeta { kind: FileKind::Directory, links: 2, ..file(ino) }
    }

    fn of(dir: &HostMeta, names: &[(&str, HostMeta)]) -> u128 {
        let now = Time(9_000_000_000);
        let mut fingerprint = Fingerprint::new(KEY, dir, now);
        for (name, file) in names {
            fingerprint.add(KEY, name.as_bytes(), file, now);
        }
        fingerprint.value()
    }

    #[test]
    fn every_attribute_and_name_counts_and_their_order_does_not() {
        let names = [("a", file(10)), ("b", file(11)), ("d", dir(12))];
        let all = of(&dir(1), &names);
        assert_ne!(all, 0);
        assert_eq!(of(&dir(1), &[names[2], names[0], names[1]]), all);
        assert_eq!(
            of(&dir(1), &[("a", HostMeta { atime: Time(1), sectors: 0, ..file(10) }), names[1], names[2]]),
            all
        );
        let now = Time(9_000_000_000);
        let mut in_parts = Fingerprint::new(KEY, &dir(1), now);
        for (name, file) in names {
            let mut part = in_parts.of_part();
            part.add(KEY, name.as_bytes(), &file, now);
            in_parts.join(&part);
        }
        assert_eq!(in_parts.value(), all);
        let mut part = in_parts.of_part();
        part.spoil();
        in_parts.join(&part);
        assert_eq!(in_parts.value(), 0);
        let f = file(10);
        let changed = [
            HostMeta { kind: FileKind::Fifo, ..f },
            HostMeta { perm: 0o640, ..f },
            HostMeta { uid: 6, ..f },
            HostMeta { gid: 5, ..f },
            HostMeta { size: 8, ..f },
            HostMeta { rdev: 1, ..f },
            HostMeta { mtime: Time(1_000_000_000), ..f },
            HostMeta { ctime: Time(2_000_000_002), ..f },
            file(11),
        ];
        for other in changed {
            assert_ne!(of(&dir(1), &[("a", other), names[1], names[2]]), all, "{other:?}");
        }
        for other in
            [dir(2), HostMeta { perm: 0o700, ..dir(1) }, HostMeta { ctime: Time(3_000_000_001), ..dir(1) }]
        {
            assert_ne!(of(&other, &names), all, "{other:?}");
        }
        // Names exchanged, one more, one less, another directory.
        assert_ne!(of(&dir(1), &[("b", file(10)), ("a", file(11)), names[2]]), all);
        assert_ne!(of(&dir(1), &names[..2]), all);
        assert_ne!(of(&dir(1), &[names[0], names[1], names[2], ("e", file(13))]), all);
        assert_ne!(of(&dir(1), &[names[0], names[1], ("d", dir(13))]), all);
        // A change in a directory below counts there.
        let touched = HostMeta { mtime: Time(5), ctime: Time(3_000_000_001), ..dir(12) };
        assert_eq!(of(&dir(1), &[names[0], names[1], ("d", touched)]), all);
    }

    #[test]
    fn what_a_fingerprint_would_not_tell_has_none() {
        let now = Time(9_000_000_000);
        let late = |ctime| HostMeta { ctime: Time(ctime), ..file(10) };
        for (name, told) in [
            (late(now.0 - STEP_NS - 1), true),
            (late(now.0 - STEP_NS), false),
            (late(now.0 + 1), false),
            // Whole seconds, which a clock that is set back gives again.
            (late(7_000_000_000), false),
            (late(1_000_000_000), false),
            (late(1_000_000_001), true),
            (HostMeta { links: 2, ..file(10) }, false),
            (HostMeta { id: FileId { dev: 4, ino: 10 }, ..file(10) }, false),
            (HostMeta { id: FileId { dev: 4, ino: 10 }, ..dir(10) }, false),
            // A directory that has just changed is told by itself.
            (HostMeta { ctime: now, links: 9, ..dir(10) }, true),
        ] {
            assert_eq!(of(&dir(1), &[("a", name)]) != 0, told, "{name:?}");
        }
        assert_eq!(of(&HostMeta { ctime: now, ..dir(1) }, &[]), 0);
        let mut fingerprint = Fingerprint::new(KEY, &dir(1), now);
        fingerprint.spoil();
        fingerprint.add(KEY, b"a", &file(10), now);
        assert_eq!(fingerprint.value(), 0);
    }

    #[test]
    fn parts_tell_which_names_have_changed() {
        let now = Time(9_000_000_000);
        let names: Vec<String> = (0..200).map(|number| format!("file-{number:08}.dat")).collect();
        let read = |dir: &HostMeta, changed: &dyn Fn(usize, HostMeta) -> HostMeta, count: usize| {
            let mut fingerprint = Fingerprint::new(KEY, dir, now);
            for (number, name) in names.iter().enumerate().take(count) {
                fingerprint.add(KEY, name.as_bytes(), &changed(number, file(number as u64)), now);
            }
            fingerprint
        };
        let same = |_, file| file;
        let changed = |parts: NameParts| names.iter().filter(|name| parts.has(name.as_bytes())).count();
        for (count, parts) in [(0, 0), (7, 0), (8, 3), (15, 3), (16, 5), (32, 9), (200, 33)] {
            let known = read(&dir(1), &same, count).parts();
            assert_eq!(known.len(), parts, "{count}");
            if parts == 0 {
                continue;
            }
            let found = read(&dir(1), &same, count).changed_parts(&known).expect("of the same directory");
            assert_eq!(changed(found), 0);
            // Another size, and a file that is too new to be told.
            for other in [HostMeta { size: 8, ..file(3) }, HostMeta { ctime: now, ..file(3) }] {
                let one = |number, file| if number == 3 { other } else { file };
                let found = read(&dir(1), &one, count).changed_parts(&known).expect("of the same directory");
                assert!(found.has(names[3].as_bytes()));
                assert!(changed(found) < 200 * 2 / (parts - 1), "{count}: {}", changed(found));
            }
            // The directory has changed.
            let touched = HostMeta { ctime: Time(3_000_000_001), ..dir(1) };
            assert_eq!(read(&touched, &same, count).changed_parts(&known), None);
            // Sums that no directory has.
            for strange in [&known[..1], &[], &[&known[..], &known[1..2]].concat()] {
                assert_eq!(read(&dir(1), &same, count).changed_parts(strange), None);
            }
        }
        // A file, and the directory itself, that may change once more at the same time.
        let at = |now: i64, dir: &HostMeta| {
            let mut fingerprint = Fingerprint::new(KEY, dir, Time(now));
            for (number, name) in names.iter().enumerate().take(32) {
                let new = if number == 3 { 8_999_999_995 } else { 2_000_000_001 };
                let file = HostMeta { ctime: Time(new), ..file(number as u64) };
                fingerprint.add(KEY, name.as_bytes(), &file, Time(now));
            }
            fingerprint
        };
        let (early, late) = (at(9_000_000_000, &dir(1)), at(19_000_000_000, &dir(1)));
        assert!(early.value() == 0 && late.value() != 0);
        let found = late.changed_parts(&early.parts()).expect("of the same directory");
        assert!(found.has(names[3].as_bytes()) && changed(found) < 100);
        let new = HostMeta { ctime: Time(8_999_999_995), ..dir(1) };
        let (early, late) = (at(9_000_000_000, &new), at(19_000_000_000, &new));
        assert_eq!(late.changed_parts(&early.parts()), None);
        let mut spoiled = at(19_000_000_000, &dir(1));
        spoiled.spoil();
        assert!(spoiled.parts().is_empty());
        let mut whole = read(&dir(1), &same, 20);
        whole.end();
        whole.add(KEY, b"more", &file(77), now);
        assert_eq!(whole.value(), read(&dir(1), &same, 20).value());
    }

    #[test]
    fn a_key_decides() {
        assert_ne!(FingerprintKey::random(), FingerprintKey::random());
        let other = FingerprintKey([8; KEY_BYTES]);
        assert_ne!(KEY.hash(&[b"x"]), other.hash(&[b"x"]));
        assert_eq!(KEY.hash(&[b"x", b"y"]), KEY.hash(&[b"xy"]));
    }
}
