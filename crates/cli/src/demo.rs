//! `demo`: the main job on a real tree, each answer held against the host's.

use crate::exit::{self, Failure};
use crate::import_export::{Bar, failure, say};
use crate::{bytes, interrupt, size};
use clap::Args;
use lanefs::{CreateOptions, FileKind, Resolution, ResolveOptions, Volume};
use lanefs_gpu::{Choice, DeviceKind, Gpu, MirrorOptions};
use lanefs_transfer::{
    CompareOptions, Control, ExportOptions, FileId, ImportOptions, Inventory, Item, Problem, Report,
    compare_trees, export_tree, import_tree, shown, take_inventory,
};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Differences that are shown.
const SHOWN: usize = 20;

/// Show the main job on a real tree, and prove each answer
///
/// Makes a volume in a temporary directory, imports the tree, resolves every path of it and as many absent ones in one
/// batch, compares each answer with the host's lstat, exports the tree, compares it with the original byte for byte, and
/// checks the volume. Exit code 1 where anything differs.
#[derive(Args, Clone, Debug)]
pub struct DemoArgs {
    /// The tree
    #[arg(long, value_name = "DIR", default_value = "/usr/share")]
    pub tree: PathBuf,
    /// Size of the volume; enough for the tree unless given
    #[arg(long, value_parser = size::parse_size)]
    pub size: Option<u64>,
    /// Keep the volume and the exported tree, and say where they are
    #[arg(long)]
    pub keep: bool,
}

/// Runs the demo; returns the exit code.
///
/// # Errors
///
/// What kept a step from beginning.
pub fn run_demo(args: &DemoArgs) -> Result<u8, Failure> {
    let mut builder = tempfile::Builder::new();
    let temp = builder
        .prefix("lanefs-demo-")
        .disable_cleanup(args.keep)
        .tempdir()
        .map_err(|error| Failure::host(&std::env::temp_dir(), &error))?;
    let mut demo =
        Demo { tree: args.tree.clone(), table: Vec::new(), differences: Vec::new(), notes: Vec::new() };
    let outcome = demo.run(args, temp.path());
    if args.keep {
        say(&format!("kept: {}", temp.path().display()));
    }
    match outcome {
        Err(Failure::Interrupted) => {
            say("interrupted");
            Ok(exit::INTERRUPTED)
        }
        Err(failure) => Err(failure),
        Ok(()) => demo.conclude(),
    }
}

/// A line of the table.
struct Row {
    step: &'static str,
    time: Duration,
    count: u64,
    unit: &'static str,
    remark: String,
}

struct Demo {
    tree: PathBuf,
    table: Vec<Row>,
    /// What is not as on the host.
    differences: Vec<String>,
    notes: Vec<String>,
}

impl Demo {
    fn run(&mut self, args: &DemoArgs, temp: &Path) -> Result<(), Failure> {
        println_out(&format!(
            "{:<28} {:>9} {:>9} {:<8} {:>12}",
            "step", "seconds", "count", "", "per second"
        ))?;
        let started = Instant::now();
        let inventory = take_inventory(&self.tree).map_err(|error| failure(&error))?;
        let names = inventory.items.len() as u64;
        self.row("host: list the tree", started.elapsed(), names, "names", String::new())?;

        let size = args.size.unwrap_or_else(|| room_for(&inventory.items));
        let image = temp.join("demo.lane");
        let options = CreateOptions { size, ..CreateOptions::default() };
        let started = Instant::now();
        let volume = Volume::create(&image, &options)
            .map_err(|error| Failure::volume(bytes::of_path(&image), &error))?;
        let remark = format!("{}B, sparse, in a file", size::human(size));
        self.row("make a volume", started.elapsed(), 1, "volume", remark)?;

        let imported = self.import(&volume)?;
        let left_out = self.left_out(&inventory, &imported);
        let items: Vec<Item> =
            inventory.items.into_iter().filter(|item| !left_out.covers(&item.path)).collect();
        self.resolve(&volume, &items)?;

        let back = temp.join("exported");
        let exported = self.export(&volume, &back)?;
        self.compare(&back, &left_out, &exported)?;

        let started = Instant::now();
        let report = volume.check(false, &|_, _| ()).map_err(|error| Failure::volume("the check", &error))?;
        for finding in &report.findings {
            self.differences.push(format!("fsck: {}: {}", finding.invariant, finding.text));
        }
        self.row("fsck", started.elapsed(), report.inodes, "inodes", format!("{} blocks", report.blocks))?;
        volume.close().map_err(|error| Failure::volume(bytes::of_path(&image), &error))
    }

