//! The rows of files: lines that match, and files of the same content.

use super::SearchSizes;
use super::programs::{self, SearchProgram};
use super::rows::{DUPLICATES, DUPLICATES_GOAL, GREP, GrepWork};
use super::sources::Sources;

use crate::error::{Error, Result, check};
use crate::measure::report::Row;
use crate::measure::stop::Stop;
use crate::measure::values::{LANEFS, Values};
use crate::session::Session;
use crate::systems::file_volume::{FileSet, FileVolume, make_on_host};
use crate::systems::peers::{Host, Medium, SpaceRequest, run_command};
use crate::systems::served::forget;
use crate::systems::system::Named;
use crate::systems::temporary::temp_dir;
use crate::systems::walk::WalkedFiles;
use lanefs::Volume;
use lanefs_search::{Form, Grep, OutputOptions, QueryOptions, duplicates};
use std::time::{Duration, Instant};

/// A system under measurement.
enum Searcher<'s> {
    Lane(&'s FileVolume),
    Program(SearchProgram, &'s Host),
}

impl Named for Searcher<'_> {
    fn name(&self) -> &str {
        match self {
            Searcher::Lane(_) => LANEFS,
            Searcher::Program(program, _) => program.name(),
        }
    }
}

impl Searcher<'_> {
    fn drop_caches(&self, stop: &Stop) -> Result<()> {
        match self {
            Searcher::Lane(lane) => lane.drop_caches(),
            Searcher::Program(program, _) => {
                forget(true)?;
                // The program itself is in memory again, as LaneFS is.
                run_command(program.name(), &["--version"], stop).map(drop)
            }
        }
    }

    /// Counts matching lines of each file; returns the number of files that have one.
    fn grep(&self, pattern: &str, files: usize, stop: &Stop) -> Result<(Duration, u64)> {
        match self {
            Searcher::Lane(lane) => grep(&lane.volume, pattern, files, stop),
            Searcher::Program(_, host) => programs::ripgrep(host.path(), pattern, stop),
        }
    }

    /// Finds equal files; returns the number of groups.
    fn duplicates(&self, stop: &Stop) -> Result<(Duration, u64)> {
        match self {
            Searcher::Lane(lane) => find_duplicates(&lane.volume, stop),
            Searcher::Program(_, host) => programs::fclones(host.path(), stop),
        }
    }
}

/// Measures the selected rows.
pub(super) fn measure(bench: &mut Session<SearchSizes>) -> Result<()> {
    let sources = Sources::new(bench.settings.files);
    let temp = temp_dir()?;
    let need = SpaceRequest { inodes: sources.len() as u64 * 2, bytes: sources.bytes() * 2 };
    let mut hosts = bench.hosts(need, Medium::Disk)?;
    hosts.retain(Host::about_ext4);
    if hosts.is_empty() {
        bench.note("rg and fclones search in the directory for temporary files".into());
        hosts.push(Host::in_directory("host", temp.path())?);
    }
    let host = &hosts[0];
    bench.progress.step(&format!("making {} files, {LANEFS}", sources.len()));
    let (lane, _) = FileVolume::make(temp.path(), &sources, &bench.stop)?;
    bench.progress.step(&format!("making {} files, {}", sources.len(), host.name()));
    make_on_host(host, &sources, &bench.stop)?;
    let with = |bench: &mut Session<SearchSizes>, program: SearchProgram| -> Result<Vec<Searcher<'_>>> {
        let peer = program.is_there(bench)?.then_some(Searcher::Program(program, host));
        Ok([Searcher::Lane(&lane)].into_iter().chain(peer).collect())
    };
    let works: Vec<&GrepWork> = GREP.iter().filter(|work| bench.selection.has(work.name)).collect();
    if !works.is_empty() {
        let searchers = with(bench, SearchProgram::Ripgrep)?;
        for work in works {
            measure_grep(bench, work, &sources, &searchers)?;
        }
    }
    if bench.selection.has(DUPLICATES) {
        let searchers = with(bench, SearchProgram::Fclones)?;
        measure_duplicates(bench, &sources, &searchers)?;
    }
    Ok(())
}

