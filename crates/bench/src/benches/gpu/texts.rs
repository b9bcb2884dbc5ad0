//! `gpu-grep`, `gpu-dups`, `gpu-fuzzy`: searches of all files of a volume in memory, as the commands do them,
//! each by one thread of the host.

use super::bench::GpuBench;
use crate::error::{Error, Result};
use crate::measure::values::{LANEFS, Values};
use crate::systems::system::Named;
use crate::systems::workload::SEED;
use lanefs::{CreateOptions, FileKind, Ino, Volume};
use lanefs_gpu::{Gpu, KeptTexts};
use lanefs_search::fuzzy::{Finder, GatherOptions, Names, Query, Start};
use lanefs_search::{
    Candidate, ContentHash, CpuHash, DeviceHash, DeviceRanks, DeviceSearch, Form, Grep, OutputOptions,
    QueryOptions, duplicates_by,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::sync::Arc;
use std::time::Instant;

/// Bytes of a file.
const FILE_BYTES: usize = 16 << 10;
/// Files of a directory.
const DIRECTORY: usize = 1000;
/// A word that one of a hundred files has.
const RARE: &str = "needle in a haystack";
/// The query for names.
const QUERY: &str = "dir5tx7";

pub(super) const ROWS: [&str; 3] = ["gpu-grep", "gpu-dups", "gpu-fuzzy"];

/// Engines of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Engine {
    /// The device; for lines it has kept the texts.
    Device,
    /// The device, to which the texts are copied.
    Copied,
    Cpu,
}

impl Named for Engine {
    fn name(&self) -> &str {
        match self {
            Engine::Device => LANEFS,
            Engine::Copied => "copied",
            Engine::Cpu => "cpu",
        }
    }
}

/// Texts in a volume.
struct Texts {
    volume: Volume,
    files: Vec<(Vec<u8>, Ino)>,
}

impl Texts {
    /// Makes so many bytes of texts.
    fn make(bench: &GpuBench, bytes: usize) -> Result<Texts> {
        const WORDS: [&str; 8] =
            ["the", "table ", "of inodes, ", "a block;\n", "{ let", " x = 7 }\n", "//", "é"];
        let size = (bytes as u64 * 2).max(64 << 20) + (64 << 20);
        let volume = Volume::create_memory(&CreateOptions { size, ..CreateOptions::default() });
        let volume = volume.map_err(Error::volume("making a volume"))?;
        let (mut random, mut files) = (StdRng::seed_from_u64(SEED), Vec::new());
        let mut text = Vec::with_capacity(FILE_BYTES + 64);
        for number in 0..(bytes / FILE_BYTES).max(8) {
            bench.stop.check()?;
            text.clear();
            while text.len() < FILE_BYTES {
                text.extend_from_slice(WORDS[random.random_range(0..WORDS.len())].as_bytes());
            }
            text.truncate(FILE_BYTES);
            if number % 100 == 0 {
                text[FILE_BYTES / 2..][..RARE.len()].copy_from_slice(RARE.as_bytes());
            }
            let dir = format!("/dir{}", number / DIRECTORY);
            let path = format!("{dir}/text{number:06}").into_bytes();
            if number % DIRECTORY == 0 {
                volume.mkdir_all(&dir, 0o755).map_err(Error::volume("mkdir_all"))?;
            }
            let made = volume.write_file(&path, &text).map_err(Error::volume("write_file"))?;
            files.push((path, made.ino));
        }
        Ok(Texts { volume, files })
    }

    fn candidates(&self) -> impl Iterator<Item = Candidate> {
        let candidate = |(path, ino): &(Vec<u8>, Ino)| Candidate {
            path: path.clone(),
            shown: None,
            ino: *ino,
            size: FILE_BYTES as u64,
            is_named: false,
        };
        self.files.iter().map(candidate)
    }

    /// Returns the number of files with a line that matches.
    fn grep(&self, engine: Engine, gpu: &Gpu, kept: &Arc<KeptTexts>) -> Result<u64> {
        let query = QueryOptions { patterns: vec![RARE.into()], ..QueryOptions::default() };
        let device = match engine {
            Engine::Device => DeviceSearch::new(gpu, &query).map(|device| device.with_kept(kept.clone())),
            Engine::Copied => DeviceSearch::new(gpu, &query),
            Engine::Cpu => None,
        };
        let output = OutputOptions { form: Form::Files, paths: true, nul: false, colors: false };
        let mut grep = Grep::new(query, output, 1).map_err(|_| wrong("a query", 0, 1))?;
        if let Some(device) = device {
            grep = grep.with_prefilter(Arc::new(device));
        }
        let (mut files, mut failed) = (self.candidates(), 0);
        let mut fail = |_: &[u8], _| {
            failed += 1;
            true
        };
        let found = grep.search(&self.volume, || files.next(), &mut Vec::new(), &mut fail, &|| false);
        let shown = found.map_or(0, |found| found.shown);
        if failed == 0 { Ok(shown) } else { Err(wrong("files that failed", failed, 0)) }
    }

