//! Volumes, stores that fail, and comparisons for the tests of publications.
#![allow(dead_code, reason = "each test uses a part")]

use lanefs::{Access, Caller, CreateOptions, FileKind, Ino, Volume};
use lanefs_publish::{
    Directory, Error, Listed, Publication, PublishOptions, PublishReport, ReadOptions, Reference, Stamp,
    Store, StoreError, publish,
};
use lanefs_testkit::seeded::Seeded;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Outcome<T> = Result<T, StoreError>;

/// Changes the answer to a read of an object from an offset on.
pub(crate) type Plant = Box<dyn FnMut(&str, u64, Vec<u8>) -> Outcome<Vec<u8>> + Send>;

/// A store in memory whose failures a test plants.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) objects: Mutex<BTreeMap<String, (Vec<u8>, u64)>>,
    /// Writes and replacements so far.
    pub(crate) puts: Mutex<Vec<String>>,
    /// Number of puts that succeed; later ones fail.
    pub(crate) puts_left: Mutex<Option<usize>>,
    /// Puts of objects that begin so fail.
    pub(crate) refused: Mutex<Option<&'static str>>,
    /// A put that fails has been done all the same.
    pub(crate) loses_answers: Mutex<bool>,
    pub(crate) reads: Mutex<Vec<(String, Range<u64>)>>,
    /// Requests that were said to follow a read, with the number of reads before that.
    pub(crate) prepared: Mutex<Vec<(usize, usize)>>,
    pub(crate) plant: Mutex<Option<Plant>>,
    /// The store's clock in seconds; `None`: the host's.
    pub(crate) clock: Mutex<Option<i64>>,
    /// Times of the objects.
    modified: Mutex<BTreeMap<String, i64>>,
    /// Called before a replacement.
    pub(crate) before_replace: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Memory {
    /// The store's clock.
    pub(crate) fn now(&self) -> i64 {
        let host = || std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs() as i64);
        self.clock.lock().unwrap_or_else(host)
    }

    /// Counts a put; false where it fails.
    fn may_put(&self, object: &str) -> bool {
        self.puts.lock().push(object.into());
        if self.refused.lock().is_some_and(|refused| object.starts_with(refused)) {
            return false;
        }
        match &mut *self.puts_left.lock() {
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
            None => true,
        }
    }

    fn put(&self, object: &str, bytes: Vec<u8>) -> Outcome<()> {
        let may = self.may_put(object);
        if may || *self.loses_answers.lock() {
            let mut objects = self.objects.lock();
            // (No version comes again, not even after a deletion, as no entity tag of a server does.)
            let version = self.puts.lock().len() as u64;
            objects.insert(object.into(), (bytes, version));
            self.modified.lock().insert(object.into(), self.now());
        }
        if may { Ok(()) } else { Err(StoreError::Failed("planted".into())) }
    }

    /// Reads from now on as `plant` says.
    pub(crate) fn plant(&self, plant: impl FnMut(&str, u64, Vec<u8>) -> Outcome<Vec<u8>> + Send + 'static) {
        *self.plant.lock() = Some(Box::new(plant));
    }

    pub(crate) fn heal(&self) {
        *self.plant.lock() = None;
    }

    /// Names of all objects.
    pub(crate) fn names(&self) -> Vec<String> {
        self.objects.lock().keys().cloned().collect()
    }

    pub(crate) fn content(&self, object: &str) -> Vec<u8> {
        self.objects.lock()[object].0.clone()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.objects.lock().values().map(|(bytes, _)| bytes.len() as u64).sum()
    }

    fn answer(&self, object: &str, from: u64, bytes: Vec<u8>) -> Outcome<Vec<u8>> {
        match &mut *self.plant.lock() {
            Some(plant) => plant(object, from, bytes),
            None => Ok(bytes),
        }
    }
}

impl Store for Memory {
    fn name(&self) -> String {
        "memory:".into()
    }

    fn prepare(&self, requests: usize) {
        let before = self.reads.lock().len();
        self.prepared.lock().push((requests, before));
    }

    fn read(&self, object: &str, range: Range<u64>) -> Outcome<Vec<u8>> {
        self.reads.lock().push((object.into(), range.clone()));
        let bytes = {
            let objects = self.objects.lock();
            let (bytes, _) = objects.get(object).ok_or(StoreError::Missing)?;
            let end = bytes.len().min(range.end as usize);
            bytes.get(range.start as usize..end).unwrap_or_default().to_vec()
        };
        self.answer(object, range.start, bytes)
    }