fn measure_grep(
    bench: &mut Session<SearchSizes>,
    work: &GrepWork,
    sources: &Sources,
    searchers: &[Searcher<'_>],
) -> Result<()> {
    let (mut values, mut expected, mut left_out) = (Values::default(), None, None);
    bench.in_turn(work.name, &searchers.iter().collect::<Vec<_>>(), |searcher, run| {
        if work.is_cold
            && let Err(error) = searcher.drop_caches(&bench.stop)
        {
            left_out = Some(format!("{} is left out of the cold rows: {error}", searcher.name()));
            return Ok(());
        }
        let (elapsed, found) = searcher.grep(work.pattern, sources.len(), &bench.stop)?;
        check(searcher.name(), "files with a line", found, *expected.get_or_insert(found) as usize)?;
        if run > 0 {
            values.add_each(searcher.name(), elapsed, sources.len());
        }
        Ok(())
    })?;
    left_out.into_iter().for_each(|note| bench.note(note));
    let row = values.row(work.name, "ns/file").map(|row| {
        let row = row.param("pattern", work.pattern).param("files_with_a_line", expected.unwrap_or(0));
        described(row, sources).goal_ratio(SearchProgram::Ripgrep.name(), work.goal)
    });
    bench.row(row);
    Ok(())
}

fn measure_duplicates(
    bench: &mut Session<SearchSizes>,
    sources: &Sources,
    searchers: &[Searcher<'_>],
) -> Result<()> {
    let searchers: Vec<&Searcher<'_>> = searchers.iter().collect();
    let values = bench.costs(DUPLICATES, &searchers, sources.len(), |searcher| {
        let (elapsed, groups) = searcher.duplicates(&bench.stop)?;
        check(searcher.name(), "groups of equal files", groups, sources.groups())?;
        Ok(elapsed)
    })?;
    let row = values.row(DUPLICATES, "ns/file").map(|row| {
        let row = row.param("groups", sources.groups());
        described(row, sources).goal_ratio(SearchProgram::Fclones.name(), DUPLICATES_GOAL)
    });
    bench.row(row);
    Ok(())
}

fn described(row: Row, sources: &Sources) -> Row {
    row.param("files", sources.len())
        .param("directories", sources.directories().len())
        .param("mean_bytes", sources.bytes() / sources.len().max(1) as u64)
        .param("threads", super::threads())
}

/// As `lanefs grep -c`: all files in the order of their paths, the counts to memory.
fn grep(volume: &Volume, pattern: &str, files: usize, stop: &Stop) -> Result<(Duration, u64)> {
    let query = QueryOptions { patterns: vec![pattern.into()], ..QueryOptions::default() };
    let output = OutputOptions { form: Form::Count, paths: true, nul: false, colors: false };
    let start = Instant::now();
    let grep = Grep::new(query, output, super::threads()).map_err(failed)?;
    let (mut candidates, mut out) = (WalkedFiles::new(volume), Vec::new());
    let found = grep
        .search(volume, || candidates.next(), &mut out, &mut |_, _| false, &|| stop.is_set())
        .map_err(|error| stop.check().err().unwrap_or_else(|| failed(error)))?;
    let elapsed = start.elapsed();
    check(LANEFS, "files searched", found.files, files)?;
    check(LANEFS, "lines of output", found.shown, out.iter().filter(|byte| **byte == b'\n').count())?;
    Ok((elapsed, found.shown))
}

/// As `lanefs dups`.
fn find_duplicates(volume: &Volume, stop: &Stop) -> Result<(Duration, u64)> {
    let start = Instant::now();
    let candidates = WalkedFiles::new(volume).collect();
    let (mut ends, stops) = (|_: &[u8], _| false, || stop.is_set());
    let found = duplicates(volume, candidates, super::threads(), &mut ends, &|_, _| {}, &stops);
    let found = found.map_err(|error| stop.check().err().unwrap_or_else(|| failed(error)))?;
    Ok((start.elapsed(), found.groups.len() as u64))
}

fn failed(error: lanefs_search::Error) -> Error {
    Error::Search(error.to_string())
}
