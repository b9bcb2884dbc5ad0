//! A kernel and its twin give the same bits, also for bytes that make no sense, and the twin's reads are
//! counted.

use crate::support::{CALLER, by_names, cached, faulty, gpu, planted, questions, uncached};
use lanefs::format::BlockKind;
use lanefs::{
    Caller, Code, Column, ColumnSet, CreateOptions, InodeSize, NameSet, PathSet, ResolveOptions, User, Volume,
};
use lanefs_gpu::testing::{ColumnLayout, FillRequest, LearnRequest, Requests};
use lanefs_gpu::twin::Memory;
use lanefs_gpu::twin::headers::cache::{BUCKET_WORDS, Cache};
use lanefs_gpu::twin::headers::dir_table::DirTable;
use lanefs_gpu::twin::host::{Counting, HostCopy, Snapshot, WithCache};
use lanefs_gpu::twin::kernels::columns::columns;
use lanefs_gpu::twin::kernels::fill::fill;
use lanefs_gpu::twin::kernels::learn::{directory_of, learn};
use lanefs_gpu::twin::kernels::lookup::{LookupQuery, PathResult, lookup, lookup_name};
use lanefs_gpu::twin::kernels::pack::pack;
use lanefs_gpu::twin::kernels::warm::warm;
use lanefs_gpu::{DeviceKind, Error, Gpu, GpuOptions, MirrorOptions, Probes};
use lanefs_testkit::mutate::{bases, hostile};
use lanefs_testkit::seeded::Seeded;
use std::collections::BTreeSet;

fn compare(gpu: &Gpu, volume: &Volume, asked: &[Vec<u8>], what: &str) {
    let memory = HostCopy::of(volume).expect("copied");
    let users = [None, Some(User { uid: 1000, gid: 1000, groups: vec![5, 6] })];
    for (follow, user) in [(false, None), (true, None)].into_iter().chain(users.map(|user| (true, user))) {
        let mirrored = gpu.mirror(volume, &cached()).expect("mirror");
        let options = ResolveOptions { follow, caller: Caller { user }, ..ResolveOptions::default() };
        let query = mirrored.query_of(&options);
        // Again: then the cache has entries, and the table directories.
        for round in 0..2 {
            let before = mirrored.snapshot().expect("snapshot");
            let cached = WithCache { memory: &memory, snapshot: &before };
            let (found, noted) = mirrored.kernel_lookup(&query, asked).expect("the device");
            let mut all = Requests::default();
            for (path, found) in asked.iter().zip(found) {
                let twin = lookup(&cached, &query, path, &mut all);
                assert_eq!(found, twin, "{what}, {round}: {} with {options:?}", path.escape_ascii());
                all.path += 1;
            }
            // Of unfinished lookups the requests of the first dispatches are not seen.
            let fills: BTreeSet<FillRequest> = all.fills.into_iter().collect();
            let noted_fills: BTreeSet<FillRequest> = noted.fills.into_iter().collect();
            assert!(noted_fills.is_subset(&fills), "{what}, {round}: a fill request without an entry");
            let learns: BTreeSet<LearnRequest> = all.learns.into_iter().collect();
            let noted_learns: BTreeSet<LearnRequest> = noted.learns.into_iter().collect();
            assert!(noted_learns.is_subset(&learns), "{what}, {round}: a learn request without a directory");
            let after = mirrored.snapshot().expect("snapshot");
            check_filled(&cached, &query, &after, &noted_fills, &fills, what);
            check_learned(&before, &query, &after, asked, &noted_learns, &learns, what);
            let (found, packed) = mirrored.kernel_pack(&query, asked).expect("the device");
            assert_eq!(packed, pack(&found), "{what}, {round}: packed");
            for wanted in [ColumnSet::ALL, ColumnSet::of(&[Column::Mode, Column::Size, Column::Mtime])] {
                let (found, rows) = mirrored.kernel_columns(&query, wanted, asked).expect("the device");
                let twin = columns(&memory, query.inode_size, &ColumnLayout::new(4, wanted), &found);
                let differs = rows.iter().zip(&twin).position(|(found, twin)| found != twin);
                assert_eq!((rows.len(), differs), (twin.len(), None), "{what}, {round}: rows");
            }
        }
    }
}

