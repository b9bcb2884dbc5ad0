//! The row of names: a query that is typed key by key.

use super::programs::{SearchProgram, fzf, fzf_matches};
use super::rows::{FUZZY, FUZZY_GOAL};
use super::{SearchSizes, threads};
use crate::error::{Error, Result, check};
use crate::measure::stop::Stop;
use crate::measure::threads::{share, together};
use crate::measure::values::{LANEFS, Values};
use crate::session::Session;
use crate::systems::system::Named;
use crate::systems::temporary::temp_dir;
use crate::systems::workload::SEED;
use lanefs::bulk::Change;
use lanefs::{CreateOptions, FileKind, Volume};
use lanefs_search::fuzzy::{Finder, GatherOptions, Names, Query, Start};
use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// The queries that are typed.
const QUERIES: [&str; 4] = ["srcmain", "kernel/dev", "netbufrs", "x86 .c$"];
/// Paths that are listed.
const LISTED: usize = 100;
/// Files of a directory, and of one call that makes them.
const FILES_PER_DIRECTORY: usize = 100;
const MADE_AT_ONCE: usize = 20_000;

const WORDS: [&str; 34] = [
    "src", "kernel", "drivers", "net", "include", "arch", "x86", "sound", "block", "crypto", "tools", "test",
    "module", "config", "main", "device", "manager", "buffer", "queue", "Reader", "Writer", "index", "page",
    "table", "cache", "inode", "socket", "filter", "timer", "signal", "memory", "string", "format", "parser",
];
const ENDS: [&str; 8] = [".c", ".h", ".rs", ".txt", ".toml", ".o", "", ".md"];

/// A system under measurement.
enum Typist<'s> {
    Lane(&'s Names),
    /// nucleo's matcher on a list in memory.
    Nucleo(&'s [Vec<u8>]),
    /// fzf on the same list in a file.
    Fzf(&'s Path),
}

impl Named for Typist<'_> {
    fn name(&self) -> &str {
        match self {
            Typist::Lane(_) => LANEFS,
            Typist::Nucleo(_) => "nucleo",
            Typist::Fzf(_) => SearchProgram::Fzf.name(),
        }
    }
}

impl Typist<'_> {
    /// Types a query; returns the time of all keys and the number of matches after each.
    fn types(&self, text: &str, stop: &Stop) -> Result<(Duration, Vec<u64>)> {
        let keys = text.char_indices().map(|(at, key)| &text[..at + key.len_utf8()]);
        let (mut all, mut counts) = (Duration::ZERO, Vec::new());
        let mut finder =
            if let Typist::Lane(names) = self { Some(Finder::new(names, threads())) } else { None };
        for typed in keys {
            stop.check()?;
            let start = Instant::now();
            let count = match (self, &mut finder) {
                (Typist::Nucleo(list), _) => nucleo(list, typed)?,
                (Typist::Fzf(list), _) => fzf(list, typed, stop)?.1,
                (Typist::Lane(_), Some(finder)) => finder.search(&Query::parse(typed), LISTED).1 as u64,
                (Typist::Lane(_), None) => 0,
            };
            all += start.elapsed();
            counts.push(count);
        }
        Ok((all, counts))
    }
}

/// Measures the row.
pub(super) fn measure(bench: &mut Session<SearchSizes>) -> Result<()> {
    let size = (bench.settings.names as u64 * 1024).max(256 << 20);
    let volume = Volume::create_memory(&CreateOptions { size, ..CreateOptions::default() })
        .map_err(Error::volume("making a memory volume"))?;
    bench.progress.step(&format!("making {} files", bench.settings.names));
    fill(&volume, bench.settings.names, &bench.stop)?;
    let gathered = Instant::now();
    let names = gather(&volume, &bench.stop)?;
    let gathered = gathered.elapsed();
    let list: Vec<Vec<u8>> = (0..names.len() as u32).map(|id| names.path(id)).collect();
    let temp = temp_dir()?;
    let file = temp.path().join("paths");
    write_list(&list, &file).map_err(Error::host("the list of paths"))?;
    let mut typists = vec![Typist::Lane(&names), Typist::Nucleo(&list)];
    typists.extend(SearchProgram::Fzf.is_there(bench)?.then_some(Typist::Fzf(&file)));
    let mut values = Values::default();
    let keys: usize = QUERIES.iter().map(|query| query.chars().count()).sum();
    bench.in_turn(FUZZY, &typists.iter().collect::<Vec<_>>(), |typist, run| {
        let mut all = Duration::ZERO;
        for query in QUERIES {
            let (elapsed, counts) = typist.types(query, &bench.stop)?;
            all += elapsed;
            if run == 0 {
                verify(typist, query, &counts, &names, &bench.stop)?;
            }
        }
        if run > 0 {
            values.add_each(typist.name(), all, keys);
        }
        Ok(())
    })?;
    let row = values.row(FUZZY, "ns/key").map(|row| {
        row.param("names", names.len())
            .param("keys", keys)
            .param("threads", threads())
            .extra("gathering_names_ms", gathered.as_secs_f64() * 1e3)
            .goal_ratio("nucleo", FUZZY_GOAL)
    });
    bench.row(row);
    Ok(())
}