    fn import(&mut self, volume: &Volume) -> Result<Report, Failure> {
        let bar = Bar::new("importing");
        let control = Control { interrupt: &interrupt::raised, progress: &bar };
        let report = import_tree(volume, &self.tree, b"/demo", &ImportOptions::default(), control);
        bar.clear();
        let report = ended_well(report)?;
        let remark = format!("{}B, {}B/s, synced", size::human(report.counts.bytes), speed(&report));
        self.row("import", report.elapsed, report.counts.entries(), "names", remark)?;
        Ok(report)
    }

    /// What could not be read or listed is no difference, but it is said.
    fn left_out(&mut self, inventory: &Inventory, imported: &Report) -> LeftOut {
        let mut left_out = LeftOut::default();
        let prefix = bytes::of_path(&self.tree);
        for problem in &imported.problems {
            self.notes.push(format!("not imported as it was: {problem}"));
            left_out.add(problem.path.strip_prefix(prefix).unwrap_or(&problem.path));
        }
        for problem in &inventory.problems {
            self.notes.push(format!("not listed: {problem}"));
            left_out.add(&problem.path);
        }
        self.notes.extend(imported.notes.iter().cloned());
        left_out
    }

    /// Every path and as many absent ones, by the volume and by the host.
    fn resolve(&mut self, volume: &Volume, items: &[Item]) -> Result<(), Failure> {
        let base = volume.resolve("/demo").map_err(|error| Failure::volume("/demo", &error))?.ino;
        let paths = question_paths(items);
        let options =
            ResolveOptions { base: Some(base), follow: false, attributes: true, ..Default::default() };
        let mut times = [Duration::ZERO; 3];
        let mut answers = Vec::new();
        for time in &mut times {
            interrupt::check()?;
            let started = Instant::now();
            answers =
                volume.resolve_batch(&options, &paths).map_err(|error| Failure::volume("/demo", &error))?;
            *time = started.elapsed();
        }
        let ours = median(times);

        let c_paths: Vec<CString> =
            paths.iter().map(|path| CString::new(&path[..]).unwrap_or_default()).collect();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = openat(CWD, &self.tree, flags, Mode::empty())
            .map_err(|errno| Failure::host(&self.tree, &errno.into()))?;
        let mut stats: Vec<Result<Stat, Errno>> = Vec::with_capacity(paths.len());
        for time in &mut times {
            interrupt::check()?;
            stats.clear();
            let started = Instant::now();
            stats.extend(c_paths.iter().map(|path| statat(&top, path, AtFlags::SYMLINK_NOFOLLOW)));
            *time = started.elapsed();
        }
        let host = median(times);
        let count = paths.len() as u64;
        self.row("host: lstat each path", host, count, "paths", "one thread, median of 3".into())?;
        let ratio = host.as_secs_f64() / ours.as_secs_f64().max(1e-9);
        let remark = format!("one batch, CPU engine, median of 3: {ratio:.1} times the host's rate");
        self.row("resolve and stat each path", ours, count, "paths", remark)?;
        self.resolve_on_device(volume, &options, &paths, &answers)?;

        let started = Instant::now();
        let links = expected_links(items);
        for (i, item) in items.iter().enumerate() {
            self.judge_present(item, &answers[i], &stats[i], links.get(&item.id).copied().unwrap_or(1));
        }
        for i in items.len()..paths.len() {
            let host = stats[i].as_ref().map_or_else(|errno| errno.raw_os_error(), |_| 0);
            // Longer than the host resolves at once: it has no answer of its own to compare with.
            let too_long = host == Errno::NAMETOOLONG.raw_os_error() && paths[i].len() > 4000;
            if answers[i].code.errno() != host && !too_long {
                let text =
                    format!("{}: errno {} / {host} on the host", shown(&paths[i]), answers[i].code.errno());
                self.differences.push(text);
            }
        }
        self.row("compare each answer", started.elapsed(), count, "paths", String::new())
    }

