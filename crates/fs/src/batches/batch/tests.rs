//! Batches beside single lookups, while directories move.
//!
//! The oracle is a caller with an identity, whose paths are walked component by component.

use crate::batches::bulk::Change;
use crate::batches::bulk::tests::Plain;
use crate::batches::engine::EngineExt;
use crate::files::inode::Inode;
use crate::mounted::moves::MoveCause;
use crate::names::dir::{self, Name};
use crate::running::volume::Volume;
use crate::vocabulary::columns::{Column, Columns, Resolutions};
use crate::vocabulary::error::Result;
use crate::vocabulary::name_set::{NameSet, NamesUnder};
use crate::vocabulary::options::{CreateOptions, OpenOptions};
use crate::vocabulary::path_set::PathSet;
use crate::vocabulary::types::{Caller, Ino, RenameMode, Resolution, ResolveOptions};
use lanefs_format::{Code, FileKind};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const OWNER: Caller = Caller::OWNER;

fn volume() -> Volume {
    let options = CreateOptions { size: 32 << 20, ..CreateOptions::default() };
    Volume::create_memory(&options).expect("create")
}

/// Resolves paths one by one, without the table.
fn walked(volume: &Volume, options: &ResolveOptions, paths: &[String]) -> Vec<Resolution> {
    let options = ResolveOptions { caller: Caller::user(0, 0, &[]), ..options.clone() };
    volume.resolve_batch(&options, paths).expect("resolve")
}

/// Resolves paths as names under directories: as they come, or each directory once and without an order.
fn by_names(
    volume: &Volume,
    options: &ResolveOptions,
    paths: &[String],
    once: bool,
) -> Result<Vec<Resolution>> {
    let set: PathSet = paths.iter().collect();
    let cut = NameSet::of_paths(set.view());
    let mut list = vec![Resolution::failed(Code::NotResident); paths.len()];
    let mut rows = Resolutions { list: &mut list, attributes: options.attributes };
    if once {
        let view = cut.view();
        let directory = |index| view.number(index).and_then(|number| view.directories().get(number));
        let all: BTreeSet<&[u8]> = (0..view.len()).filter_map(directory).collect();
        let directories: PathSet = all.iter().copied().collect();
        let number = |index| all.iter().position(|one| Some(*one) == directory(index)).expect("a directory");
        let numbers: Vec<u32> = (0..view.len()).map(|index| number(index) as u32).collect();
        let names = NamesUnder::new(&directories, &numbers, view.names()).expect("names");
        volume.resolve_names(options, names, &mut rows)?;
    } else {
        volume.resolve_names(options, cut.view(), &mut rows)?;
    }
    Ok(list)
}

/// Compares batches with single lookups; the first call learns, the second one knows.
fn disagreement(volume: &Volume, base: Option<Ino>, paths: &[String]) -> Option<String> {
    for attributes in [false, true] {
        let options = ResolveOptions { base, attributes, follow: attributes, ..ResolveOptions::default() };
        let expected = walked(volume, &options, paths);
        for round in 0..4 {
            let answers = match round % 2 {
                0 => volume.resolve_batch(&options, paths),
                _ => by_names(volume, &options, paths, round > 2),
            };
            let answers = answers.expect("resolve");
            for ((path, answer), expected) in paths.iter().zip(&answers).zip(&expected) {
                if answer != expected {
                    return Some(format!("{path}: {answer:?}, and walked {expected:?}"));
                }
            }
        }
    }
    None
}

/// Paths of up to four components, in several spellings.
fn paths() -> Vec<String> {
    let mut all = vec![String::new()];
    let mut level = vec![String::new()];
    for _ in 0..4 {
        level = level.iter().flat_map(|path| ["a", "b", "l"].map(|name| format!("{path}/{name}"))).collect();
        all.extend(level.iter().cloned());
    }
    let odd =
        ["/a//b", "//a/b", "a/b", "b/a/f", "/a/./b", "/a/../b", "/a/b/", "/a/f/b", "/", "", "f", "/a/b\0"];
    all.extend(odd.map(String::from));
    all.extend(["/a/b/f", "/a/f", "/b/a/f", "/l/f", "/a/l/f"].map(String::from));
    all
}