/// The same for names in directories that come with the batch. Some of these are not directories, or nothing.
fn compare_names(gpu: &Gpu, volume: &Volume, asked: &[Vec<u8>], numbers: &mut Seeded, what: &str) {
    let set: PathSet = asked.iter().collect();
    let cut = NameSet::of_paths(set.view());
    let names = cut.view();
    // First, for it may fetch blocks.
    let found = volume.plain_directories(None, names.directories()).expect("directories");
    let memory = HostCopy::of(volume).expect("copied");
    let mirrored = gpu.mirror(volume, &cached()).expect("mirror");
    let inos: Vec<u64> = found
        .into_iter()
        .map(|dir| match (dir, numbers.below(20)) {
            (_, 0) => numbers.below(u64::MAX),
            (_, 1) => numbers.below(2000),
            (dir, _) => dir.map_or(0, |ino| ino.0),
        })
        .collect();
    for follow in [false, true] {
        let query = mirrored.query_of(&ResolveOptions { follow, ..ResolveOptions::default() });
        for round in 0..2 {
            let before = mirrored.snapshot().expect("snapshot");
            let cached = WithCache { memory: &memory, snapshot: &before };
            let (found, noted) = mirrored.kernel_names(&query, names, &inos).expect("the device");
            assert_eq!((found.len(), noted.learns.len()), (asked.len(), 0), "{what}, {round}");
            let mut all = Requests::default();
            for (i, found) in found.into_iter().enumerate() {
                let (dir, name) = (inos[names.number(i).expect("a number")], names.names().get(i));
                let name = name.expect("a name");
                let twin = match dir {
                    // The host answers.
                    0 => PathResult { code: Code::NotResident, kind: 0, ino: 0 },
                    dir => lookup_name(&cached, &query, dir, name, &mut all),
                };
                assert_eq!(found, twin, "{what}, {round}: {} in {dir}", name.escape_ascii());
            }
            let fills: BTreeSet<FillRequest> = all.fills.into_iter().collect();
            let noted: BTreeSet<FillRequest> = noted.fills.into_iter().collect();
            assert!(noted.is_subset(&fills), "{what}, {round}: a fill request without an entry");
            let after = mirrored.snapshot().expect("snapshot");
            check_filled(&cached, &query, &after, &noted, &fills, what);
            assert_eq!(after.directories.contents(), before.directories.contents(), "{what}: learned");
        }
    }
}

/// Checks that the cache has its old entries and the requested ones, without those that found no slot or
/// lost a race for one.
fn check_filled(
    before: &WithCache<'_>,
    query: &LookupQuery,
    after: &Snapshot,
    noted: &BTreeSet<FillRequest>,
    all: &BTreeSet<FillRequest>,
    what: &str,
) {
    let one = |note: &FillRequest| {
        let mut alone = Cache { words: vec![0; 24], claim: 1 };
        fill(before, query, &mut alone, &[*note]);
        alone.contents()
    };
    let possible: BTreeSet<_> = all.iter().flat_map(one).chain(before.snapshot.cache.contents()).collect();
    let found = after.cache.contents();
    assert!(found.is_subset(&possible), "{what}: the cache has an entry that no invocation put there");
    let mut twin = before.snapshot.cache.clone();
    twin.claim += 1;
    fill(before, query, &mut twin, &noted.iter().copied().collect::<Vec<_>>());
    let wanted = twin.contents();
    let missing = wanted.difference(&found).count();
    assert!(missing * 20 <= wanted.len(), "{what}: {missing} of {} are not there", wanted.len());
}