    /// The same batch by the GPU engine, where there is a device; its answers are the CPU engine's.
    fn resolve_on_device(
        &mut self,
        volume: &Volume,
        options: &ResolveOptions,
        paths: &[Vec<u8>],
        expected: &[Resolution],
    ) -> Result<(), Failure> {
        let gpu = match Gpu::open(&Choice::Best) {
            Ok(gpu) => gpu,
            Err(error) => {
                self.notes.push(format!("without the GPU engine: {error}"));
                return Ok(());
            }
        };
        let mirrored = gpu.mirror(volume, &MirrorOptions::default());
        let mirrored = match mirrored.and_then(|mirrored| mirrored.warm().map(|()| mirrored)) {
            Ok(mirrored) => mirrored,
            Err(error) => {
                self.notes.push(format!("without the GPU engine: {error}"));
                return Ok(());
            }
        };
        let mut times = [Duration::ZERO; 3];
        for time in &mut times {
            interrupt::check()?;
            let started = Instant::now();
            let found = mirrored.resolve_batch(options, paths);
            let (answers, _) = found.map_err(|error| Failure::volume("/demo", &error))?;
            *time = started.elapsed();
            let others = answers.iter().zip(expected).zip(paths).filter(|((ours, cpu), _)| ours != cpu);
            let told = others.map(|((ours, cpu), path)| {
                format!("{}: {} / {} by the CPU engine", shown(path), ours.code.text(), cpu.code.text())
            });
            self.differences.extend(told);
        }
        if let Some(error) = mirrored.failure() {
            self.notes.push(format!("the GPU engine failed, and the CPU engine answered: {error}"));
            return Ok(());
        }
        let info = gpu.info();
        let kind =
            if info.kind == DeviceKind::Software { ", a software device: the processor itself" } else { "" };
        let remark = format!("the same batch, GPU engine, median of 3: {}{kind}", info.name);
        self.row("resolve them on the GPU", median(times), paths.len() as u64, "paths", remark)
    }

    fn judge_present(&mut self, item: &Item, answer: &Resolution, stat: &Result<Stat, Errno>, links: u32) {
        let name = shown(&item.path);
        let unchanged = match stat {
            Ok(stat) => {
                (stat.st_mtime, stat.st_mtime_nsec as u32) == (item.mtime.seconds(), item.mtime.nanoseconds())
            }
            // A path longer than the host resolves at once was reached step by step.
            Err(errno) => *errno == Errno::NAMETOOLONG,
        };
        if !unchanged {
            return self.notes.push(format!("{name}: changed on the host during the demo"));
        }
        let Some(attr) = answer.attr else {
            return self.differences.push(format!("{name}: {}", answer.code.text()));
        };
        let mut differs = |what: &str, ours: String, host: String| {
            if ours != host {
                self.differences.push(format!("{name}: {what} {ours} / {host} on the host"));
            }
        };
        differs("type", attr.kind.word().into(), item.kind.word().into());
        differs("links", attr.links.to_string(), links.to_string());
        differs("owner", format!("{}:{}", attr.uid, attr.gid), format!("{}:{}", item.uid, item.gid));
        differs("mtime", attr.mtime.0.to_string(), item.mtime.0.to_string());
        if item.kind != FileKind::Symlink {
            differs("mode", format!("{:04o}", attr.perm), format!("{:04o}", item.perm));
        }
        // What a directory's size means is each file system's own affair.
        if matches!(item.kind, FileKind::File | FileKind::Symlink) {
            differs("size", attr.size.to_string(), item.size.to_string());
        }
    }

