//! The initial volume of the tests of failing devices, and queries on it with known answers.

use lanefs::{
    Access, Caller, Code, CreateOptions, Error, FileKind, InodeSize, MemoryDevice, OpenOptions, Volume,
};
use lanefs_testkit::engine::Engine;
use lanefs_testkit::faulty::{Faults, FaultyDevice};
use lanefs_testkit::model::Model;
use lanefs_testkit::ops::Data;
use lanefs_testkit::steps::{Step, StepEntry, StepTree, prepare, prepared_model, tree_of_model};
use lanefs_testkit::volume::options;
use std::sync::{Arc, OnceLock};

pub(crate) const EIO: i32 = 5;
pub(crate) const ENODEV: i32 = 19;
pub(crate) const ENOSPC: i32 = 28;

const SEED: u64 = 5;
const STEPS: u64 = 250;
/// Names in a directory that has no others.
const ONLY: u64 = 150;

fn only(number: u64) -> String {
    format!("/only/only-here-{number:060}")
}

fn bulk(number: u64) -> (String, Vec<u8>) {
    (format!("/data/file-{number}"), Data { len: 4096 * (1 + number as usize % 3), seed: number }.bytes())
}

/// The model of the base volume.
pub(crate) fn model_of_base() -> Model {
    static MODEL: OnceLock<Model> = OnceLock::new();
    let build = || {
        let mut model = prepared_model().expect("model");
        for number in 0..STEPS {
            let _ = Step::new(SEED, number).on_model(&mut model);
        }
        let caller = Caller::OWNER;
        let data = model.mkdir_all(b"/data", 0o755).expect("data").id;
        let only_dir = model.mkdir_all(b"/only", 0o755).expect("only").id;
        let name = |path: &str| path.rsplit('/').next().unwrap_or_default().as_bytes().to_vec();
        for number in 0..8 {
            let (path, content) = bulk(number);
            let made = model.create(&caller, data, &name(&path), 0o644).expect("create").id;
            model.write(&caller, made, 0, &content).expect("write");
        }
        for number in 0..ONLY {
            model.create(&caller, only_dir, &name(&only(number)), 0o644).expect("create");
        }
        model
    };
    MODEL.get_or_init(build).clone()
}

/// The bytes of the base volume after a close.
pub(crate) fn base_image() -> &'static [u8] {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a directory for temporary files");
        let image = dir.path().join("volume.lane");
        let options = CreateOptions { force: false, ..options(8 << 20, InodeSize::B256) };
        let volume = Volume::create(&image, &options).expect("create");
        prepare(&volume).expect("prepare");
        for number in 0..STEPS {
            let _ = Step::new(SEED, number).on_volume(&volume);
        }
        for path in ["/data", "/only"] {
            volume.mkdir_all(path, 0o755).expect("mkdir");
        }
        for (path, content) in (0..8).map(bulk) {
            volume.write_file(path, content).expect("write");
        }
        for number in 0..ONLY {
            volume.write_file(only(number), b"").expect("write");
        }
        volume.close().expect("close");
        std::fs::read(&image).expect("image")
    })
}

fn base_tree() -> &'static StepTree {
    static TREE: OnceLock<StepTree> = OnceLock::new();
    TREE.get_or_init(|| tree_of_model(&mut model_of_base()))
}

/// The read of a miss of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fetches {
    /// The missed block alone: one read for each block, which a test can count and break.
    Alone,
    /// The block with its neighbours, in one read, and the block alone where that fails.
    WithNeighbours,
}

impl Fetches {
    pub(crate) const BOTH: [Fetches; 2] = [Fetches::Alone, Fetches::WithNeighbours];

    /// Options to open the volume, of which each cache has room for all blocks.
    pub(crate) fn options(self) -> OpenOptions {
        let cache = match self {
            Fetches::Alone => 8 << 20,
            Fetches::WithNeighbours => 64 << 20,
        };
        OpenOptions { cache: Some(cache), ..OpenOptions::from(Access::Write) }
    }
}

/// Opens the volume on a device with faults in front of it.
pub(crate) fn open(below: &Arc<MemoryDevice>, faults: &Faults, fetches: Fetches) -> lanefs::Result<Volume> {
    Volume::open_device(Box::new(FaultyDevice::new(below.clone(), faults)), fetches.options())
}

/// A query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Query {
    /// Attributes of a path.
    Attributes(String),
    /// Content of a file.
    Content(String),
    /// Names in a directory.
    Names(String),
    /// A name that is not there.
    Missing(String),
}

impl Query {
    pub(crate) fn path(&self) -> &str {
        match self {
            Query::Attributes(path) | Query::Content(path) | Query::Names(path) => path,
            Query::Missing(path) => path.rsplit_once('/').map_or("", |(dir, _)| dir),
        }
    }
}

