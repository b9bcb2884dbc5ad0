//! Power cuts: every write of a workload is a place to stop, with any part of the unflushed writes lost or torn.
//!
//! A device records what is written and flushed. From the record, states are made as a disk may hold them after a
//! crash; each is opened, recovered and checked, and must be the volume as it was after one of the operations that came
//! no earlier than the last completed sync. `LANEFS_CRASH_STATES` sets how many states, `LANEFS_SEED` the workload.

use lanefs::{Access, Caller, CreateOptions, Device, MemoryDevice, SetAttr, Volume};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

#[derive(Clone)]
enum Event {
    Write(u64, Vec<u8>),
    Flush,
    /// This many operations were acknowledged as durable.
    Synced(usize),
}

/// Passes everything on and remembers it.
struct Recorder {
    below: MemoryDevice,
    log: Arc<Mutex<Vec<Event>>>,
}

impl Device for Recorder {
    fn len(&self) -> u64 {
        self.below.len()
    }
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        self.below.read_at(at, buffer)
    }
    fn write_at(&self, at: u64, data: &[u8]) -> std::io::Result<()> {
        self.log.lock().expect("log").push(Event::Write(at, data.to_vec()));
        self.below.write_at(at, data)
    }
    fn flush(&self) -> std::io::Result<()> {
        self.log.lock().expect("log").push(Event::Flush);
        self.below.flush()
    }
    fn discard(&self, at: u64, len: u64) -> std::io::Result<()> {
        self.below.discard(at, len)
    }
    fn resize(&self, len: u64) -> std::io::Result<()> {
        self.below.resize(len)
    }
}

/// A small generator, so that a seed means the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// A file that takes most of the volume and is not looked at.
const BALLAST: &str = "/ballast";

type Tree = BTreeMap<Vec<u8>, Vec<u8>>;

/// Every path with its content (directories: a word).
fn tree(volume: &Volume) -> lanefs::Result<Tree> {
    let mut all = Tree::new();
    let mut open = vec![(volume.root(), Vec::new())];
    while let Some((dir, path)) = open.pop() {
        let mut cookie = 0;
        loop {
            let page = volume.readdir(&Caller::OWNER, dir, cookie, 64)?;
            let Some(last) = page.last() else { break };
            cookie = last.cookie;
            for entry in page {
                let mut full = path.clone();
                full.push(b'/');
                full.extend_from_slice(&entry.name);
                if entry.kind == lanefs::FileKind::Directory {
                    all.insert(full.clone(), b"directory".to_vec());
                    open.push((entry.ino, full));
                } else if full != BALLAST.as_bytes() {
                    all.insert(full.clone(), volume.read_file(&full)?);
                }
            }
        }
    }
    Ok(all)
}

/// One random change, and where it made an empty file, the content to write into it as the next operation. Content is never
/// overwritten in place, nor cut off inside a block: what a crash leaves of such a change before a sync is not defined.
fn change(volume: &Volume, random: &mut Random, step: usize) -> Option<(lanefs::Ino, Vec<u8>)> {
    let who = Caller::OWNER;
    let dir = format!("/d{}", random.below(3));
    let name = format!("{}/{}", dir, random.below(40));
    let (parent, last) = volume.resolve_parent(name.as_bytes()).expect("the three directories stay");
    // Operations on names that are not there fail, which is part of the exercise.
    match random.below(10) {
        0..=4 => {
            let len = [0, 10, 500, 4096, 9000, 40_000][random.below(6) as usize];
            let made = volume.create_file(&who, parent, last, 0o644).ok()?;
            return Some((made.ino, vec![step as u8 | 1; len]));
        }
        5 | 6 => drop(volume.unlink(&who, parent, last)),
        7 => {
            let new = format!("{}", random.below(40));
            let _ = volume.rename(&who, parent, last, parent, new.as_bytes(), lanefs::RenameMode::Replace);
        }
        8 => drop(volume.mkdir(&who, parent, format!("sub{}", random.below(5)).as_bytes(), 0o755)),
        _ => {
            let set = SetAttr { size: Some(0), ..SetAttr::default() };
            let _ = volume.resolve(&name).and_then(|attr| volume.setattr(&who, attr.ino, &set));
        }
    }
    None
}

struct Recording {
    base: Vec<u8>,
    log: Vec<Event>,
    /// The tree after each operation, the empty volume first.
    trees: Vec<Tree>,
}