    fn read_all(&self, object: &str, most: u64) -> Outcome<(Vec<u8>, Stamp)> {
        self.reads.lock().push((object.into(), 0..most));
        let (bytes, version) = self.objects.lock().get(object).cloned().ok_or(StoreError::Missing)?;
        let bytes = self.answer(object, 0, bytes)?;
        if bytes.len() as u64 > most {
            return Err(StoreError::Failed("too large".into()));
        }
        Ok((bytes, Stamp { e_tag: None, version: Some(version.to_string()) }))
    }

    fn write(&self, object: &str, bytes: Vec<u8>) -> Outcome<()> {
        self.put(object, bytes)
    }

    fn replace(&self, object: &str, expected: Option<&Stamp>, bytes: Vec<u8>) -> Outcome<()> {
        let before = self.before_replace.lock().take();
        if let Some(before) = before {
            before();
        }
        let present = self.objects.lock().get(object).map(|(_, version)| version.to_string());
        if present != expected.and_then(|stamp| stamp.version.clone()) {
            return Err(StoreError::Changed);
        }
        self.put(object, bytes)
    }

    fn delete(&self, object: &str) -> Outcome<()> {
        self.objects.lock().remove(object);
        Ok(())
    }

    fn list(&self, folder: &str) -> Outcome<Vec<Listed>> {
        let objects = self.objects.lock();
        let in_folder = objects.iter().filter_map(|(name, (bytes, _))| {
            let name = name.strip_prefix(folder)?.strip_prefix('/')?;
            let modified = self.modified.lock().get(&format!("{folder}/{name}")).copied();
            let modified = modified.unwrap_or_else(|| self.now());
            Some(Listed { name: name.into(), bytes: bytes.len() as u64, modified, is_object: true })
        });
        Ok(in_folder.collect())
    }
}

/// A folder with an image in it.
pub(crate) struct Image {
    pub(crate) home: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

impl Image {
    /// Makes a volume of `size` bytes and fills it.
    pub(crate) fn new(size: u64, fill: impl FnOnce(&Volume)) -> Image {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("v.lane");
        let volume =
            Volume::create(&path, &CreateOptions { size, ..CreateOptions::default() }).expect("create");
        fill(&volume);
        volume.close().expect("close");
        Image { home, path }
    }

    /// Changes the volume.
    pub(crate) fn change(&self, change: impl FnOnce(&Volume)) {
        let volume = Volume::open(&self.path, Access::Write).expect("open");
        change(&volume);
        volume.close().expect("close");
    }

    pub(crate) fn open(&self) -> Volume {
        Volume::open(&self.path, Access::Read).expect("open")
    }

    /// Publishes the volume as `latest`.
    pub(crate) fn publish(&self, store: &Arc<Memory>) -> Result<PublishReport, Error> {
        self.publish_as(store, "latest", false)
    }

    pub(crate) fn publish_as(
        &self,
        store: &Arc<Memory>,
        tag: &str,
        dry_run: bool,
    ) -> Result<PublishReport, Error> {
        let options = PublishOptions { level: 1, dry_run, ..PublishOptions::default() };
        publish(&self.open(), store.clone(), tag, &options, &|_, _| true)
    }
}

/// Opens the version of `latest`.
pub(crate) fn open(store: &Arc<Memory>) -> Result<Publication, Error> {
    open_with(store.clone(), &ReadOptions::default())
}

pub(crate) fn open_with(store: Arc<dyn Store>, options: &ReadOptions) -> Result<Publication, Error> {
    Publication::open(store, &Reference::default(), options)
}

/// Opens the volume of a publication.
pub(crate) fn volume(publication: &Publication) -> Volume {
    Volume::open_device(Box::new(publication.device()), Access::Read).expect("the volume opens")
}

/// Everything of a volume that has a name, and the bytes of its used blocks.
#[derive(PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) names: BTreeMap<Vec<u8>, String>,
    pub(crate) blocks: BTreeMap<u64, Vec<u8>>,
}

pub(crate) fn names(volume: &Volume) -> BTreeMap<Vec<u8>, String> {
    let mut names = BTreeMap::new();
    walk(volume, volume.root(), b"", &mut names);
    names
}