/// A generator of random numbers (Knuth's constants for 64 bits).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    /// A path of one to three components.
    fn path(&mut self) -> String {
        let depth = 1 + self.below(3);
        (0..depth).map(|_| ["/a", "/b", "/b", "/f", "/l"][self.below(5)]).collect()
    }
}

/// Changes a volume at random; most changes fail.
fn change(volume: &Volume, random: &mut Random) {
    let root = volume.root();
    let (path, other) = (random.path(), random.path());
    let (at, to) = (path.as_bytes(), other.as_bytes());
    let mode = [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Replace][random.below(3)];
    let change = match random.below(9) {
        0..3 => Change::Mkdir { path: at, perm: 0o755 },
        3 => Change::Create { path: at, perm: 0o644, data: b"" },
        4 => Change::Unlink { path: at },
        5 => Change::Rmdir { path: at },
        6 => Change::Rename { from: at, to, mode },
        7 => {
            let parent = |path: &str| volume.resolve(path.rsplit_once('/').map_or("/", |cut| cut.0)).ok();
            let (Some(from), Some(target)) = (parent(&path), parent(&other)) else { return };
            let last = |path: &str| path.rsplit('/').next().unwrap_or_default().as_bytes().to_vec();
            let exchange = RenameMode::Exchange;
            let _ = volume.rename_at(&OWNER, from.ino, &last(&path), target.ino, &last(&other), exchange);
            return;
        }
        _ => {
            let dir = volume.resolve(path.rsplit_once('/').map_or("/", |cut| cut.0)).ok();
            let Some(dir) = dir else { return };
            let _ = volume.symlink_at(&OWNER, dir.ino, b"l", other.as_bytes());
            return;
        }
    };
    if random.below(3) == 0 {
        volume.apply_with(&mut Plain(volume), root, &[change]).expect("apply");
    } else {
        volume.apply(root, &[change]).expect("apply");
    }
}

#[test]
fn batches_agree_with_single_lookups_after_every_change() {
    let paths = paths();
    let mut known = 0;
    for seed in 0..6 {
        let (volume, mut random) = (volume(), Random(seed));
        for step in 0..250 {
            change(&volume, &mut random);
            if let Some(wrong) = disagreement(&volume, None, &paths) {
                panic!("seed {seed}, step {step}: {wrong}");
            }
        }
        let base = volume.mkdir_all("/a/b", 0o755).map(|attr| attr.ino).ok();
        assert_eq!(disagreement(&volume, base, &paths), None);
        known += volume.directory_table().hits;
    }
    assert!(known > 50_000, "the table was used for {known} lookups only");
}

#[test]
fn rows_columns_and_single_calls_give_the_same() {
    let (volume, mut random) = (volume(), Random(9));
    (0..100).for_each(|_| change(&volume, &mut random));
    volume.mkdir_all("/many", 0o755).expect("mkdir");
    for i in 0..600 {
        volume.write_file(format!("/many/f{i}"), vec![0; i]).expect("write");
    }
    let mut paths: Vec<String> = (0..700).map(|i| format!("/many/f{i}")).collect();
    paths.extend(self::paths());
    let options = ResolveOptions { attributes: true, ..ResolveOptions::default() };
    let expected = walked(&volume, &options, &paths);
    let set: PathSet = paths.iter().collect();
    let mut answers = Columns::of(Column::ALL);
    // The columns have old answers from the second time on.
    for _ in 0..3 {
        let found = volume.resolve_into(&options, &set, &mut answers.rows(set.len())).expect("resolve");
        assert_eq!(found, expected.iter().filter(|one| one.code == Code::Success).count());
        for (i, one) in expected.iter().enumerate() {
            let exists = answers.exists().expect("a column")[i / 64] >> (i % 64) & 1 == 1;
            assert_eq!(exists, one.code == Code::Success, "{}", paths[i]);
            assert_eq!(answers.code().expect("a column")[i], one.code.number(), "{}", paths[i]);
            assert_eq!(answers.ino().expect("a column")[i], one.ino.map_or(0, |ino| ino.0), "{}", paths[i]);
            assert_eq!(
                answers.kind().expect("a column")[i],
                one.kind.map_or(0, |kind| kind as u8),
                "{}",
                paths[i]
            );
            assert_eq!(
                answers.size().expect("a column")[i],
                one.attr.map_or(0, |attr| attr.size),
                "{}",
                paths[i]
            );
            assert_eq!(
                answers.mtime().expect("a column")[i],
                one.attr.map_or(0, |attr| attr.mtime.0),
                "{}",
                paths[i]
            );
        }
    }
}