/// The same for the directory-path table.
fn check_learned(
    before: &Snapshot,
    query: &LookupQuery,
    after: &Snapshot,
    asked: &[Vec<u8>],
    noted: &BTreeSet<LearnRequest>,
    all: &BTreeSet<LearnRequest>,
    what: &str,
) {
    // Each directory once: many paths begin with it.
    let mut paths = BTreeSet::new();
    let one = |note: &LearnRequest| {
        if !paths.insert(directory_of(asked, note)) {
            return BTreeSet::new();
        }
        let mut alone = DirTable::empty(16);
        learn(query, &mut alone, asked, &[*note]);
        alone.contents()
    };
    let possible: BTreeSet<_> = all.iter().flat_map(one).chain(before.directories.contents()).collect();
    let found = after.directories.contents();
    assert!(found.is_subset(&possible), "{what}: the table has a path that no invocation put there");
    let mut twin = before.directories.clone();
    twin.claim += 1;
    learn(query, &mut twin, asked, &noted.iter().copied().collect::<Vec<_>>());
    let wanted = twin.contents();
    let missing = wanted.difference(&found).count();
    assert!(missing * 20 <= wanted.len(), "{what}: {missing} of {} paths are not there", wanted.len());
}

#[test]
fn warming_is_equal_to_its_twin() {
    for (seed, size) in [(3, InodeSize::B128), (4, InodeSize::B256)] {
        let volume = Volume::create_memory(&crate::support::options(size)).expect("volume");
        crate::support::fill(&volume, &mut Seeded::new(seed));
        check_warmed(&gpu(32), &volume, "sound");
    }
    let (gpu, bases) = (gpu(64), bases().expect("sound volumes can be made"));
    for seed in 0..100 {
        let Ok(volume) = Volume::from_bytes(hostile(&bases[seed as usize % bases.len()], seed)) else {
            continue;
        };
        let _ = volume.load_metadata(&|_, _| true);
        check_warmed(&gpu, &volume, "hostile");
    }
}

/// Words of a cache of 1024 buckets: a leaf block has at most 125 entries.
const ONE_LEAF_WORDS: usize = 1024 * BUCKET_WORDS as usize;

/// All that is in the cache was in a leaf block, whatever the volume. Races decide which entries of a full
/// bucket stay. So where the cache has room for all, both differ by few; a hostile image may have more
/// entries than slots, and then nothing is promised of their number.
fn check_warmed(gpu: &Gpu, volume: &Volume, what: &str) {
    let memory = HostCopy::of(volume).expect("copied");
    let mirrored = gpu.mirror(volume, &cached()).expect("mirror");
    let before = mirrored.snapshot().expect("snapshot");
    mirrored.warm().expect("warm");
    let found = mirrored.snapshot().expect("snapshot").cache.contents();
    let cached = WithCache { memory: &memory, snapshot: &before };
    let mut twin = before.cache.clone();
    twin.claim += 1;
    let query = mirrored.query_of(&ResolveOptions::default());
    let blocks = (0..volume.superblock().volume_bytes).step_by(4096);
    warm(&cached, &query, &mut twin, blocks.clone());
    // Each block alone, so in any order: in a small cache, which has room for the entries of one.
    let is_leaf = |block: &u64| memory.word(*block).is_some_and(|word| word & 0xff == BlockKind::Leaf as u32);
    let mut possible = before.cache.contents();
    for block in blocks.filter(is_leaf) {
        let mut one = Cache { words: vec![0; before.cache.words.len().min(ONE_LEAF_WORDS)], claim: 1 };
        warm(&cached, &query, &mut one, std::iter::once(block));
        possible.extend(one.contents());
    }
    assert!(found.is_subset(&possible), "{what}: the cache has what is in no leaf block");
    let wanted = twin.contents();
    let missing = wanted.difference(&found).count();
    let has_room = what == "sound" || possible.len() < twin.buckets() as usize / 4;
    assert!(!has_room || missing * 20 <= wanted.len(), "{what}: {missing} of {}", wanted.len());
}