fn text(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// All queries on the base. Symbolic links are left out, because a path through one involves two inodes.
pub(crate) fn queries() -> Vec<Query> {
    let mut queries = Vec::new();
    for (path, entry) in base_tree() {
        let path = text(path);
        match entry.kind {
            FileKind::Symlink => continue,
            FileKind::Directory => {
                queries.push(Query::Names(path.clone()));
                queries.push(Query::Missing(format!("{path}/missing")));
            }
            _ if !entry.content.is_empty() => queries.push(Query::Content(path.clone())),
            _ => {}
        }
        queries.push(Query::Attributes(path));
    }
    queries
}

/// Runs a query and compares the answer with the right one.
///
/// # Errors
/// The volume's, for the test to judge.
///
/// # Panics
/// For a wrong answer.
pub(crate) fn right_answer(look: &Query, volume: &Volume) -> lanefs::Result<()> {
    let entry = |path: &String| -> &StepEntry { &base_tree()[path.as_bytes()] };
    match look {
        Query::Attributes(path) => {
            let attr = volume.resolve(path)?;
            let right = entry(path);
            assert_eq!((attr.kind, attr.perm, attr.links), (right.kind, right.perm, right.links), "{path}");
        }
        Query::Content(path) => {
            // One attribute call and one read, as a program would.
            let attr = volume.resolve(path)?;
            let mut content = vec![0; attr.size as usize];
            let len = volume.read(&Caller::OWNER, attr.ino, 0, &mut content)?;
            assert!(content[..len] == entry(path).content, "{path} has other content");
        }
        Query::Names(path) => {
            let mut names = Vec::new();
            let (dir, mut cookie) = (volume.resolve(path)?.ino, 0);
            loop {
                let page = volume.readdir(&Caller::OWNER, dir, cookie, 50)?;
                let Some(last) = page.last() else { break };
                cookie = last.cookie;
                names.extend(page.into_iter().map(|entry| entry.name));
            }
            names.sort();
            let below = format!("{path}/");
            let right = base_tree().keys().filter_map(|path| path.strip_prefix(below.as_bytes()));
            let right: Vec<&[u8]> = right.filter(|name| !name.contains(&b'/')).collect();
            assert!(names == right, "{path} has other names");
        }
        Query::Missing(path) => match volume.resolve(path) {
            Err(error) if error.code() == Code::NotFound => {}
            Err(error) => return Err(error),
            Ok(attr) => panic!("{path} is there: {attr:?}"),
        },
    }
    Ok(())
}

/// Runs all queries on a volume with a healthy device.
pub(crate) fn run_all(volume: &Volume) {
    for look in queries() {
        right_answer(&look, volume).unwrap_or_else(|error: Error| panic!("{look:?}: {error}"));
    }
}

/// Returns path and position of each block of the files in `/data`.
pub(crate) fn data_blocks() -> Vec<(String, u64)> {
    let mut blocks = Vec::new();
    for (path, entry) in base_tree().iter().filter(|(_, entry)| entry.content.len() > 160) {
        for part in entry.content.chunks(4096) {
            // The journal may have copies, which are not read.
            let mut found = base_image().chunks(4096).enumerate().filter(|(index, _)| !in_journal(*index));
            if let Some((index, _)) = found.find(|(_, block)| block.starts_with(part)) {
                // A file with two names would be counted twice.
                if entry.links == 1 {
                    blocks.push((text(path), index as u64 * 4096));
                }
            }
        }
    }
    blocks
}

fn in_journal(index: usize) -> bool {
    let superblock = lanefs_format::superblock::Superblock::decode(base_image()).expect("a superblock");
    let first = superblock.journal / 4096;
    (first..first + superblock.journal_blocks).contains(&(index as u64))
}

/// Blocks that hold these bytes.
pub(crate) fn blocks_with(bytes: &[u8]) -> Vec<u64> {
    let holds = |block: &[u8]| block.windows(bytes.len()).any(|window| window == bytes);
    (0u64..).zip(base_image().chunks(4096)).filter(|(_, block)| holds(block)).map(|(i, _)| i * 4096).collect()
}

/// A device that holds this image.
pub(crate) fn device(image: &[u8]) -> Arc<MemoryDevice> {
    Arc::new(MemoryDevice::new(image.to_vec()))
}

/// Returns true for an error of the device; panics where it has the wrong errno or no position.
pub(crate) fn is_device_error(error: &Error, errno: i32, faults: &Faults) -> bool {
    let Error::Io { .. } = error else { return false };
    let text = error.to_string();
    assert_eq!(error.errno(), errno, "the wrong errno: {text}");
    let (_, rest) = text.split_once("at byte ").unwrap_or_else(|| panic!("does not say where: {text}"));
    let digits = rest.find(|c: char| !c.is_ascii_digit()).map_or(rest, |end| &rest[..end]);
    let byte: u64 = digits.parse().unwrap_or_else(|_| panic!("does not say where: {text}"));
    if text.starts_with("reading") {
        let failed = faults.failed();
        assert!(
            failed.iter().any(|access| access.bytes.contains(&byte)),
            "{text}; but these failed: {failed:?}"
        );
    }
    true
}

/// Opens the device without faults.
pub(crate) fn reopened(below: &Arc<MemoryDevice>) -> Result<Volume, String> {
    open(below, &Faults::new(), Fetches::Alone).map_err(|e| format!("the healthy device does not open: {e}"))
}

/// Checks a volume; the error lists the findings.
pub(crate) fn fsck(volume: &Volume) -> Result<(), String> {
    let report = volume.check(false, &|_, _| {}).map_err(|e| format!("fsck: {e}"))?;
    report.findings.first().map_or(Ok(()), |finding| Err(format!("fsck: {finding:?}")))
}
