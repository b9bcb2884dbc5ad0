//! Volumes that a foreign writer made: a program in Python (`crates/testkit/foreign`), which shares no code
//! with the crates and was written from docs/format.md alone. It goes to the edges of what the document
//! allows; the engine reads each volume, changes it at random, and empties it. After each part the check and
//! the second reader look at the volume.
//!
//! `LANEFS_SEED` and `LANEFS_SEQUENCES` set the seeds of the changes.

use lanefs::{Access, Caller, Code, FileKind, RenameMode, SetAttr, Volume, XattrMode};
use lanefs_format::Checksummer;
use lanefs_testkit::naive::Naive;
use lanefs_testkit::seeded::Seeded;
use lanefs_testkit::settings::Seeds;
use lanefs_testkit::volume::findings;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const OWNER: Caller = Caller::OWNER;

/// The volumes of the foreign writer, with their listings: made once for all tests of this process.
fn volumes() -> Vec<(String, PathBuf, Vec<u8>)> {
    static MADE: OnceLock<tempfile::TempDir> = OnceLock::new();
    let dir = MADE.get_or_init(|| {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("foreign/volumes.py");
        let made = Command::new("python3").arg("-B").arg(program).arg(dir.path()).output();
        let made = made.expect("python3 runs; scripts/setup.sh installs it");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        dir
    });
    let mut volumes = Vec::new();
    for file in std::fs::read_dir(dir.path()).expect("the directory").map(|file| file.expect("a file").path())
    {
        if file.extension().is_some_and(|extension| extension == "lane") {
            let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
            let listing = std::fs::read(file.with_extension("txt")).expect("a listing");
            volumes.push((name, file, listing));
        }
    }
    volumes.sort();
    assert!(volumes.len() > 20, "only {} volumes", volumes.len());
    volumes
}

/// A copy of an image that may change.
fn copy_of(image: &Path) -> tempfile::NamedTempFile {
    let copy = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a file");
    std::fs::copy(image, copy.path()).expect("a copy");
    copy
}

