//! The directory-path table of the device: it is used, and nothing in it is stale.

use crate::support::{CALLER, by_names, cached, gpu, options};
use lanefs::bulk::Change;
use lanefs::{Code, EngineExt, FileKind, InodeSize, RenameMode, ResolveOptions, Volume};
use lanefs_gpu::{MirrorOptions, Mirrored};
use lanefs_testkit::seeded::Seeded;

/// Names of directories, and of the files in each of them.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// A volume with directories of these names in one another, and all paths that there may be, absolute and
/// relative.
fn volume() -> (Volume, Vec<String>) {
    let volume = Volume::create_memory(&options(InodeSize::B256)).expect("volume");
    let mut dirs = vec![String::new()];
    for depth in 0..3 {
        for above in dirs.clone().iter().filter(|dir| dir.matches('/').count() == depth) {
            dirs.extend(NAMES.map(|name| format!("{above}/{name}")));
        }
    }
    let mut paths = Vec::new();
    for dir in &dirs[1..] {
        volume.mkdir_all(dir, 0o755).expect("directories");
        for name in NAMES {
            let file = format!("{dir}/file {name}");
            volume.write_file(&file, b"").expect("a file");
            paths.extend([
                file[1..].to_owned(),
                file,
                format!("{dir}/{name}"),
                format!("/{dir}//file {name}"),
            ]);
        }
    }
    (volume, paths)
}

/// Compares the device's answers with walks, path by path; returns a path with another answer.
fn disagreement(mirrored: &Mirrored<'_>, paths: &[String]) -> Option<String> {
    let options = ResolveOptions::default();
    let volume = mirrored.volume();
    // Names first: whatever has moved, the mirror does not know it yet.
    mirrored.prefer_names();
    let texts: Vec<Vec<u8>> = paths.iter().map(|path| path.clone().into_bytes()).collect();
    let (by_name, report) = by_names(mirrored, &options, &texts).expect("the device");
    // The host answers names under a file, a device or a link.
    let is_dir =
        |name: &&str| volume.resolve(format!("/{name}")).is_ok_and(|at| at.kind == FileKind::Directory);
    assert!(report.by_device > 0 || !NAMES.iter().any(is_dir), "{report:?}");
    let (found, _) = mirrored.resolve_batch(&options, paths).expect("the device");
    let is_other = |(path, found): &(&String, &lanefs::Resolution)| match volume.resolve(path.as_str()) {
        Ok(walked) => found.code != Code::Success || found.ino != Some(walked.ino),
        Err(error) => found.code != error.code(),
    };
    let mut answers = paths.iter().zip(&found).chain(paths.iter().zip(&by_name));
    answers.find(is_other).map(|(path, found)| format!("{path}: {found:?}"))
}

/// Changes that take the name of a directory.
#[derive(Clone, Copy, Debug)]
enum Move {
    Rename,
    Exchange,
    /// A whiteout has the name afterwards.
    Whiteout,
    ReplaceEmpty,
    RemoveAndMake,
    Batch,
}

const MOVES: [Move; 6] =
    [Move::Rename, Move::Exchange, Move::Whiteout, Move::ReplaceEmpty, Move::RemoveAndMake, Move::Batch];

impl Move {
    /// Makes the change between two directories of the root.
    fn make(self, mirrored: &Mirrored<'_>, from: &str, to: &str) -> lanefs::Result<()> {
        let volume = mirrored.volume();
        let root = volume.root();
        let rename = |mode| volume.rename_at(&CALLER, root, from.as_bytes(), root, to.as_bytes(), mode);
        let remove = |name: &str| volume.remove_all_with(&CALLER, root, name.as_bytes(), |_, done| done);
        let away = |mode| volume.rename_at(&CALLER, root, from.as_bytes(), root, b"away", mode);
        match self {
            Move::Rename => away(RenameMode::Replace),
            Move::Whiteout => away(RenameMode::Whiteout),
            Move::Exchange => rename(RenameMode::Exchange),
            Move::ReplaceEmpty => {
                // It may not be there.
                let _ = remove(to);
                volume.mkdir(&CALLER, root, to.as_bytes(), 0o755)?;
                rename(RenameMode::Replace)
            }
            Move::RemoveAndMake => {
                remove(from)?;
                volume.mkdir_all(format!("/{from}/{to}"), 0o755).map(drop)?;
                volume.write_file(format!("/{from}/file a"), b"").map(drop)
            }
            Move::Batch => {
                let (from, to) = (format!("/{from}/{from}"), format!("/{to}/moved"));
                let (from, to) = (from.as_bytes(), to.as_bytes());
                let change = Change::Rename { from, to, mode: RenameMode::Replace };
                mirrored.apply(root, &[change]).map(|(answers, _)| assert_eq!(answers[0].code, Code::Success))
            }
        }
    }
}