#[test]
fn the_kernel_is_equal_to_its_twin_on_sound_volumes() {
    let gpu = gpu(64);
    for (seed, size) in [(1, InodeSize::B128), (2, InodeSize::B256)] {
        let numbers = &mut Seeded::new(seed);
        let volume = Volume::create_memory(&crate::support::options(size)).expect("volume");
        let paths = crate::support::fill(&volume, numbers);
        let asked = questions(&paths, 5000, numbers);
        compare(&gpu, &volume, &asked, "sound");
        compare_names(&gpu, &volume, &asked, numbers, "sound");
    }
}

#[test]
fn the_kernel_is_equal_to_its_twin_on_hostile_images() {
    let gpu = gpu(64);
    let bases = bases().expect("sound volumes can be made");
    let mut opened = 0;
    for seed in 0..250 {
        let base = &bases[seed as usize % bases.len()];
        let Ok(volume) = Volume::from_bytes(hostile(base, seed)) else { continue };
        let _ = volume.load_metadata(&|_, _| true);
        let numbers = &mut Seeded::new(seed);
        let paths = [base.paths.clone(), vec![b"/d/no such file".to_vec()]].concat();
        let asked = questions(&paths, 400, numbers);
        let what = format!("{} {seed}", base.name);
        compare(&gpu, &volume, &asked, &what);
        compare_names(&gpu, &volume, &asked, numbers, &what);
        // The CPU engine gives the same answers to names, also on a damaged volume.
        let options = ResolveOptions::default();
        let by_name = by_names(&volume, &options, &asked).map(|(found, _)| found);
        if let (Ok(found), Ok(expected)) = (by_name, volume.resolve_batch(&options, &asked)) {
            let differs = found.iter().zip(&expected).position(|(found, expected)| found != expected);
            let row = differs.map(|row| (asked[row].escape_ascii().to_string(), found[row], expected[row]));
            assert_eq!(row, None, "{what}: names");
        }
        opened += 1;
    }
    assert!(opened > 100, "only {opened} images could be opened");
}

/// Sectors of a name in its first home, and in its last of eight.
const FIRST_HOME: f64 = 3.0;
const LAST_HOME: usize = 10;

/// Returns the most and the mean of the sectors of a lookup in a directory of so many files, with names of
/// 24 bytes, without the sector of the inode found.
fn sectors(gpu: &Gpu, files: u32, options: &MirrorOptions) -> (usize, f64) {
    let options_of_volume = CreateOptions { size: 128 << 20, ..crate::support::options(InodeSize::B256) };
    let volume = Volume::create_memory(&options_of_volume).expect("volume");
    let dir = volume.mkdir(&CALLER, volume.root(), b"d", 0o755).expect("mkdir").ino;
    let name = |number: u32| format!("a-file-with-number-{number:05}");
    for number in 0..files {
        volume.create_file(&CALLER, dir, name(number).as_bytes(), 0o644).expect("file");
    }
    let memory = HostCopy::of(&volume).expect("copied");
    let mirrored = gpu.mirror(&volume, options).expect("mirror");
    mirrored.warm().expect("warm");
    let snapshot = mirrored.snapshot().expect("snapshot");
    let query = mirrored.query_of(&ResolveOptions { base: Some(dir), ..ResolveOptions::default() });
    let (mut most, mut sum, mut count) = (0, 0, 0);
    for number in (0..files).step_by(files.div_ceil(500) as usize) {
        let memory = WithCache { memory: &memory, snapshot: &snapshot };
        let counting = Counting::new(memory);
        let mut requests = Requests::default();
        let found = lookup(&counting, &query, name(number).as_bytes(), &mut requests);
        assert_eq!(found.code, Code::Success);
        assert!(requests.fills.is_empty() || snapshot.cache.buckets() == 0, "{number} is not in the cache");
        let read = counting.sectors();
        (most, sum, count) = (most.max(read), sum + read, count + 1);
    }
    (most, sum as f64 / count as f64)
}

#[test]
fn a_lookup_reads_few_sectors_whatever_the_size_of_the_directory() {
    let gpu = gpu(64);
    for files in [1, 28, 29, 256, 2_000, 20_000, 100_000] {
        let ((_, tree), (most, mean)) = (sectors(&gpu, files, &uncached()), sectors(&gpu, files, &cached()));
        eprintln!("{files} files: {tree:.2} sectors by the tree, {mean:.2} by the cache, {most} at most");
        assert!(tree <= 10.0 && most <= LAST_HOME && mean <= FIRST_HOME * 1.03, "{files} files");
    }
}