/// Does what one cause counts, on a volume whose table knows the paths; then batches must still be right.
fn after(volume: &Volume, cause: MoveCause) -> Result<Option<String>> {
    let root = volume.root();
    let dir = volume.mkdir_all("/a/b", 0o755)?.ino;
    volume.mkdir_all("/b", 0o755)?;
    volume.write_file("/a/b/f", b"one")?;
    volume.write_file("/b/f", b"two")?;
    let paths = paths();
    let before = disagreement(volume, None, &paths);
    assert_eq!(before, None);
    let mut watch = volume.watch()?.expect("nobody else watches");
    let moved = watch.changes(&mut |_| ());
    match cause {
        MoveCause::Remove => volume.rename_at(&OWNER, root, b"a", root, b"l", RenameMode::Replace)?,
        MoveCause::Replace => volume.rename_at(&OWNER, root, b"a", root, b"b", RenameMode::Exchange)?,
        MoveCause::Batch => {
            let change = Change::Rename { from: b"/a/b", to: b"/b/b", mode: RenameMode::Replace };
            let (answers, shares) = volume.apply_with(&mut Plain(volume), root, &[change])?;
            assert_eq!((answers[0].code, shares.together), (Code::Success, 1));
        }
        MoveCause::Repair => {
            // A second name of a directory, which a repair takes away.
            volume.change(|edit| {
                let root = Inode::directory(edit.core, root.0)?;
                dir::insert(edit, root, Name::new(edit.core.seed, b"l"), dir.0, FileKind::Directory)
            })?;
            assert_eq!(disagreement(volume, None, &paths), None);
            let report = volume.check(true, &|_, _| {})?;
            assert!(report.findings.iter().any(|finding| finding.invariant == "directory-linked-twice"));
        }
    }
    // An engine with a copy of the metadata forgets directories by this number.
    assert!(watch.changes(&mut |_| ()) > moved, "{cause:?} does not count for a watch");
    Ok(disagreement(volume, None, &paths))
}

#[test]
fn nothing_is_stale_after_a_move_and_all_is_if_one_is_not_counted() {
    for cause in MoveCause::ALL {
        assert_eq!(after(&volume(), cause).expect("changes"), None, "{cause:?}");
        let planted = volume();
        planted.shared.state.directories.moves.leave_uncounted(cause);
        let wrong = after(&planted, cause).expect("changes");
        assert!(wrong.is_some(), "an uncounted {cause:?} was not noticed");
    }
}