#[test]
fn paths_are_answered_without_a_walk_once_their_directory_was_walked() {
    let (volume, paths) = volume();
    let gpu = gpu(64);
    let mirrored = gpu.mirror(&volume, &cached()).expect("mirror");
    assert!(mirrored.directory_table_bytes() > 0);
    let query = mirrored.query_of(&ResolveOptions::default());
    let ask = || mirrored.kernel_lookup(&query, &paths).expect("the device").1;
    let first = ask();
    assert_eq!((first.walks, first.learns.len()), (paths.len(), paths.len()));
    // Not all fill requests of a first batch find room.
    ask();
    let is_there = |path: &&String| volume.resolve(path.as_str()).is_ok();
    let absent = paths.len() - paths.iter().filter(is_there).count();
    let left = ask();
    assert_eq!(left.walks, absent, "paths are walked that are there");
    // Files come and go, and directories come, and the paths of directories stay known.
    volume.write_file("/a/another file", b"").expect("a file");
    volume.mkdir_all("/a/new/directory", 0o755).expect("directories");
    volume.unlink(&CALLER, volume.resolve("/a").expect("there").ino, b"another file").expect("unlinked");
    assert_eq!(ask().learns.len(), left.learns.len());
    assert_eq!(ask().walks, left.walks);
    volume
        .rename_at(&CALLER, volume.root(), b"a", volume.root(), b"d", RenameMode::Replace)
        .expect("renamed");
    let walks = ask().walks;
    assert_eq!(walks, paths.len(), "a path was known in a new epoch");
    assert_eq!(disagreement(&mirrored, &paths), None);
}

#[test]
fn nothing_is_stale_after_a_move_and_much_is_if_moves_are_ignored() {
    let gpu = gpu(32);
    for kind in MOVES {
        for is_planted in [false, true] {
            let (volume, paths) = volume();
            let mirrored = gpu.mirror(&volume, &cached()).expect("mirror");
            for _ in 0..2 {
                assert_eq!(disagreement(&mirrored, &paths), None);
            }
            if is_planted {
                mirrored.ignore_moves();
            }
            kind.make(&mirrored, "a", "b").expect("moved");
            let wrong = disagreement(&mirrored, &paths);
            assert_eq!(wrong.is_some(), is_planted, "{kind:?}: {wrong:?}");
        }
    }
}

#[test]
fn random_moves_between_batches_leave_every_answer_right() {
    let gpu = gpu(64);
    let numbers = &mut Seeded::new(11);
    let (volume, paths) = volume();
    // A table that is too small for all paths as well.
    for cache in [1.0 / 16.0, 2e-7] {
        let options = MirrorOptions { cache, ..MirrorOptions::default() };
        let mirrored = gpu.mirror(&volume, &options).expect("mirror");
        for _ in 0..150 {
            let [from, to] = [0, 1].map(|_| *numbers.pick(&NAMES));
            if from != to {
                // Some directories are not there any more, or are not empty.
                let _ = MOVES[numbers.below(5) as usize].make(&mirrored, from, to);
            }
            if numbers.below(3) == 0 {
                for name in NAMES {
                    // A whiteout goes.
                    let _ = volume.unlink(&CALLER, volume.root(), name.as_bytes());
                    let _ = volume.mkdir_all(format!("/{name}/{name}"), 0o755);
                    let _ = volume.write_file(format!("/{name}/file {name}"), b"");
                }
                let _ = volume.remove_all_with(&CALLER, volume.root(), b"away", |_, done| done);
            }
            assert_eq!(disagreement(&mirrored, &paths), None);
        }
    }
}

#[test]
fn threads_resolve_while_directories_are_exchanged() {
    let (volume, _) = volume();
    for name in ["x", "y"] {
        volume.mkdir_all(format!("/a/{name}"), 0o755).expect("a directory");
        volume.write_file(format!("/a/{name}/is {name}"), b"").expect("a file");
    }
    let inos = ["x", "y"].map(|name| volume.resolve(format!("/a/{name}/is {name}")).expect("there").ino);
    let gpu = gpu(64);
    let mirrored = gpu.mirror(&volume, &cached()).expect("mirror");
    mirrored.prefer_names();
    let paths = ["/a/x/is x", "/a/x/is y", "/a/y/is x", "/a/y/is y"];
    let texts = paths.map(|path| path.as_bytes().to_vec());
    std::thread::scope(|scope| {
        let exchanges = scope.spawn(|| {
            let dir = volume.resolve("/a").expect("there").ino;
            for _ in 0..300 {
                volume.rename_at(&CALLER, dir, b"x", dir, b"y", RenameMode::Exchange).expect("exchanged");
            }
        });
        let (mut rounds, mut by_device) = (0, 0);
        while rounds < 200 || !exchanges.is_finished() {
            let options = ResolveOptions::default();
            let (found, report) = match rounds % 2 {
                0 => mirrored.resolve_batch(&options, &paths).expect("the device"),
                _ => by_names(&mirrored, &options, &texts).expect("the device"),
            };
            // On the device a batch sees one moment: each file is in one of the directories. The host, which
            // answers where directories move all the time, sees a moment for each path.
            let is_there = |i: usize, ino| found[i].code == Code::Success && found[i].ino == Some(ino);
            let before = is_there(0, inos[0]) && is_there(3, inos[1]);
            let after = is_there(1, inos[1]) && is_there(2, inos[0]);
            assert!(before != after || report.by_host > 0, "{found:?}");
            let or_not = |i: usize, ino| is_there(i, ino) || found[i].code == Code::NotFound;
            assert!((0..4).all(|i| or_not(i, inos[i % 2])), "{found:?}");
            by_device += usize::from(report.by_host == 0);
            rounds += 1;
        }
        assert!(by_device > 0, "no batch was the device's alone");
    });
}