#[test]
fn a_kernel_with_a_wrong_comparison_does_not_pass_its_probe() {
    for (file, right, wrong) in [
        ("entry.glsl", "uint(word) != name.hash || length", "uint(word) == name.hash || length"),
        ("entry.glsl", "name.at + i, end)) != 0u", "name.at + i, end)) == 1u"),
        (
            "directory.glsl",
            "word_at(inode + tags + i, resident) ^ tag",
            "word_at(inode + tags + i, resident) ^ ~tag",
        ),
        ("directory.glsl", "resident) <= hash", "resident) < hash"),
        ("walk.comp", "has_components ? CODE_COMPONENT_NOT_FOUND : CODE_NOT_FOUND", "CODE_NOT_FOUND"),
        (
            "walk.comp",
            "return failed(CODE_NOT_DIRECTORY);\n    }\n    return LookupAnswer",
            "}\n    return LookupAnswer",
        ),
        ("walk.comp", "followed > MAX_FOLLOWED", "followed >= MAX_FOLLOWED"),
        ("walk.comp", "rest = outer[depth];", "rest = outer[0];"),
        ("walk.comp", "uid == p.uid ? mode >> 6", "uid != p.uid ? mode >> 6"),
        ("walk.comp", "MODE_DIRECTORY || has_list", "MODE_DIRECTORY"),
    ] {
        let code = faulty("walk", file, right, wrong);
        let opened = planted("walk", &code, Probes::Of("walk"));
        assert!(matches!(opened, Err(Error::Wrong { .. })), "{wrong} passes the probe");
    }
    for (kernel, file, right, wrong) in [
        ("walk", "cache.glsl", "& 0xfffu) ^ uint(dir >> 32)", "& 0xfffu) ^ ~uint(dir >> 32)"),
        ("lookup", "cache.glsl", "& 0xfffu) ^ uint(dir >> 32)", "& 0xfffu) ^ ~uint(dir >> 32)"),
        ("lookup", "cache.glsl", "word[0] == version", "word[0] >= version"),
        (
            "lookup",
            "cache.glsl",
            "two.y ^ name.word[3];\n            differs |= two.z ^ name.word[4];",
            "0u;",
        ),
        ("lookup", "lookup.comp", "/ 8u + 1u : first", "/ 8u : first"),
        ("lookup", "lookup.comp", "p.dir_of + uint64_t(i) * 4UL", "p.dir_of"),
        ("lookup", "lookup.comp", "(is_odd || begin != first)", "is_odd"),
        ("lookup", "lookup.comp", "(is_odd || begin != first)", "(begin != first)"),
        ("lookup", "dir_table.glsl", "first[DIR_EPOCH] == p.epoch", "first[DIR_EPOCH] <= p.epoch"),
        ("lookup", "dir_table.glsl", "different == 0u ? uint64_t(head.x)", "true ? uint64_t(head.x)"),
        ("learn", "learn.comp", "unit << DIR_LENGTH_BITS", "unit << DIR_LENGTH_BITS + 1u"),
        ("learn", "learn.comp", "!= p.epoch) {", "== p.epoch) {"),
        ("fill", "cache.glsl", "<< CACHE_LENGTH_SHIFT;", "<< CACHE_LENGTH_SHIFT - 1u;"),
        ("pack", "pack.comp", "code == CODE_SUCCESS ?", "code != CODE_SUCCESS ?"),
        ("pack", "pack.comp", "|| code == CODE_NOT_RESIDENT", ""),
        ("pack", "pack.comp", "? 1u << k : 0u;\n        bits.open", "? 2u << k : 0u;\n        bits.open"),
        ("pack", "pack.comp", "min(p.count - first, 32u)", "min(p.count - first, 31u)"),
        ("columns", "columns.comp", "answer.kind << ANSWER_KIND_SHIFT", "answer.kind << ANSWER_INO_SHIFT"),
        ("columns", "columns.comp", "? INODE_BLOCKS : INODE_BYTES", "? INODE_BYTES : INODE_BLOCKS"),
        ("columns", "columns.comp", "kind == KIND_CHAR_DEVICE ||", "kind != KIND_CHAR_DEVICE ||"),
        (
            "columns",
            "columns.comp",
            "column += uint64_t(p.stride) * 4UL",
            "column += uint64_t(p.stride) * 0UL",
        ),
        ("columns", "columns.comp", "QUAD(COLUMN_MTIME,", "QUAD(COLUMN_ATIME,"),
        ("warm", "warm.comp", "entry.at == at", "entry.at != at"),
        ("find", "find.comp", "size <= f.size_max", "size < f.size_max"),
        ("find", "find.comp", "time >= f.time_min", "time > f.time_min"),
        ("find", "find.comp", "time <= f.time_max", "time >= f.time_max"),
        ("find", "find.comp", "f.leads[word >> (8u * k) & 0xffu]", "f.leads[word & 0xffu]"),
        ("find", "find.comp", "(states & f.end) == f.end", "(states & f.end) <= f.end"),
        ("find", "find.comp", "(f.kinds >> kind & 1u) != 0u", "(f.kinds >> kind & 1u) == 0u"),
        ("find", "find.comp", "dir == p.root", "dir != p.root"),
        ("leaves", "leaves.comp", "POINTER_TAGS) != POINTER_INDIRECT", "POINTER_TAGS) == POINTER_INDIRECT"),
        ("leaves", "leaves.comp", "POINTER_SLOT_BITS * (level - 1u)", "POINTER_SLOT_BITS * level"),
        ("leaves", "leaves.comp", "BITS * depth) != 0UL", "BITS * depth) == 0UL"),
        ("stat", "stat.comp", "resident && mode != 0u", "resident && mode == 0u"),
        ("seek", "seek.comp", "request.dir == 0UL", "request.dir != 0UL"),
        (
            "seek",
            "seek.comp",
            "resident) & MODE_TYPE) != MODE_DIRECTORY",
            "resident) & MODE_TYPE) == MODE_DIRECTORY",
        ),
        ("seek", "seek.comp", "name_word(answer.dummy) >> 16", "name_word(answer.dummy) >> 17"),
        ("seek", "seek.comp", "block + LEAF_SIZE", "block + LEAF_SIZE + UNIT * 2UL"),
        ("gather", "change.glsl", "part] <= at", "part] >= at"),
        ("gather", "change.glsl", "if (to == 0UL || !is_removed(task, to))", "if (to == 0UL || true)"),
        ("gather", "gather.comp", "if (is_removed(task, at))", "if (!is_removed(task, at))"),
        ("gather", "gather.comp", "if (link_of(at, link) != to)", "if (link_of(at, link) == to)"),
        ("gather", "gather.comp", "previous == old ?", "previous != old ?"),
        ("gather", "gather.comp", "if (count == 0u && first != 0UL)", "if (count != 0u && first != 0UL)"),
        ("gather", "gather.comp", "if (is_tail && next != 0UL)", "if (is_tail && next == 0UL)"),
        ("gather", "gather.comp", "i == task.added ? before", "i != task.added ? before"),
        (
            "gather",
            "gather.comp",
            "if (form == FORM_SMALL) {\n            take",
            "if (form != FORM_SMALL) {\n            take",
        ),
        (
            "merge",
            "change.glsl",
            "hash == other_hash && at < other_at",
            "hash == other_hash && at > other_at",
        ),
        ("merge", "merge.comp", ".task[middle].merged <= i", ".task[middle].merged < i"),
        ("merge", "merge.comp", "bool stays = number < task.stay", "bool stays = number <= task.stay"),
        (
            "build",
            "build.comp",
            ".hash == merged_at(task.merged + i).hash",
            ".hash != merged_at(task.merged + i).hash",
        ),
        ("build", "build.comp", "if (slots[base + i] == slot)", "if (slots[base + i] != slot)"),
        ("build", "build.comp", "while (taken[bucket] == ALL_TAKEN", "while (taken[bucket] != ALL_TAKEN"),
        ("build", "build.comp", "if (old != slots[i])", "if (old == slots[i])"),
        (
            "build",
            "build.comp",
            "byte < entries ? element_hash[i] >> 24",
            "byte > entries ? element_hash[i] >> 24",
        ),
        ("build", "build.comp", "i + 1u == count ? end", "i + 2u == count ? end"),
        ("build", "build.comp", "if (is_last && after != 0UL)", "if (is_last && after == 0UL)"),
        ("build", "build.comp", "if (head.number > 0u && from", "if (head.number > 1u && from"),
        ("build", "build.comp", "? task.lowest : element_hash[0]", "? element_hash[0] : task.lowest"),
    ] {
        let code = faulty(kernel, file, right, wrong);
        // The probe of another kernel, whose work it prepares or shares, may be the one that finds it.
        let is_caught = [Probes::Of(kernel), Probes::All]
            .into_iter()
            .any(|probes| matches!(planted(kernel, &code, probes), Err(Error::Wrong { .. })));
        assert!(is_caught, "{wrong} passes the probe");
    }
}