    fn export(&mut self, volume: &Volume, back: &Path) -> Result<Report, Failure> {
        let bar = Bar::new("exporting");
        let control = Control { interrupt: &interrupt::raised, progress: &bar };
        let options = ExportOptions { sync: false, ..ExportOptions::default() };
        let report = export_tree(volume, b"/demo", back, &options, control);
        bar.clear();
        let report = ended_well(report)?;
        self.differences.extend(report.problems.iter().map(|problem| format!("export: {problem}")));
        self.notes.extend(report.notes.iter().cloned());
        let remark = format!("{}B, {}B/s", size::human(report.counts.bytes), speed(&report));
        self.row("export", report.elapsed, report.counts.entries(), "names", remark)?;
        Ok(report)
    }

    fn compare(&mut self, back: &Path, left_out: &LeftOut, exported: &Report) -> Result<(), Failure> {
        let bar = Bar::new("comparing");
        let control = Control { interrupt: &interrupt::raised, progress: &bar };
        let is_root = rustix::process::geteuid().is_root();
        // What this host or user could not take was noted by the export.
        let options = CompareOptions {
            owner: is_root,
            xattrs: exported.notes.is_empty(),
            mode_mask: if is_root { 0o7777 } else { 0o1777 },
            ..CompareOptions::default()
        };
        let found = compare_trees(&self.tree, back, options, control);
        bar.clear();
        let found = found.map_err(|error| failure(&error))?;
        interrupt::check()?;
        let prefix = bytes::of_path(&self.tree);
        let counts = |problem: &&Problem| {
            let path = problem.path.strip_prefix(prefix).unwrap_or(&problem.path);
            !left_out.covers(path.strip_prefix(b"/").unwrap_or(path))
        };
        let told = found.differences.iter().filter(counts).map(|problem| format!("exported tree: {problem}"));
        self.differences.extend(told);
        let owners = if is_root { "owners, " } else { "" };
        let attributes = if options.xattrs { ", attributes" } else { "" };
        let bytes = size::human(found.counts.bytes);
        let remark = format!("{bytes}B byte for byte, modes, {owners}times, links{attributes}");
        self.row("compare both trees", found.elapsed, found.counts.entries(), "names", remark)
    }

    /// Shows a line as its step ends.
    fn row(
        &mut self,
        step: &'static str,
        time: Duration,
        count: u64,
        unit: &'static str,
        remark: String,
    ) -> Result<(), Failure> {
        self.table.push(Row { step, time, count, unit, remark });
        interrupt::check()?;
        match self.table.last() {
            Some(row) => println_out(&row.line()),
            None => Ok(()),
        }
    }

    /// The verdict; returns the exit code.
    fn conclude(&self) -> Result<u8, Failure> {
        let total: f64 = self.table.iter().map(|row| row.time.as_secs_f64()).sum();
        println_out(&format!("{:<28} {total:>9.2}", "all steps"))?;
        for note in self.notes.iter().take(SHOWN) {
            say(&format!("note: {note}"));
        }
        if self.notes.len() > SHOWN {
            say(&format!("note: {} more of the kind", self.notes.len() - SHOWN));
        }
        for difference in self.differences.iter().take(SHOWN) {
            say(difference);
        }
        if self.differences.is_empty() {
            println_out(&format!("{}: every answer and every byte as on the host", self.tree.display()))?;
            return Ok(exit::OK);
        }
        println_out(&format!("{}: {} differences", self.tree.display(), self.differences.len()))?;
        Ok(exit::PARTIAL)
    }
}

impl Row {
    fn line(&self) -> String {
        let (seconds, count) = (self.time.as_secs_f64(), self.count);
        let rate = count as f64 / seconds.max(1e-9);
        let line = format!(
            "{:<28} {seconds:>9.3} {count:>9} {:<8} {rate:>12.0}  {}",
            self.step, self.unit, self.remark
        );
        line.trim_end().to_string()
    }
}

/// Paths that the comparisons leave out, with all below them.
#[derive(Default)]
struct LeftOut(HashSet<Vec<u8>>);

impl LeftOut {
    fn add(&mut self, path: &[u8]) {
        self.0.insert(path.strip_prefix(b"/").unwrap_or(path).to_vec());
    }

    fn covers(&self, path: &[u8]) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        ends.chain([path.len()]).any(|end| self.0.contains(&path[..end]))
    }
}