    /// Returns the number of groups of equal files.
    fn duplicates(&self, engine: Engine, gpu: &Gpu) -> u64 {
        let device = (engine != Engine::Cpu).then(|| DeviceHash::new(gpu));
        let hasher = device.as_ref().map_or(&CpuHash as &dyn ContentHash, |device| device);
        let candidates = self.candidates().collect();
        let mut fail = |_: &[u8], _| true;
        let found = duplicates_by(hasher, &self.volume, candidates, 1, &mut fail, &|_, _| {}, &|| false);
        found.map_or(u64::MAX, |found| found.groups.len() as u64)
    }
}

fn wrong(what: &'static str, found: u64, expected: u64) -> Error {
    Error::Wrong { system: "a search".into(), what, found, expected }
}

pub(super) fn measure(bench: &mut GpuBench) -> Result<()> {
    // A KiB for each file of the other rows' tree.
    let texts = Texts::make(bench, bench.settings.sizes.tree_files << 10)?;
    let (files, kib) = (texts.files.len(), texts.files.len() * FILE_BYTES / 1024);
    let gpu = bench.settings.gpu.clone();
    let (expected, kept) = (files.div_ceil(100) as u64, Arc::new(gpu.kept_texts(None)));
    let (all, two) = ([Engine::Device, Engine::Copied, Engine::Cpu], [Engine::Device, Engine::Cpu]);
    let (mut grep, mut dups, mut fuzzy) = (Values::default(), Values::default(), Values::default());
    bench.in_turn("grep", &all.iter().collect::<Vec<_>>(), |engine, run| {
        bench.stop.check()?;
        let start = Instant::now();
        let found = texts.grep(*engine, &gpu, &kept)?;
        if found != expected {
            return Err(wrong("files that match", found, expected));
        }
        // The first run has the device keep the texts.
        if run > 0 {
            grep.add_each(engine.name(), start.elapsed(), kib);
        }
        Ok(())
    })?;
    let row = grep.row("gpu-grep", "ns/KiB");
    bench.row(row.map(|row| row.param("files", files).param("kept", kept.len()).param("pattern", RARE)));
    bench.in_turn("dups", &two.iter().collect::<Vec<_>>(), |engine, run| {
        bench.stop.check()?;
        let start = Instant::now();
        let found = texts.duplicates(*engine, &gpu);
        if found != 0 {
            return Err(wrong("groups of equal files", found, 0));
        }
        if run > 0 {
            dups.add_each(engine.name(), start.elapsed(), kib);
        }
        Ok(())
    })?;
    bench.row(dups.row("gpu-dups", "ns/KiB").map(|row| row.param("files", files)));
    let start = Start { path: b"/".to_vec(), ino: texts.volume.root(), kind: FileKind::Directory };
    let options = GatherOptions { threads: 1, with_starts: false, max_depth: None };
    let (names, _) = Names::gather(&texts.volume, &[start], &options, &|| false);
    let ranks = DeviceRanks::new(&gpu, &names).map_err(Error::device("copying paths"))?;
    let (ranks, query, mut expected) = (Arc::new(ranks), Query::parse(QUERY), None);
    bench.in_turn("fuzzy", &two.iter().collect::<Vec<_>>(), |engine, run| {
        bench.stop.check()?;
        let mut finder = Finder::new(&names, 1);
        if *engine == Engine::Device {
            // A query of its own each time: the device remembers the scores of the last one.
            let mut warm = Finder::new(&names, 1).with_ranker(ranks.clone());
            warm.search(&Query::parse("other"), 1);
            finder = finder.with_ranker(ranks.clone());
        }
        let start = Instant::now();
        let found = finder.search(&query, 100);
        let elapsed = start.elapsed();
        if *expected.get_or_insert_with(|| found.clone()) != found {
            return Err(wrong("names", found.1 as u64, expected.as_ref().map_or(0, |all| all.1 as u64)));
        }
        if run > 0 {
            fuzzy.add_each(engine.name(), elapsed, names.len());
        }
        Ok(())
    })?;
    let row = fuzzy.row("gpu-fuzzy", "ns/path");
    bench.row(row.map(|row| row.param("paths", names.len()).param("query", QUERY)));
    Ok(())
}