#[test]
fn a_kernel_with_a_wrong_comparison_differs_from_its_twin() {
    let volume = Volume::create_memory(&crate::support::options(InodeSize::B256)).expect("volume");
    let numbers = &mut Seeded::new(21);
    let asked = questions(&crate::support::fill(&volume, numbers), 5000, numbers);
    let memory = HostCopy::of(&volume).expect("copied");
    let user = Some(User { uid: 0, gid: 0, groups: Vec::new() });
    for (file, right, wrong) in [
        ("entry.glsl", "name.at + i, end)) != 0u", "name.at + i, end)) == 1u"),
        ("directory.glsl", "resident) <= hash", "resident) < hash"),
        ("walk.comp", "has_components ? CODE_COMPONENT_NOT_FOUND : CODE_NOT_FOUND", "CODE_NOT_FOUND"),
        ("walk.comp", "rest = outer[depth];", "rest = outer[0];"),
        (
            "directory.glsl",
            "word_at(inode + tags + i, resident) ^ tag",
            "word_at(inode + tags + i, resident) ^ ~tag",
        ),
        ("walk.comp", "uid == p.uid ? mode >> 6", "uid != p.uid ? mode >> 6"),
    ] {
        let code = faulty("walk", file, right, wrong);
        let gpu = planted("walk", &code, Probes::None).expect("a Vulkan device");
        let mirrored = gpu.mirror(&volume, &uncached()).expect("mirror");
        let mut query = mirrored.query_of(&ResolveOptions::default());
        query.user = user.clone().filter(|_| wrong.starts_with("uid"));
        let (found, _) = mirrored.kernel_lookup(&query, &asked).expect("the device");
        let is_other =
            |(path, found): (&Vec<u8>, &_)| *found != lookup(&memory, &query, path, &mut Requests::default());
        assert!(asked.iter().zip(&found).any(is_other), "{wrong} is not seen");
    }
}

#[test]
fn a_kernel_that_writes_outside_its_buffers_is_caught() {
    // Guards are where the host maps the memory, and of such a device it does not.
    if gpu(64).info().kind == DeviceKind::Discrete {
        return;
    }
    let right = "Answers(p.answers).answer[i] = answer";
    let code = faulty("lookup", "lookup.comp", right, "Answers(p.answers - 32UL).answer[i] = answer");
    let options = GpuOptions { guards: true, replaced: Some(("lookup", &code)), ..GpuOptions::default() };
    let opened = std::panic::catch_unwind(|| Gpu::open_with(&options).map(drop).is_ok());
    let said = opened.expect_err("the guards did not notice it");
    assert!(said.downcast_ref::<String>().is_some_and(|said| said.contains("outside a buffer")));
}
