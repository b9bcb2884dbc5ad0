//! Imports in batches have the same outcome and the same reports as imports file by file.

use crate::common::*;
use lanefs::bulk::{Applied, Change};
use lanefs::{Code, Ino, Volume};
use lanefs_transfer::*;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A maker that makes changes one by one and counts them.
struct Counting<'v> {
    volume: &'v Volume,
    made: AtomicUsize,
    /// Result that stands for every other change, which is not made.
    refuses: Option<Code>,
}

impl<'v> Counting<'v> {
    fn on(volume: &'v Volume) -> Self {
        Counting { volume, made: AtomicUsize::new(0), refuses: None }
    }

    fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }
}

impl Maker for Counting<'_> {
    fn make(&self, base: Ino, changes: &[Change<'_>]) -> lanefs::Result<Vec<Applied>> {
        let mut answers = Vec::new();
        for (number, change) in changes.iter().enumerate() {
            match self.refuses.filter(|_| number % 2 == 0) {
                Some(code) => answers.push(code.into()),
                None => answers.extend(self.volume.apply(base, &[*change])?),
            }
        }
        let made = answers.iter().filter(|answer| answer.code == Code::Success).count();
        self.made.fetch_add(made, Ordering::Relaxed);
        Ok(answers)
    }
}

/// Imports with a maker and without, and compares volumes and reports. Returns the number of files that the
/// maker made.
fn compare(tree: &Path, [alone, batched]: [&Volume; 2], overwrite: bool, refuses: Option<Code>) -> usize {
    let options = ImportOptions { overwrite, ..ImportOptions::default() };
    let wanted = import_tree(alone, tree, b"/in/here", &options, control()).unwrap();
    let maker = Counting { refuses, ..Counting::on(batched) };
    let options = ImportOptions { maker: Some(&maker), ..options };
    let found = import_tree(batched, tree, b"/in/here", &options, control()).unwrap();
    assert_eq!(found.counts, wanted.counts);
    let [mut problems, mut wanted_problems] =
        [&found, &wanted].map(|report| report.problems.iter().map(ToString::to_string).collect::<Vec<_>>());
    problems.sort();
    wanted_problems.sort();
    assert_eq!(problems, wanted_problems);
    assert_eq!((found.exit_code(), &found.notes), (wanted.exit_code(), &wanted.notes));
    assert_sound(batched);
    let temp = tempfile::tempdir().unwrap();
    let backs = [alone, batched].map(|volume| {
        let back = temp.path().join(if std::ptr::eq(volume, alone) { "alone" } else { "batched" });
        assert_clean(&export_tree(volume, b"/in/here", &back, &ExportOptions::default(), control()).unwrap());
        back
    });
    assert_same(&backs[0], &backs[1]);
    maker.made()
}

#[test]
fn a_tree_is_the_same_whoever_makes_its_files() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    make_tree(&tree);
    let made = compare(&tree, [&volume(256), &volume(256)], false, None);
    assert!(made > 5, "only {made} files were made in batches");
}

#[test]
fn names_that_are_taken_are_told_or_replaced_as_ever() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    make_tree(&tree);
    let volumes = [volume(256), volume(256)];
    let volumes = volumes.each_ref();
    compare(&tree, volumes, false, None);
    fs::write(tree.join("d/size-1"), "another content").unwrap();
    fs::write(tree.join("d/new"), "new").unwrap();
    // A directory of the volume has the name of a file.
    fs::write(tree.join("d/is-directory"), "a file").unwrap();
    for volume in volumes {
        volume.mkdir_all("/in/here/d/is-directory", 0o755).unwrap();
    }
    assert_eq!(compare(&tree, volumes, false, None), 1);
    assert_eq!(volumes[1].read_file("/in/here/d/new").unwrap(), b"new");
    compare(&tree, volumes, true, None);
    assert_eq!(volumes[1].read_file("/in/here/d/size-1").unwrap(), b"another content");
}

#[test]
fn what_a_maker_does_not_make_is_made_one_by_one() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    make_tree(&tree);
    for code in [Code::NoSpace, Code::NotResident, Code::Exists] {
        compare(&tree, [&volume(256), &volume(256)], false, Some(code));
    }
}

#[test]
fn more_files_than_one_batch_holds_all_come() {
    const FILES: usize = 20_000;
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    for dir in 0..20 {
        fs::create_dir_all(tree.join(format!("{dir}"))).unwrap();
        for file in 0..FILES / 20 {
            fs::write(tree.join(format!("{dir}/{file}")), format!("{dir} {file}")).unwrap();
        }
    }
    let volume = volume(64);
    let maker = Counting::on(&volume);
    let options = ImportOptions { maker: Some(&maker), ..ImportOptions::default() };
    let report = import_tree(&volume, &tree, b"/", &options, control()).unwrap();
    assert_clean(&report);
    assert_eq!((maker.made(), report.counts.files), (FILES, FILES as u64));
    assert_eq!(volume.read_file("/7/77").unwrap(), b"7 77");
    assert_sound(&volume);
}

/// A maker that fails as a device does.
struct Broken;

impl Maker for Broken {
    fn make(&self, _: Ino, _: &[Change<'_>]) -> lanefs::Result<Vec<Applied>> {
        Err(Code::Io.into())
    }
}

#[test]
fn a_volume_that_fails_ends_the_import() {
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("file"), "content").unwrap();
    let volume = volume(16);
    let options = ImportOptions { maker: Some(&Broken), ..ImportOptions::default() };
    let report = import_tree(&volume, temp.path(), b"/", &options, control()).unwrap();
    assert_eq!((report.exit_code(), report.counts.files), (EXIT_STOPPED, 0));
    assert_sound(&volume);
}

#[test]
fn an_interrupted_import_leaves_whole_files_and_no_unfinished_batch() {
    let temp = tempfile::tempdir().unwrap();
    for file in 0..500 {
        fs::write(temp.path().join(format!("{file}")), "content").unwrap();
    }
    let volume = volume(16);
    let maker = Counting::on(&volume);
    let polls = AtomicUsize::new(0);
    let interrupt = || polls.fetch_add(1, Ordering::Relaxed) > 100;
    let control = Control { interrupt: &interrupt, progress: &Silent };
    let options = ImportOptions { maker: Some(&maker), ..ImportOptions::default() };
    let report = import_tree(&volume, temp.path(), b"/", &options, control).unwrap();
    assert_eq!((report.exit_code(), report.interrupted), (EXIT_INTERRUPTED, true));
    assert_eq!((report.counts.files, maker.made()), (0, 0));
    assert_sound(&volume);
}
