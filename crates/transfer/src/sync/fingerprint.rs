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
/// The same for a time in whole seconds: some file systems keep no fraction.
const SECONDS_STEP_NS: i64 = 2_000_000_000;
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

/// The fingerprint of a directory that is being read: the sum over its own attributes and its names, which
/// come in any order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fingerprint {
    /// `None` where the directory has something that its fingerprint would not tell.
    sum: Option<u128>,
    dev: u64,
}

impl Fingerprint {
    /// Begins with the directory itself, whose attributes were read at `now` or later.
    pub(super) fn new(key: FingerprintKey, dir: &HostMeta, now: Time) -> Self {
        let sum = is_settled(dir, now).then(|| key.hash(&[&bytes(dir)]));
        Fingerprint { sum, dev: dir.id.dev }
    }

    /// Adds a name with its file, whose attributes were read at `now` or later. A file with several names may
    /// get one more elsewhere.
    pub(super) fn add(&mut self, key: FingerprintKey, name: &[u8], file: &HostMeta, now: Time) {
        let Some(sum) = self.sum else { return };
        let is_dir = file.kind == FileKind::Directory;
        let is_told = file.id.dev == self.dev && (is_dir || file.links == 1 && is_settled(file, now));
        // A directory has a fingerprint of its own, but here it is told which one has the name.
        let of_name = match is_dir {
            true => key.hash(&[&file.id.ino.to_le_bytes(), name]),
            false => key.hash(&[&bytes(file), name]),
        };
        self.sum = is_told.then(|| sum.wrapping_add(of_name));
    }

    /// Gives up the fingerprint.
    pub(super) fn spoil(&mut self) {
        self.sum = None;
    }

    /// The value; 0 where the directory has none.
    pub(super) fn value(&self) -> u128 {
        self.sum.unwrap_or_default()
    }
}

/// True where the next change of a file will leave another time.
fn is_settled(file: &HostMeta, now: Time) -> bool {
    let step = if file.ctime.0.rem_euclid(SECOND_NS) == 0 { SECONDS_STEP_NS } else { STEP_NS };
    file.ctime.0.saturating_add(step) < now.0
}

/// The attributes of a file as bytes. Access times are not among them.
fn bytes(file: &HostMeta) -> [u8; FILE_BYTES] {
    let HostMeta { id, kind, perm, uid, gid, links, size, sectors: _, rdev, mtime, ctime, atime: _ } = *file;
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
            // Whole seconds.
            (late(7_000_000_000), false),
            (late(6_000_000_000), true),
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
    fn a_key_decides() {
        assert_ne!(FingerprintKey::random(), FingerprintKey::random());
        let other = FingerprintKey([8; KEY_BYTES]);
        assert_ne!(KEY.hash(&[b"x"]), other.hash(&[b"x"]));
        assert_eq!(KEY.hash(&[b"x", b"y"]), KEY.hash(&[b"xy"]));
    }
}