fn record(seed: u64, operations: usize) -> Recording {
    let base = {
        let dir = tempfile::tempdir().expect("tempdir");
        let image = dir.path().join("v");
        let options = CreateOptions {
            size: 8 << 20,
            uuid: Some([1; 16]),
            seed: Some([2; 16]),
            ..CreateOptions::default()
        };
        let volume = Volume::create(&image, &options).expect("create");
        // Little is left free, so that what one operation frees the next ones soon want: space that a crash may still
        // bring back must not be given to them.
        let free = volume.statfs().expect("statfs").free_blocks;
        volume.write_file(BALLAST, vec![0xbb; (free as usize - 40) * 4096]).expect("ballast");
        volume.close().expect("close");
        std::fs::read(&image).expect("image")
    };
    let log = Arc::new(Mutex::new(Vec::new()));
    let device = Recorder { below: MemoryDevice::new(base.clone()), log: log.clone() };
    let volume = Volume::open_device(Box::new(device), Access::Write).expect("open");
    let mut random = Random(seed | 1);
    let mut trees = vec![Tree::new()];
    let mut content: Option<(lanefs::Ino, Vec<u8>)> = None;
    for step in 0..operations {
        if step < 3 {
            volume.mkdir_all(format!("/d{step}"), 0o755).expect("mkdir");
        } else if let Some((ino, bytes)) = content.take() {
            let written = volume.write(&Caller::OWNER, ino, 0, &bytes);
            assert!(written.is_ok() || written.is_err_and(|e| e.code() == lanefs::Code::NoSpace));
        } else {
            content = change(&volume, &mut random, step);
        }
        trees.push(tree(&volume).expect("tree"));
        if random.below(25) == 0 {
            volume.sync().expect("sync");
            log.lock().expect("log").push(Event::Synced(step + 1));
        }
    }
    volume.close().expect("close");
    let log = log.lock().expect("log").clone();
    Recording { base, log, trees }
}

/// The image after the events before `cut`, of which those behind the last flush may be lost or torn at 512 bytes.
fn crashed(recording: &Recording, cut: usize, random: &mut Random) -> Vec<u8> {
    let log = &recording.log[..cut];
    let flushed = log.iter().rposition(|e| matches!(e, Event::Flush)).map_or(0, |i| i + 1);
    let mut image = recording.base.clone();
    let all_or_nothing = random.below(4);
    for (i, event) in log.iter().enumerate() {
        let Event::Write(at, data) = event else { continue };
        for (sector, bytes) in data.chunks(512).enumerate() {
            let lands = i < flushed
                || match all_or_nothing {
                    0 => true,
                    1 => false,
                    _ => random.below(2) == 0,
                };
            if lands {
                let start = *at as usize + sector * 512;
                image[start..start + bytes.len()].copy_from_slice(bytes);
            }
        }
    }
    image
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// Tries crash states of a recording; what is wrong with the first bad one.
fn explore(recording: &Recording, states: u64, random: &mut Random) -> Result<(), String> {
    for state in 0..states {
        let cut = random.below(recording.log.len() as u64 + 1) as usize;
        let image = crashed(recording, cut, random);
        let acknowledged = recording.log[..cut]
            .iter()
            .rev()
            .find_map(|e| if let Event::Synced(n) = e { Some(*n) } else { None })
            .unwrap_or(0);
        try_one(image, &recording.trees[acknowledged..])
            .map_err(|what| format!("state {state}, cut {cut}, {acknowledged} acknowledged: {what}"))?;
    }
    Ok(())
}

fn try_one(image: Vec<u8>, allowed: &[Tree]) -> Result<(), String> {
    let failed = |what: &'static str| move |e: lanefs::Error| format!("{what}: {e}");
    let volume = Volume::from_bytes(image).map_err(failed("open"))?;
    if !allowed.contains(&tree(&volume).map_err(failed("read"))?) {
        return Err("not the volume after any operation since then".into());
    }
    let report = volume.check(false, &|_, _| {}).map_err(failed("check"))?;
    if let Some(finding) = report.findings.first() {
        return Err(format!("fsck: {finding:?}"));
    }
    // It goes on as a volume, and recovery is done once.
    volume.write_file("/after", b"the crash").map_err(failed("write"))?;
    let bytes = volume.to_bytes().map_err(failed("sync"))?;
    drop(volume);
    let again = Volume::from_bytes(bytes).map_err(failed("open again"))?;
    let content = again.read_file("/after").map_err(failed("read again"))?;
    if content == b"the crash" { Ok(()) } else { Err("lost what was written after the crash".into()) }
}

#[test]
fn after_a_power_cut_the_volume_is_as_it_was_after_some_operation_since_the_last_sync() {
    let seed = number("LANEFS_SEED", 7);
    let states = number("LANEFS_CRASH_STATES", 900);
    for workload in 0..3 {
        let recording = record(seed + workload, 150);
        let mut random = Random(seed * 31 + workload + 1);
        if let Err(what) = explore(&recording, states / 3, &mut random) {
            panic!("seed {seed}, workload {workload}, {what}");
        }
    }
}

#[test]
fn a_device_that_ignores_flushes_is_caught() {
    let mut recording = record(7, 150);
    recording.log.retain(|event| !matches!(event, Event::Flush));
    assert!(explore(&recording, 400, &mut Random(5)).is_err(), "the explorer cannot fail");
}

#[test]
fn a_commit_that_is_not_journaled_is_caught() {
    let mut recording = record(7, 150);
    let superblock = lanefs::format::superblock::Superblock::decode(&recording.base).expect("superblock");
    let journal = superblock.journal..superblock.journal + superblock.journal_blocks * 4096;
    recording.log.retain(
        |event| !matches!(event, Event::Write(at, _) if *at != journal.start && journal.contains(at)),
    );
    assert!(explore(&recording, 400, &mut Random(5)).is_err(), "the explorer cannot fail");
}