pub(crate) fn content(volume: &Volume) -> Content {
    let names = names(volume);
    let mut blocks = BTreeMap::new();
    for group in 0..volume.group_count() {
        for window in volume.used_blocks(group).expect("used blocks") {
            for bit in (0..64).filter(|bit| window.used >> bit & 1 != 0) {
                let mut block = vec![0; 4096];
                let at = window.position + bit * 4096;
                volume.read_image(at, &mut block).expect("a block");
                blocks.insert(at, block);
            }
        }
    }
    Content { names, blocks }
}

fn walk(volume: &Volume, dir: Ino, prefix: &[u8], names: &mut BTreeMap<Vec<u8>, String>) {
    let mut cookie = 0;
    loop {
        let page = volume.readdir(&Caller::OWNER, dir, cookie, 1000).expect("readdir");
        let Some(last) = page.last() else { return };
        cookie = last.cookie;
        for entry in page.iter().filter(|entry| !matches!(&entry.name[..], b"." | b"..")) {
            let path = [prefix, b"/", &entry.name].concat();
            let attr = volume.getattr(entry.ino).expect("attributes");
            let content = match entry.kind {
                FileKind::File => volume.read_file(&path).expect("a file"),
                FileKind::Symlink => volume.readlink(entry.ino).expect("a link"),
                _ => Vec::new(),
            };
            let attributes = volume.listxattr(entry.ino).expect("attributes");
            names.insert(path.clone(), format!("{attr:?} {attributes:?} {}", blake3::hash(&content)));
            if entry.kind == FileKind::Directory {
                walk(volume, entry.ino, &path, names);
            }
        }
    }
}

/// Compares a publication with the volume that was published.
pub(crate) fn assert_same(image: &Image, publication: &Publication) {
    let (here, there) = (content(&image.open()), content(&volume(publication)));
    assert!(here.names == there.names, "names differ");
    assert_eq!(here.blocks.len(), there.blocks.len(), "used blocks");
    for (at, block) in &here.blocks {
        assert!(there.blocks.get(at) == Some(block), "block at {at:#x} differs");
    }
    let there = volume(publication);
    let report = there.check(false, &|_, _| {}).expect("check");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let scrubbed = there.scrub(0, &mut |_, _| true).expect("scrub");
    assert_eq!((scrubbed.wrong, scrubbed.without), (vec![], 0));
}

/// Text that compresses as texts do.
pub(crate) fn text(random: &mut Seeded, bytes: usize) -> Vec<u8> {
    let words = ["lane ", "volume ", "block ", "of ", "the ", "reader ", "publishes ", "0x1f ", "\n"];
    let mut text = Vec::new();
    while text.len() < bytes {
        text.extend_from_slice(words[random.below(words.len() as u64) as usize].as_bytes());
        if random.chance(30) {
            text.extend_from_slice(random.bits().to_string().as_bytes());
        }
    }
    text.truncate(bytes);
    text
}

/// Makes random changes of the files in `/d0` to `/d9`.
pub(crate) fn change_at_random(volume: &Volume, random: &mut Seeded, changes: usize) {
    for _ in 0..changes {
        let (dir, file) = (random.below(10), random.below(60));
        let path = format!("/d{dir}/file-{file}");
        volume.mkdir_all(format!("/d{dir}"), 0o755).expect("mkdir");
        match random.below(10) {
            0 | 1 => drop(volume.remove_all(&path)),
            2 => {
                let target = format!("../d{}/file-{}", random.below(10), random.below(60));
                let _ = volume.remove_all(&path);
                let (parent, name) = volume.resolve_parent(path.as_bytes()).expect("parent");
                volume.symlink_at(&Caller::OWNER, parent, name, target.as_bytes()).expect("link");
            }
            3 => {
                let other = format!("/d{}/file-{}", random.below(10), random.below(60));
                if let Ok(bytes) = volume.read_file(&other) {
                    let _ = volume.remove_all(&path);
                    volume.write_file(&path, bytes).expect("write");
                }
            }
            _ => {
                let _ = volume.remove_all(&path);
                let bytes = [100, 5_000, 20_000, 400_000][random.below(4) as usize];
                let bytes = random.below(bytes) as usize;
                volume.write_file(&path, text(random, bytes)).expect("write");
            }
        }
    }
}

/// A directory of the host as a store.
pub(crate) fn directory(path: &Path) -> Arc<Directory> {
    Arc::new(Directory::new(path))
}