/// Compares the numbers of matches with those of a search for the whole query at once. fzf, of which the best
/// ones are listed only, counts its own once more.
fn verify(typist: &Typist<'_>, query: &str, counts: &[u64], names: &Names, stop: &Stop) -> Result<()> {
    let expected = Finder::new(names, 1).search(&Query::parse(query), 0).1;
    let last = counts.last().copied().unwrap_or(0);
    let found = match typist {
        Typist::Fzf(list) => {
            check(typist.name(), "paths listed", last, expected.min(LISTED))?;
            fzf_matches(list, query, stop)?
        }
        _ => last,
    };
    check(typist.name(), "matching paths", found, expected)
}

fn gather(volume: &Volume, stop: &Stop) -> Result<Names> {
    let start = Start { path: b"/".to_vec(), ino: volume.root(), kind: FileKind::Directory };
    let options = GatherOptions { threads: threads(), with_starts: false, max_depth: None };
    let (names, unread) = Names::gather(volume, &[start], &options, &|| stop.is_set());
    stop.check()?;
    check(LANEFS, "directories that cannot be read", unread.len() as u64, 0)?;
    Ok(names)
}

/// Scores all paths and keeps the best ones, each thread its share; returns the number of matches.
fn nucleo(list: &[Vec<u8>], query: &str) -> Result<u64> {
    let pattern = Pattern::parse(query, CaseMatching::Smart, Normalization::Smart);
    let threads = threads();
    let done = together(threads, |thread| {
        let mut matcher = Matcher::new(Config::DEFAULT.match_paths());
        let (mut best, mut count) = (BinaryHeap::with_capacity(LISTED + 1), 0);
        for path in share(list, threads, thread) {
            let Some(score) = pattern.score(Utf32Str::Ascii(path), &mut matcher) else { continue };
            count += 1;
            best.push(Reverse(score));
            if best.len() > LISTED {
                best.pop();
            }
        }
        std::hint::black_box(best);
        Ok(count)
    })?;
    Ok(done.sum)
}

fn write_list(list: &[Vec<u8>], file: &Path) -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::fs::File::create(file)?);
    for path in list {
        out.write_all(path)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// Makes files with a hundred in a directory, about five levels deep.
fn fill(volume: &Volume, files: usize, stop: &Stop) -> Result<()> {
    let mut rng = StdRng::seed_from_u64(SEED);
    let word = |rng: &mut StdRng| WORDS[rng.random_range(0..WORDS.len())];
    let (mut paths, mut dir) = (Vec::with_capacity(files), String::new());
    for number in 0..files {
        if number % FILES_PER_DIRECTORY == 0 {
            let levels = rng.random_range(3..6usize);
            dir = (0..levels).map(|_| format!("/{}", word(&mut rng))).collect();
            dir += &format!("/{}{}", word(&mut rng), number / FILES_PER_DIRECTORY);
            volume.mkdir_all(&dir, 0o755).map_err(Error::volume("mkdir"))?;
        }
        let [first, second] = [word(&mut rng), word(&mut rng)];
        let end = ENDS[rng.random_range(0..ENDS.len())];
        paths.push(format!("{dir}/{first}_{second}_{}{end}", number % FILES_PER_DIRECTORY));
    }
    for part in paths.chunks(MADE_AT_ONCE) {
        stop.check()?;
        let changes: Vec<Change<'_>> = part
            .iter()
            .map(|path| Change::Create { path: path.as_bytes(), perm: 0o644, data: b"" })
            .collect();
        let codes = volume.apply(volume.root(), &changes).map_err(Error::volume("making files"))?;
        check(LANEFS, "new files", codes.len() as u64, part.len())?;
    }
    Ok(())
}