fn open(image: &Path, access: Access) -> Volume {
    Volume::open(image, access).unwrap_or_else(|error| panic!("{error}"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn crc(bytes: &[u8]) -> u32 {
    Checksummer::append(0, bytes)
}

/// Lists all paths with their types: each is found by its name as by its directory.
fn paths(volume: &Volume) -> Vec<(Vec<u8>, FileKind)> {
    let (mut found, mut open) = (vec![(Vec::new(), FileKind::Directory)], vec![Vec::new()]);
    while let Some(dir) = open.pop() {
        let at = [b"/", &dir[..]].concat();
        for entry in volume.read_dir(&at[..]).expect("a directory") {
            let entry = entry.expect("an entry");
            let path = if dir.is_empty() { entry.name } else { [&dir[..], b"/", &entry.name].concat() };
            let attr = volume.resolve_no_follow(&path[..]).expect("a listed name is found");
            assert_eq!((attr.ino, attr.kind), (entry.ino, entry.kind), "{}", hex(&path));
            if entry.kind == FileKind::Directory {
                open.push(path.clone());
            }
            found.push((path, entry.kind));
        }
    }
    found
}

/// The listing of a volume, in the form of the Python programs.
fn listing(volume: &Volume) -> Vec<u8> {
    let mut lines = Vec::new();
    for (path, kind) in paths(volume) {
        let at = [b"/", &path[..]].concat();
        let attr = volume.resolve_no_follow(&at[..]).expect("a path");
        let content = match kind {
            FileKind::File => volume.read_file(&at[..]).expect("a file"),
            FileKind::Symlink => volume.readlink(attr.ino).expect("a link"),
            _ => Vec::new(),
        };
        let mut names = volume.listxattr(attr.ino).expect("the attributes");
        names.sort();
        let attributes: Vec<String> = names
            .iter()
            .map(|name| (name, volume.getxattr(&OWNER, attr.ino, name).expect("an attribute")))
            .map(|(name, value)| format!("{}={:08x}", hex(name), crc(&value)))
            .collect();
        let or_none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
        let size = if kind == FileKind::Directory { 0 } else { attr.size };
        let (perm, links, sum) = (attr.perm, attr.links, crc(&content));
        let (path, attributes) = (or_none(hex(&path)), or_none(attributes.join(",")));
        lines.push(format!("{path} {} {perm:o} {links} {size} {sum:08x} {attributes}\n", kind as u8));
    }
    lines.sort();
    lines.concat().into_bytes()
}

/// Fails where the check finds anything.
fn sound(volume: &Volume, when: &str) {
    let report = volume.check(false, &|_, _| {}).unwrap_or_else(|error| panic!("{when}: {error}"));
    let texts = findings(&report);
    assert!(texts.is_empty(), "{when}: {}", texts.join("; "));
}

/// Fails unless the second reader finds the volume sound, and reads from it what the engine does.
fn second_reader_agrees(image: &Path, when: &str) {
    let file = File::open(image).expect("the image");
    let tree = Naive::open(&file).and_then(|reader| reader.with_clear_ends().tree());
    let compared = tree.and_then(|tree| tree.compare(&open(image, Access::Read)));
    compared.unwrap_or_else(|text| panic!("{when}: {text}"));
}

/// Fails where listings differ, with the first lines that do.
fn same(one: &[u8], other: &[u8], when: &str) {
    let lines = |listing: &[u8]| -> std::collections::BTreeSet<String> {
        String::from_utf8_lossy(listing).lines().map(str::to_owned).collect()
    };
    let (one, other) = (lines(one), lines(other));
    let differ: Vec<&String> = one.symmetric_difference(&other).take(4).collect();
    assert!(differ.is_empty(), "{when}: {differ:?}");
}

/// One random change. Where there is no file to change, it makes one.
fn change(volume: &Volume, numbers: &mut Seeded) -> Result<(), lanefs::Error> {
    let all = paths(volume);
    let mut pick = |is_wanted: fn(FileKind) -> bool| {
        let paths: Vec<&[u8]> =
            all.iter().filter(|(_, kind)| is_wanted(*kind)).map(|(path, _)| &path[..]).collect();
        if paths.is_empty() { None } else { Some([b"/", *numbers.pick(&paths)].concat()) }
    };
    let dir = pick(|kind| kind == FileKind::Directory).expect("the root directory");
    let (other, file) = (pick(|kind| kind != FileKind::Directory), pick(|kind| kind == FileKind::File));
    let name = format!("new{}{}", "-".repeat(numbers.below(60) as usize), numbers.bits());
    let fresh = [&dir[..], b"/", name.as_bytes()].concat();
    let bytes = vec![numbers.bits() as u8 | 1; numbers.length(20_000) as usize];
    let step = numbers.weighted(&[30, 20, 10, 5, 10, 10, 5, 5]);
    let (Some(other), Some(file), true) = (other, file, step != 1) else {
        return volume.write_file(&fresh[..], &bytes).map(drop);
    };
    match step {
        0 => volume.remove_file(&other[..]),
        2 => volume.rename_with(&other[..], &fresh[..], RenameMode::NoReplace),
        3 => volume.hard_link(&file[..], &fresh[..]).map(drop),
        4 => {
            let ino = volume.resolve_no_follow(&file[..])?.ino;
            volume.write(&OWNER, ino, numbers.length(30_000), &bytes).map(drop)
        }
        5 => {
            let set = SetAttr { size: Some(numbers.length(30_000)), ..SetAttr::default() };
            volume.set_attributes(&file[..], &set).map(drop)
        }
        6 => volume.create_dir(&fresh[..]).map(drop),
        _ => {
            let ino = volume.resolve_no_follow(&file[..])?.ino;
            let value = &bytes[..bytes.len().min(4000)];
            volume.setxattr(&OWNER, ino, b"user.a", value, XattrMode::Set)
        }
    }
}

/// Removes everything, in random order: files first, then directories.
fn empty(volume: &Volume, numbers: &mut Seeded, when: &str) {
    let mut all = paths(volume);
    all.retain(|(path, _)| !path.is_empty());
    for end in (1..all.len()).rev() {
        all.swap(end, numbers.below(end as u64 + 1) as usize);
    }
    let (mut dirs, files): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(_, kind)| *kind == FileKind::Directory);
    for (path, _) in files {
        let gone = volume.remove_file([b"/", &path[..]].concat());
        gone.unwrap_or_else(|error| panic!("{when}, {}: {error}", hex(&path)));
    }
    sound(volume, when);
    dirs.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
    for (path, _) in dirs {
        let gone = volume.remove_dir([b"/", &path[..]].concat());
        gone.unwrap_or_else(|error| panic!("{when}, {}: {error}", hex(&path)));
    }
}

#[test]
fn volumes_of_a_foreign_writer_are_read_as_it_wrote_them() {
    for (name, image, written) in volumes() {
        let before = std::fs::read(&image).expect("the image");
        let volume = open(&image, Access::Read);
        same(&written, &listing(&volume), &name);
        sound(&volume, &name);
        drop(volume);
        assert!(std::fs::read(&image).expect("the image") == before, "{name}: reading changed the image");
        second_reader_agrees(&image, &name);
    }
}

#[test]
fn volumes_of_a_foreign_writer_stay_sound_while_they_change() {
    for seed in Seeds::from_environment("LANEFS_SEQUENCES", 1, 1) {
        for (name, image, _) in volumes() {
            change_and_empty(&name, &image, seed);
        }
    }
}

/// Changes a copy of a volume at random, and then removes everything from it.
fn change_and_empty(name: &str, image: &Path, seed: u64) {
    let copy = copy_of(image);
    let mut numbers = Seeded::new(seed);
    let when = |what: &str| format!("{name}, {what}, LANEFS_SEED={seed}");
    let volume = open(copy.path(), Access::Write);
    for _ in 0..4 {
        for _ in 0..20 {
            match change(&volume, &mut numbers) {
                Ok(()) => {}
                Err(error) if error.code() == Code::NoSpace => {}
                Err(error) => panic!("{}: {error}", when("a change")),
            }
        }
        sound(&volume, &when("changed"));
    }
    let ours = listing(&volume);
    volume.close().expect("the volume closes");
    second_reader_agrees(copy.path(), &when("changed"));
    let volume = open(copy.path(), Access::Write);
    same(&ours, &listing(&volume), &when("opened again"));
    empty(&volume, &mut numbers, &when("emptied"));
    sound(&volume, &when("emptied"));
    volume.close().expect("the volume closes");
    second_reader_agrees(copy.path(), &when("emptied"));
}