/// The paths of all items, then as many that do not exist: beside a name, below a missing directory, below whatever the
/// item is (which only a directory can have anything below).
fn question_paths(items: &[Item]) -> Vec<Vec<u8>> {
    let of = |item: &Item| if item.path.is_empty() { b".".to_vec() } else { item.path.clone() };
    let mut paths: Vec<Vec<u8>> = items.iter().map(of).collect();
    for (i, item) in items.iter().enumerate() {
        let mut path = of(item);
        path.extend_from_slice(match i % 4 {
            0 | 1 => b".lanefs-absent",
            2 => b".lanefs-absent/below",
            // A link that leads out of the tree leads elsewhere in the volume.
            _ if item.kind == FileKind::Symlink => b".lanefs-absent",
            _ => b"/.lanefs-absent",
        });
        paths.push(path);
    }
    paths
}

/// How many names each file must have: those within the tree, whatever others the host knows; a directory has its name,
/// its `.` and the `..` of each subdirectory.
fn expected_links(items: &[Item]) -> HashMap<FileId, u32> {
    let mut links = HashMap::new();
    let mut directories = HashMap::new();
    for item in items {
        if item.kind == FileKind::Directory {
            directories.insert(&item.path[..], item.id);
            *links.entry(item.id).or_insert(0) += 2;
        } else {
            *links.entry(item.id).or_insert(0) += 1;
        }
    }
    for item in items.iter().filter(|item| item.kind == FileKind::Directory && !item.path.is_empty()) {
        let end = item.path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        if let Some(parent) = directories.get(&item.path[..end]) {
            *links.entry(*parent).or_insert(0) += 1;
        }
    }
    links
}

/// Room for all files in whole blocks, inodes and directories, with a reserve.
fn room_for(items: &[Item]) -> u64 {
    let each =
        |item: &Item| if item.kind == FileKind::File { item.size.next_multiple_of(4096) } else { 0 } + 1024;
    let bytes: u64 = items.iter().map(each).sum();
    bytes + bytes / 4 + (256 << 20)
}

fn median(mut times: [Duration; 3]) -> Duration {
    times.sort_unstable();
    times[1]
}

fn speed(report: &Report) -> String {
    size::human(report.bytes_per_second() as u64)
}

/// A transfer that came to its end, be it with problems.
fn ended_well(report: lanefs_transfer::Result<Report>) -> Result<Report, Failure> {
    let report = report.map_err(|error| failure(&error))?;
    match &report.stopped {
        Some(error) => Err(failure(error)),
        None if report.interrupted => Err(Failure::Interrupted),
        None => Ok(report),
    }
}

fn println_out(line: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanefs::Time;

    fn item(path: &str, ino: u64, kind: FileKind) -> Item {
        let id = FileId { dev: 1, ino };
        Item { path: path.into(), id, kind, perm: 0, uid: 0, gid: 0, size: 0, mtime: Time(0) }
    }

    #[test]
    fn links_are_those_within_the_tree() {
        let (dir, file) = (FileKind::Directory, FileKind::File);
        let items = [
            item("", 1, dir),
            item("a", 2, dir),
            item("a/b", 3, dir),
            item("f", 4, file),
            item("a/f", 4, file),
        ];
        let links = expected_links(&items);
        let of = |ino| links[&FileId { dev: 1, ino }];
        assert_eq!([of(1), of(2), of(3), of(4)], [3, 3, 2, 2]);
    }

    #[test]
    fn what_is_below_a_left_out_directory_is_left_out() {
        let mut left_out = LeftOut::default();
        assert!(!left_out.covers(b"a"));
        left_out.add(b"/a/b");
        assert!(left_out.covers(b"a/b") && left_out.covers(b"a/b/c") && !left_out.covers(b"a/bc"));
    }

    #[test]
    fn half_of_the_questions_have_no_answer() {
        let paths = question_paths(&[item("", 1, FileKind::Directory), item("x", 2, FileKind::File)]);
        assert_eq!(paths.len(), 4);
        assert_eq!((&paths[0][..], &paths[1][..]), (&b"."[..], &b"x"[..]));
    }
}
