//! Directories with more names of one hash than a region index has slots for: kernels and twins leave them to
//! the host, so that the answers are those of the CPU engine.

use crate::support::{CALLER, cached, gpu, options, uncached};
use lanefs::bulk::{Applied, Change, DirEngine, Shares};
use lanefs::{CreateOptions, EngineExt, Ino, InodeSize, ResolveOptions, Volume};
use lanefs_gpu::testing::Requests;
use lanefs_gpu::twin::change::TwinEngine;
use lanefs_gpu::twin::host::{HostCopy, WithCache};
use lanefs_gpu::twin::kernels::lookup::lookup;
use lanefs_testkit::one_hash::{self, SEED};

/// The names, long ones first: a kernel leaves a long one to the host when it meets a short entry at the end
/// of a block, and the names without a slot are to be those that it would decide.
fn names() -> Vec<Vec<u8>> {
    one_hash::names().iter().rev().cloned().collect()
}

/// A volume with a directory `d` of these names, and of some with other hashes.
fn volume(size: InodeSize, names: &[Vec<u8>]) -> (Volume, Ino) {
    let options = CreateOptions { seed: Some(SEED), ..options(size) };
    let volume = Volume::create_memory(&options).expect("volume");
    let dir = volume.mkdir(&CALLER, volume.root(), b"d", 0o755).expect("mkdir").ino;
    for name in names {
        volume.create_file(&CALLER, dir, name, 0o644).expect("create");
    }
    for number in 0..300 {
        volume.create_file(&CALLER, dir, format!("other {number}").as_bytes(), 0o644).expect("create");
    }
    (volume, dir)
}

fn paths(names: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let others = (0..400).map(|number| format!("other {number}").into_bytes());
    names.iter().cloned().chain(others).map(|name| [b"/d/", &name[..]].concat()).collect()
}

#[test]
fn lookups_are_those_of_the_cpu_engine_and_of_the_twin() {
    let gpu = gpu(64);
    let names = names();
    // The slots of 200 entries and of their neighbours are in less than 32 buckets in a row.
    let counts = [200, 256, 257, names.len() - 20];
    for (count, size) in counts.into_iter().zip([InodeSize::B128, InodeSize::B256].into_iter().cycle()) {
        let (volume, _) = volume(size, &names[..count]);
        let asked = paths(&names);
        let options = ResolveOptions::default();
        let expected = volume.resolve_batch(&options, &asked).expect("the CPU engine");
        for mirror in [cached(), uncached()] {
            let memory = HostCopy::of(&volume).expect("copied");
            let mirrored = gpu.mirror(&volume, &mirror).expect("mirror");
            mirrored.warm().expect("warm");
            let (found, report) = mirrored.resolve_batch(&options, &asked).expect("the device");
            assert!(found == expected, "{count} names");
            // Of short names the device decides what an index with all entries does not have, and no other.
            let short = names.len() as u64 - 256;
            let is_right = if count == 200 { report.by_host <= 200 } else { report.by_host >= short };
            assert!(is_right, "{count} names, {size:?}: {report:?}");
            let snapshot = mirrored.snapshot().expect("snapshot");
            let memory = WithCache { memory: &memory, snapshot: &snapshot };
            let query = mirrored.query_of(&options);
            let (by_kernel, _) = mirrored.kernel_lookup(&query, &asked).expect("the device");
            for (path, found) in asked.iter().zip(by_kernel) {
                assert_eq!(
                    found,
                    lookup(&memory, &query, path, &mut Requests::default()),
                    "{}",
                    path.escape_ascii()
                );
            }
        }
    }
}

type Answered = (Vec<Applied>, Shares);

/// Applies changes by an engine, and one by one to an equal volume: answers and names are the same.
fn compare(
    start: usize,
    changes: &[Change<'_>],
    apply: &dyn Fn(&Volume, Ino) -> lanefs::Result<Answered>,
) -> Shares {
    let names = names();
    let (volume_by_engine, dir) = volume(InodeSize::B256, &names[..start]);
    let (one_by_one, same_dir) = volume(InodeSize::B256, &names[..start]);
    let (answers, shares) = apply(&volume_by_engine, dir).expect("applied");
    let expected = one_by_one.apply(same_dir, changes).expect("applied");
    let codes = |answers: &[Applied]| answers.iter().map(|answer| answer.code).collect::<Vec<_>>();
    assert_eq!(codes(&answers), codes(&expected));
    let listed = |volume: &Volume, dir| {
        let entries = volume.readdir(&CALLER, dir, 0, usize::MAX).expect("readdir");
        entries.into_iter().map(|entry| entry.name).collect::<std::collections::BTreeSet<_>>()
    };
    assert!(listed(&volume_by_engine, dir) == listed(&one_by_one, same_dir));
    let findings = volume_by_engine.check(false, &|_, _| {}).expect("check").findings;
    assert!(findings.is_empty(), "{findings:?}");
    shares
}

#[test]
fn batches_of_changes_are_made_one_by_one() {
    let names = names();
    let gpu = gpu(64);
    let create = |name| Change::Create { path: name, perm: 0o644, data: b"x" };
    let unlink = |name| Change::Unlink { path: name };
    // The start, and the changes: to the first entries without a slot, and more; away from such; within.
    let cases: [(usize, Vec<Change<'_>>); 4] = [
        (0, names.iter().map(|name| create(&name[..])).collect()),
        (250, names[200..300].iter().map(|name| create(&name[..])).collect()),
        (300, names[100..200].iter().map(|name| unlink(&name[..])).collect()),
        (300, names[290..320].iter().flat_map(|name| [unlink(&name[..]), create(&name[..])]).collect()),
    ];
    for (start, changes) in &cases {
        let shares = compare(*start, changes, &|volume, dir| {
            let mut engine = TwinEngine::of(volume)?;
            volume.apply_with(&mut engine as &mut dyn DirEngine, dir, changes)
        });
        assert!(shares.one_by_one > 0, "from {start}, by the twin: {shares:?}");
        let shares = compare(*start, changes, &|volume, dir| {
            let mirrored = gpu.mirror(volume, &cached()).expect("mirror");
            mirrored.apply(dir, changes)
        });
        assert!(shares.one_by_one > 0, "from {start}, by the device: {shares:?}");
    }
}