/// Exchanges two directories again and again while threads resolve through them. Returns an answer that no
/// order explains: one thread had seen the exchange before, or had not begun it.
fn stale_answer(volume: &Volume, exchanges: u64) -> Option<String> {
    let root = volume.root();
    let ino = |path: &str| volume.write_file(path, b"").expect("write").ino;
    volume.mkdir_all("/a/sub", 0o755).expect("mkdir");
    volume.mkdir_all("/b/sub", 0o755).expect("mkdir");
    let files = [ino("/a/sub/f"), ino("/b/sub/f")];
    let (begun, ended, is_over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let paths: PathSet = (0..40).map(|i| if i % 2 == 0 { "/a/sub/f" } else { "/b/sub/f" }).collect();
    // More names than an attempt has, so that one attempt's directories serve the next.
    let (directories, numbers) = (PathSet::from_iter(["/a/sub", "/b/sub"]), [0, 1].repeat(600));
    let names: PathSet = (0..numbers.len()).map(|_| "f").collect();
    let names = NamesUnder::new(&directories, &numbers, &names).expect("names");
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|reader| {
                let (paths, is_over, begun, ended) = (&paths, &is_over, &begun, &ended);
                scope.spawn(move || {
                    let mut answers = Columns::of(&[Column::Ino]);
                    while !is_over.load(Ordering::SeqCst) {
                        let before = ended.load(Ordering::SeqCst);
                        let options = ResolveOptions::default();
                        if reader == 0 {
                            let mut rows = answers.rows(paths.len());
                            volume.resolve_into(&options, paths, &mut rows).expect("resolve");
                        } else {
                            let mut rows = answers.rows(names.len());
                            volume.resolve_names_into(&options, names, &mut rows).expect("resolve");
                        }
                        if begun.load(Ordering::SeqCst) != before {
                            continue;
                        }
                        for (i, found) in answers.ino().expect("a column").iter().enumerate() {
                            let expected = files[(i + before as usize) % 2];
                            if *found != expected.0 {
                                return Some(format!(
                                    "path {i} after {before} exchanges: {found}, not {expected}"
                                ));
                            }
                        }
                    }
                    None
                })
            })
            .collect();
        for _ in 0..exchanges {
            begun.fetch_add(1, Ordering::SeqCst);
            volume.rename_at(&OWNER, root, b"a", root, b"b", RenameMode::Exchange).expect("exchange");
            ended.fetch_add(1, Ordering::SeqCst);
            // The readers get the processor for whole batches.
            for _ in 0..4 {
                std::thread::yield_now();
            }
        }
        is_over.store(true, Ordering::SeqCst);
        readers.into_iter().find_map(|reader| reader.join().expect("a reader"))
    })
}

#[test]
fn threads_never_see_a_directory_where_it_was() {
    let exchanges = if cfg!(miri) { 20 } else { 4_000 };
    assert_eq!(stale_answer(&volume(), exchanges), None);
}

#[test]
fn threads_see_it_there_if_exchanges_are_not_counted() {
    // One exchange after the table knows both is enough; many make sure that it does.
    for _ in 0..100 {
        let planted = volume();
        planted.shared.state.directories.moves.leave_uncounted(MoveCause::Replace);
        if stale_answer(&planted, 2_000).is_some() {
            return;
        }
    }
    panic!("no thread noticed");
}

#[test]
fn a_table_that_is_too_small_or_absent_changes_no_answer() {
    let dir = tempfile::tempdir().expect("tempdir");
    let image = dir.path().join("v");
    let options = CreateOptions { size: 64 << 20, ..CreateOptions::default() };
    let made = Volume::create(&image, &options).expect("create");
    let names: Vec<String> = (0..5000).map(|i| format!("/dir-{i}")).collect();
    for name in &names {
        made.mkdir_all(name, 0o755).expect("mkdir");
        made.write_file(format!("{name}/f"), b"").expect("write");
    }
    made.close().expect("close");
    let files: Vec<String> = names.iter().map(|name| format!("{name}/f")).collect();
    for limit in [0, 200 << 10, 64 << 20] {
        let options = OpenOptions { directory_table: Some(limit), ..OpenOptions::default() };
        let volume = Volume::open(&image, options).expect("open");
        for _ in 0..4 {
            assert_eq!(disagreement(&volume, None, &files), None);
        }
        let stats = volume.directory_table();
        assert!(stats.bytes <= limit && stats.limit == limit, "{stats:?}");
        let is_small = limit == 200 << 10;
        assert_eq!(stats.hits > 0, limit > 0, "{stats:?}");
        assert!(stats.paths <= if is_small { 2048 } else { 5000 }, "{stats:?}");
    }
}
