//! Copies within a volume, compared with copies by read and write.

use lanefs::*;

const OWNER: Caller = Caller::OWNER;

fn volume() -> Volume {
    Volume::create_memory(&CreateOptions { size: 256 << 20, ..CreateOptions::default() }).expect("create")
}

fn file(volume: &Volume, name: &str, bytes: &[u8]) -> Ino {
    volume.write_file(format!("/{name}"), bytes).expect("write").ino
}

fn all(volume: &Volume, ino: Ino) -> Vec<u8> {
    let mut bytes = vec![9; volume.getattr(ino).expect("getattr").size as usize];
    assert_eq!(volume.read(&OWNER, ino, 0, &mut bytes).expect("read"), bytes.len());
    bytes
}

fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251 + salt) as u8 | 1).collect()
}

fn copy(volume: &Volume, from: (Ino, u64), to: (Ino, u64), len: u64) -> std::result::Result<u64, Code> {
    volume.copy_range(&OWNER, from.0, from.1, to.0, to.1, len).map_err(|error| error.code())
}

#[test]
fn ranges_of_all_kinds_are_copied_as_by_hand() {
    let volume = volume();
    let sizes = [0usize, 5, 160, 161, 4096, 5000, 12_288, 3 << 20];
    let offsets = [0u64, 3, 100, 4096, 4100, 9000, 1 << 20];
    for (i, size) in sizes.into_iter().enumerate() {
        for from in offsets {
            for to in offsets {
                for (j, len) in [0, 7, 4096, 5000, u64::MAX].into_iter().enumerate() {
                    let (one, two) = (pattern(size, i), pattern(sizes[(i + j) % 7], 77));
                    let (source, target) = (file(&volume, "one", &one), file(&volume, "two", &two));
                    let part = &one[(from as usize).min(size)..];
                    let part = &part[..part.len().min(usize::try_from(len).unwrap_or(usize::MAX))];
                    let copied = copy(&volume, (source, from), (target, to), len);
                    assert_eq!(copied, Ok(part.len() as u64), "{size} {from} {to} {len}");
                    let mut expected = two;
                    if !part.is_empty() {
                        expected.resize(expected.len().max(to as usize + part.len()), 0);
                        expected[to as usize..][..part.len()].copy_from_slice(part);
                    }
                    assert!(all(&volume, target) == expected, "{size} {from} {to} {len}");
                    assert!(all(&volume, source) == one);
                }
            }
        }
    }
    assert!(volume.check(false, &|_, _| {}).expect("check").findings.is_empty());
}

#[test]
fn holes_stay_holes_and_take_the_place_of_data() {
    let volume = volume();
    let source = file(&volume, "one", b"");
    for at in [8192u64, 50 << 20, 3 << 30] {
        volume.write(&OWNER, source, at, &pattern(5000, 3)).expect("write");
    }
    volume.fallocate(&OWNER, source, Allocate::Extend, 4 << 30, 1 << 20).expect("fallocate");
    let size = volume.getattr(source).expect("getattr").size;
    let target = file(&volume, "two", &pattern(100_000, 1));
    assert_eq!(copy(&volume, (source, 0), (target, 0), u64::MAX), Ok(size));
    let attr = volume.getattr(target).expect("getattr");
    assert_eq!(attr.size, size);
    assert!(attr.blocks < 40, "{}", attr.blocks);
    let (mut at, mut found) = (0, 0);
    while let Ok(data) = volume.seek(target, at, Seek::Data) {
        let mut bytes = vec![0; 5000];
        volume.read(&OWNER, target, data, &mut bytes).expect("read");
        assert!(bytes == pattern(5000, 3));
        at = volume.seek(target, data, Seek::Hole).expect("a hole");
        found += 1;
    }
    assert_eq!(found, 3);
    // The range is not aligned to blocks of the target: the edges of holes are zeros.
    let target = file(&volume, "three", &pattern(100_000, 1));
    assert_eq!(copy(&volume, (source, 0), (target, 777), 60_000), Ok(60_000));
    let mut expected = pattern(100_000, 1);
    expected[777..60_777].fill(0);
    expected[777 + 8192..777 + 8192 + 5000].copy_from_slice(&pattern(5000, 3));
    assert!(all(&volume, target) == expected);
}

#[test]
fn within_one_file_ranges_must_not_overlap() {
    let volume = volume();
    let bytes = pattern(20_000, 5);
    let ino = file(&volume, "one", &bytes);
    for (from, to, len) in [(0, 0, 1), (0, 99, 100), (99, 0, 100), (5000, 4000, 1001), (0, 19_999, u64::MAX)]
    {
        assert_eq!(copy(&volume, (ino, from), (ino, to), len), Err(Code::Invalid), "{from} {to} {len}");
    }
    assert!(all(&volume, ino) == bytes);
    assert_eq!(copy(&volume, (ino, 0), (ino, 100), 100), Ok(100));
    assert_eq!(copy(&volume, (ino, 15_000), (ino, 20_000), u64::MAX), Ok(5000));
    let mut expected = bytes;
    expected.copy_within(0..100, 100);
    expected.extend_from_within(15_000..);
    assert!(all(&volume, ino) == expected);
}

#[test]
fn who_may_not_read_or_write_copies_nothing() {
    let volume = volume();
    let (one, two) = (file(&volume, "one", b"some bytes"), file(&volume, "two", b""));
    let stranger = Caller::user(5, 5, &[]);
    let perm = |ino, perm| {
        let set = SetAttr { perm: Some(perm), ..SetAttr::default() };
        volume.setattr(&OWNER, ino, &set).expect("setattr");
    };
    let try_it = || volume.copy_range(&stranger, one, 0, two, 0, 10).map_err(|error| error.code());
    perm(one, 0o600);
    perm(two, 0o666);
    assert_eq!(try_it(), Err(Code::AccessDenied));
    perm(one, 0o644);
    perm(two, 0o644);
    assert_eq!(try_it(), Err(Code::AccessDenied));
    perm(two, 0o6777);
    assert_eq!(try_it(), Ok(10));
    assert_eq!(volume.getattr(two).expect("getattr").perm, 0o777, "set-id bits go with a stranger's write");
    assert_eq!(copy(&volume, (volume.root(), 0), (two, 0), 1), Err(Code::IsDirectory));
    assert_eq!(copy(&volume, (one, 0), (volume.root(), 0), 1), Err(Code::IsDirectory));
    assert_eq!(copy(&volume, (one, 0), (two, u64::MAX - 3), 10), Err(Code::FileTooLarge));
    assert_eq!(copy(&volume, (one, 10), (two, u64::MAX - 3), 10), Ok(0), "nothing is there to be copied");
}

#[test]
fn a_full_volume_ends_a_copy_early() {
    let small = CreateOptions { size: 16 << 20, ..CreateOptions::default() };
    let volume = Volume::create_memory(&small).expect("create");
    let source = file(&volume, "one", &pattern(6 << 20, 1));
    let target = file(&volume, "two", b"");
    let mut at = 0;
    let end = loop {
        match copy(&volume, (source, 0), (target, at), u64::MAX) {
            Ok(bytes) => at += bytes,
            Err(code) => break code,
        }
    };
    assert_eq!(end, Code::NoSpace);
    assert!(at > 6 << 20 && !at.is_multiple_of(6 << 20), "{at}");
    assert_eq!(volume.getattr(target).expect("getattr").size, at);
    assert!(volume.check(false, &|_, _| {}).expect("check").findings.is_empty());
}
