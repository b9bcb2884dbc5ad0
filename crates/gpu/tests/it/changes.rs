//! The kernels that change directories are equal to their twins, and the twins' results are sound: lists
//! and indexes as they should be.

use crate::support::{CALLER, fill, gpu, options, uncached};
use lanefs::bulk::{Added, Batch, DirEngine, Head, Lookup, LookupRequest, Rebuilt, Source, Task, Undecided};
use lanefs::format::dir::{BUCKET_SLOTS, BUCKETS, Slot, entry, index};
use lanefs::{Caller, FileKind, Ino, InodeSize, ResolveOptions, Volume};
use lanefs_gpu::testing::{Maker, regions};
use lanefs_gpu::twin::KernelSettings;
use lanefs_gpu::twin::Memory;
use lanefs_gpu::twin::change::{rebuilt, seen};
use lanefs_gpu::twin::host::HostCopy;
use lanefs_gpu::{Gpu, Mirrored};
use lanefs_testkit::mutate::{bases, hostile};
use lanefs_testkit::seeded::Seeded;
use std::collections::{BTreeMap, BTreeSet};

fn setting(mirrored: &Mirrored<'_>, workgroup: u32) -> KernelSettings {
    let query = mirrored.query_of(&ResolveOptions::default());
    KernelSettings { seed: query.seed, inode_size: query.inode_size, fuel: query.fuel, workgroup }
}

/// The directories of a volume, as far as they can be listed.
fn directories(volume: &Volume) -> Vec<Ino> {
    let mut found = vec![volume.root()];
    let mut i = 0;
    while i < found.len() && found.len() < 500 {
        let entries = volume.readdir(&CALLER, found[i], 0, 5000).unwrap_or_default();
        found.extend(entries.iter().filter(|entry| entry.kind == FileKind::Directory).map(|entry| entry.ino));
        i += 1;
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// A volume with directories of every form, from which many entries were removed again.
fn worn(seed: u64, size: InodeSize) -> Volume {
    let volume = Volume::create_memory(&options(size)).expect("volume");
    let numbers = &mut Seeded::new(seed);
    fill(&volume, numbers);
    for dir in directories(&volume) {
        if numbers.below(2) == 0 {
            continue;
        }
        let part = numbers.below(4) + 1;
        for entry in volume.readdir(&CALLER, dir, 0, 5000).expect("entries") {
            if numbers.below(4) < part && entry.kind != FileKind::Directory {
                volume.unlink(&CALLER, dir, &entry.name).expect("removed");
            }
        }
    }
    volume
}

/// Sorts the words.
fn sorted(rebuilt: Result<Rebuilt, Undecided>) -> Result<Rebuilt, Undecided> {
    rebuilt.map(|mut rebuilt| {
        rebuilt.words.sort_unstable();
        rebuilt
    })
}

/// Batches on some directories: each task alone, all together.
fn batches(memory: &HostCopy, size: InodeSize, dirs: &[Ino], seed: u64, alone: bool) -> Vec<Batch> {
    let mut maker = Maker::new(memory, size, seed);
    let mut batches = Vec::new();
    for dir in dirs {
        maker.add(dir.0 * size.bytes());
        if alone {
            batches.push(maker.batch());
        }
    }
    batches.push(maker.batch());
    batches
}

fn compare(gpu: &Gpu, volume: &Volume, workgroup: u32, seeds: std::ops::Range<u64>) -> (usize, usize) {
    // Listing makes the blocks resident, before they are copied.
    let dirs = directories(volume);
    let memory = HostCopy::of(volume).expect("copied");
    let mirrored = gpu.mirror(volume, &uncached()).expect("mirror");
    let setting = setting(&mirrored, workgroup);
    let mut changes = mirrored.changes();
    changes.refresh().expect("the device");
    let (mut able, mut count) = (0, 0);
    for seed in seeds {
        for batch in batches(&memory, setting.inode_size, &dirs, seed, seed % 2 == 0) {
            let found = sorted(changes.rebuild(&batch));
            let twin = sorted(rebuilt(&memory, &setting, &batch));
            assert!(found == twin, "{seed}: {batch:?}\n{found:?}\n{twin:?}");
            able += usize::from(found.is_ok());
            count += 1;
        }
    }
    drop(changes);
    assert_eq!(mirrored.failure(), None);
    (able, count)
}

#[test]
fn regions_are_rebuilt_as_by_the_twins_in_workgroups_of_any_size() {
    for (seed, size, workgroup) in [
        (1, InodeSize::B128, 32),
        (2, InodeSize::B256, 64),
        (3, InodeSize::B256, 256),
        (4, InodeSize::B128, 48),
    ] {
        let (able, count) = compare(&gpu(workgroup), &worn(seed, size), workgroup, seed..seed + 6);
        // The fuel of a software device suffices for all of them.
        assert_eq!(able, count, "in workgroups of {workgroup}");
    }
}

/// The twin's words, on a copy of a volume with entries and blocks that only the test has.
struct Changed<'m> {
    memory: &'m HostCopy,
    words: BTreeMap<u64, u64>,
    /// Hashes of the added entries.
    hashes: BTreeMap<u64, u32>,
}

impl Changed<'_> {
    fn quad(&self, at: u64) -> u64 {
        let there = self.words.get(&at).copied();
        there.unwrap_or_else(|| self.memory.quad(at).filter(|_| at < 1 << 40).unwrap_or(0))
    }

    fn hash(&self, at: u64) -> u32 {
        let there = self.hashes.get(&at).copied();
        there.unwrap_or_else(|| self.memory.word(at + entry::HASH.offset as u64).expect("an entry"))
    }

    fn next(&self, at: u64) -> u64 {
        self.quad(at)
    }

    /// Returns the list after a position; checks that it leads back as well.
    fn list(&self, from: u64, count: usize) -> Vec<u64> {
        let mut list = Vec::new();
        let mut at = from;
        for _ in 0..count {
            let next = self.next(at);
            assert_eq!(self.quad(next + 8), at, "the way back");
            list.push(next);
            at = next;
        }
        list
    }

    /// Checks that an index has these entries and no other, and finds each of them.
    fn check_index(&self, at: u64, wanted: &[u64]) {
        let slot = |i: usize| self.quad(at + (index::SLOTS.offset + 8 * i) as u64);
        let used = (0..BUCKETS * BUCKET_SLOTS).filter(|i| Slot(slot(*i)).position() != 0).count();
        assert_eq!(used, wanted.len());
        for entry in wanted {
            let hash = self.hash(*entry);
            let mut bucket = Slot::home(hash as u16);
            while !(0..BUCKET_SLOTS)
                .any(|i| slot(bucket * BUCKET_SLOTS + i) & !Slot::OVERFLOW == Slot::new(hash, *entry).0)
            {
                assert!(slot(bucket * BUCKET_SLOTS) & Slot::OVERFLOW != 0, "an entry that is not found");
                bucket = (bucket + 1) % BUCKETS;
            }
        }
    }

    fn check_small(&self, size: InodeSize, inode: u64, dummy: u64, wanted: &[u64]) {
        let byte = |i: usize| {
            let at = inode + i as u64;
            (self.quad(at & !7) >> (at % 8 * 8)) as u8
        };
        let mut found = Vec::new();
        for i in 0..size.small_entries() {
            let (tag, unit) = (byte(size.small_tags() + i), byte(size.small_units() + i));
            if unit == 0 {
                assert_eq!(tag, 0);
                continue;
            }
            let at = dummy - dummy % 4096 + u64::from(unit) * 16;
            assert_eq!(u32::from(tag), self.hash(at) >> 24);
            found.push(at);
        }
        found.sort_unstable();
        let mut wanted = wanted.to_vec();
        wanted.sort_unstable();
        assert_eq!(found, wanted);
    }
}

/// Checks a task's list from its dummy on, and its indexes. `heads`: entries of each region.
fn check_task(changed: &Changed<'_>, size: InodeSize, batch: &Batch, task: &Task, heads: &[u32]) {
    let slice = |range: (u32, u32)| range.0 as usize..range.1 as usize;
    let added = &batch.added[slice(task.added)];
    let removed = &batch.removed[slice(task.removed)];
    let ours: &[Head] = &batch.heads[slice(task.heads)];
    // The list as it was.
    let memory = changed.memory;
    let found = regions(memory, size, task.inode).expect("regions");
    let sources = &batch.sources[slice(task.sources)];
    let old: Vec<_> = found.iter().filter(|region| sources.contains(&region.source)).collect();
    let total: usize = old.iter().map(|region| region.entries.len() + 1).sum();
    let (mut stays, mut at) = (Vec::new(), old.first().map_or(0, |region| region.dummy));
    for _ in 1..total.max(1) {
        at = memory.quad(at).expect("an entry");
        stays.extend(Some(at).filter(|at| removed.binary_search(at).is_err()));
    }
    let after = if total == 0 { 0 } else { memory.quad(at).expect("an entry") };
    assert_eq!(stays.len(), task.stay as usize);
    let count: u32 = heads.iter().sum();
    assert_eq!(count as usize, added.len() + stays.len());
    let list = changed.list(ours[0].dummy, count as usize + ours.len() - 1);
    let last = list.last().copied().unwrap_or(ours[0].dummy);
    assert_eq!(changed.next(last), after, "the end");
    assert!(after == 0 || changed.quad(after + 8) == last, "what follows");
    if let [head] = ours {
        let wanted: Vec<u64> = added.iter().map(|added| added.at).chain(stays).collect();
        assert_eq!(list, wanted);
        if head.index == 0 {
            changed.check_small(size, task.inode, head.dummy, &list);
        } else {
            changed.check_index(head.index, &list);
        }
        return;
    }
    let mut rest = &list[..];
    let mut all = BTreeSet::new();
    for (number, (head, count)) in ours.iter().zip(heads).enumerate() {
        if number > 0 {
            assert_eq!(rest[0], head.dummy);
            rest = &rest[1..];
        }
        let (own, others) = rest.split_at(*count as usize);
        rest = others;
        let ordered: Vec<Added> = own.iter().map(|at| Added { hash: changed.hash(*at), at: *at }).collect();
        assert!(ordered.is_sorted() && all.last().is_none_or(|last| *last < ordered[0]));
        assert!(all.last().is_none_or(|last: &Added| last.hash < ordered[0].hash), "one hash in two regions");
        all.extend(ordered);
        changed.check_index(head.index, own);
    }
    let wanted: BTreeSet<u64> = added.iter().map(|added| added.at).chain(stays).collect();
    assert_eq!(all.iter().map(|entry| entry.at).collect::<BTreeSet<_>>(), wanted);
}

#[test]
fn what_the_twins_give_is_sound() {
    let mut kinds = BTreeMap::new();
    for (seed, size) in [(5, InodeSize::B128), (6, InodeSize::B256), (7, InodeSize::B256)] {
        let volume = worn(seed, size);
        let memory = HostCopy::of(&volume).expect("copied");
        let setting =
            KernelSettings { seed: volume.superblock().seed, inode_size: size, fuel: 1 << 20, workgroup: 64 };
        let dirs = directories(&volume);
        for batch in (0..12).flat_map(|seed| batches(&memory, size, &dirs, seed, false)) {
            let rebuilt = rebuilt(&memory, &setting, &batch).expect("able");
            let words: BTreeMap<u64, u64> = rebuilt.words.iter().copied().collect();
            assert_eq!(words.len(), rebuilt.words.len(), "a position twice");
            let hashes = batch.added.iter().map(|added| (added.at, added.hash)).collect();
            let changed = Changed { memory: &memory, words, hashes };
            for task in &batch.tasks {
                let heads = &rebuilt.heads[task.heads.0 as usize..task.heads.1 as usize];
                let counts: Vec<u32> = heads.iter().map(|head| head.count).collect();
                check_task(&changed, size, &batch, task, &counts);
                let has_small = batch.sources.get(task.sources.0 as usize);
                let is_small = matches!(has_small, Some(Source::Small(_)));
                let kind = (
                    (task.sources.1 - task.sources.0).min(2),
                    is_small,
                    heads.len().min(2),
                    batch.heads[task.heads.0 as usize].index == 0,
                );
                *kinds.entry(kind).or_insert(0) += 1;
            }
        }
    }
    // Of no source, of one, of several; to one head, to several; from and to small ones.
    for sources in 0..3 {
        for heads in 1..3 {
            let count: i32 =
                kinds.iter().filter(|(kind, _)| (kind.0, kind.2) == (sources, heads)).map(|(_, n)| n).sum();
            assert!(count > 3 || (sources, heads) == (2, 2), "{kinds:?}");
        }
    }
    for (from, to) in [(false, true), (true, false), (true, true)] {
        assert!(kinds.iter().any(|(kind, count)| (kind.1, kind.3) == (from, to) && *count > 3), "{kinds:?}");
    }
}

#[test]
fn a_word_that_is_bent_is_seen() {
    let volume = worn(12, InodeSize::B256);
    let memory = HostCopy::of(&volume).expect("copied");
    let size = InodeSize::B256;
    let setting =
        KernelSettings { seed: volume.superblock().seed, inode_size: size, fuel: 1 << 20, workgroup: 64 };
    let numbers = &mut Seeded::new(12);
    for batch in batches(&memory, size, &directories(&volume), 2, true).into_iter().step_by(5) {
        let rebuilt = rebuilt(&memory, &setting, &batch).expect("able");
        let [task] = &batch.tasks[..] else { continue };
        if rebuilt.words.is_empty() {
            continue;
        }
        let mut words: BTreeMap<u64, u64> = rebuilt.words.iter().copied().collect();
        let (at, _) = numbers.pick(&rebuilt.words);
        *words.get_mut(at).expect("there") ^= 1 << 20;
        let hashes = batch.added.iter().map(|added| (added.at, added.hash)).collect();
        let changed = Changed { memory: &memory, words, hashes };
        let counts: Vec<u32> = rebuilt.heads.iter().map(|head| head.count).collect();
        let checked = std::panic::catch_unwind(|| check_task(&changed, size, &batch, task, &counts));
        assert!(checked.is_err(), "the word at {at} of {task:?}");
    }
}

#[test]
fn too_little_room_for_words_is_made_up_for() {
    let volume = worn(8, InodeSize::B256);
    let memory = HostCopy::of(&volume).expect("copied");
    let gpu = gpu(64);
    let mirrored = gpu.mirror(&volume, &uncached()).expect("mirror");
    let setting = setting(&mirrored, 64);
    let dirs = directories(&volume);
    for room in [0, 1, 100] {
        let mut changes = mirrored.changes().with_room(room);
        changes.refresh().expect("the device");
        let batch = batches(&memory, setting.inode_size, &dirs[..dirs.len().min(8)], room, false).remove(0);
        let found = sorted(changes.rebuild(&batch));
        assert!(found.as_ref().is_ok_and(|found| found.words.len() as u64 > room));
        assert!(found == sorted(rebuilt(&memory, &setting, &batch)));
    }
}

/// Names in these directories, and some that none has.
fn names(volume: &Volume, dirs: &[Ino]) -> Vec<(u64, Vec<u8>)> {
    let mut names =
        vec![(0, b"no directory".to_vec()), (7, b"none either".to_vec()), (u64::MAX, b"x".to_vec())];
    for dir in dirs {
        let mut cookie = 0;
        while let Ok(some) = volume.readdir(&CALLER, *dir, cookie, 1000)
            && let Some(last) = some.last()
            && names.len() < 10_000
        {
            cookie = last.cookie;
            for entry in some {
                names.push((dir.0, [&entry.name[..entry.name.len().min(250)], b"x"].concat()));
                names.push((entry.ino.0, b"in a file, or a directory".to_vec()));
                names.push((dir.0, entry.name));
            }
        }
    }
    names
}

/// Seeks names on the device and by the twin; returns the twin's results.
fn seek(gpu: &Gpu, volume: &Volume, names: &[(u64, Vec<u8>)]) -> Vec<Option<Lookup>> {
    let memory = HostCopy::of(volume).expect("copied");
    let mirrored = gpu.mirror(volume, &uncached()).expect("mirror");
    let setting = setting(&mirrored, 64);
    let mut changes = mirrored.changes();
    changes.refresh().expect("the device");
    let request: Vec<LookupRequest<'_>> =
        names.iter().map(|(dir, name)| LookupRequest { dir: *dir, name }).collect();
    let found = changes.seek_each(&request).expect("the device");
    let twins: Vec<Option<Lookup>> = request.iter().map(|name| seen(&memory, &setting, name)).collect();
    for ((name, found), twin) in request.iter().zip(&found).zip(&twins) {
        assert_eq!(found, twin, "{name:?}");
    }
    let is_certain = twins.iter().all(Option::is_some);
    assert_eq!(changes.seek(&request).is_ok(), is_certain);
    twins
}

#[test]
fn names_are_sought_as_by_the_twin_and_by_the_cpu_engine() {
    let gpu = gpu(64);
    for (seed, size) in [(9, InodeSize::B128), (10, InodeSize::B256)] {
        let volume = worn(seed, size);
        let names = names(&volume, &directories(&volume));
        let all = seek(&gpu, &volume, &names);
        let memory = HostCopy::of(&volume).expect("copied");
        for ((dir, name), seen) in names.iter().zip(all) {
            let there = volume.lookup(&Caller::OWNER, Ino(*dir), name);
            let is_dir = volume.getattr(Ino(*dir)).is_ok_and(|attr| attr.kind == FileKind::Directory);
            assert_eq!(seen.is_some(), is_dir || *dir == 0, "{dir} {}", name.escape_ascii());
            let Some(seen) = seen else { continue };
            assert_eq!(seen.hash, lanefs::format::half_md4(volume.superblock().seed, name));
            let entry = seen.entry.map(|(_, ino, kind)| (Ino(ino), kind));
            assert_eq!(entry, there.ok(), "{dir} {}", name.escape_ascii());
            if *dir == 0 {
                continue;
            }
            let regions = regions(&memory, size, dir * size.bytes()).expect("regions");
            let region = regions.iter().find(|region| region.dummy == seen.dummy);
            assert_eq!(region.map_or(0, |region| region.entries.len() as u32), seen.count);
            let at = seen.entry.map(|(at, _, _)| Added { hash: seen.hash, at });
            assert!(at.is_none_or(|at| region.is_some_and(|region| region.entries.contains(&at))));
        }
    }
}

#[test]
fn hostile_images_give_some_answer_and_the_same_as_the_twins() {
    let gpu = gpu(64);
    let bases = bases().expect("sound volumes can be made");
    let (mut opened, mut able, mut count) = (0, 0, 0);
    for seed in 0..200 {
        let base = &bases[seed as usize % bases.len()];
        let Ok(volume) = Volume::from_bytes(hostile(base, seed)) else { continue };
        let _ = volume.load_metadata(&|_, _| true);
        let some = compare(&gpu, &volume, 64, 2 * seed..2 * seed + 1);
        (able, count) = (able + some.0, count + some.1);
        let mut names = names(&volume, &directories(&volume));
        names.truncate(500);
        seek(&gpu, &volume, &names);
        opened += 1;
    }
    assert!(opened > 100 && able > 100 && able < count, "{opened} images, {able} of {count} batches");
}

#[test]
fn a_batch_that_contradicts_itself_is_refused() {
    let volume = worn(11, InodeSize::B256);
    let memory = HostCopy::of(&volume).expect("copied");
    let gpu = gpu(64);
    let mirrored = gpu.mirror(&volume, &uncached()).expect("mirror");
    let setting = setting(&mirrored, 64);
    let batch = batches(&memory, setting.inode_size, &directories(&volume), 1, false).remove(0);
    let mut changes = mirrored.changes();
    changes.refresh().expect("the device");
    assert!(changes.rebuild(&batch).is_ok());
    let faults: [fn(&mut Batch); 12] = [
        |batch| batch.tasks[0].sources.1 = 1 << 20,
        |batch| batch.tasks[0].added = (3, 2),
        |batch| batch.tasks[1].heads.1 = batch.tasks[1].heads.0,
        |batch| batch.heads[0].task = 1 << 30,
        |batch| batch.heads[0].number = u32::MAX,
        |batch| batch.heads[0].dummy += 1,
        |batch| batch.heads[0].index += 16,
        |batch| batch.tasks[0].stay = u32::MAX,
        |batch| batch.tasks[0].inode += 4,
        |batch| batch.added.reverse(),
        |batch| batch.removed.reverse(),
        |batch| batch.heads.push(Head { task: 0, number: 1, dummy: 1 << 30, index: 1 << 30, is_new: true }),
    ];
    for (number, fault) in faults.iter().enumerate() {
        let mut bent = batch.clone();
        fault(&mut bent);
        assert_eq!(changes.rebuild(&bent), Err(Undecided), "{number}");
        assert_eq!(rebuilt(&memory, &setting, &bent), Err(Undecided), "{number}");
    }
    // Too few entries that stay, or too many.
    for by in [1, u32::MAX] {
        let mut bent = batch.clone();
        let task = bent.tasks.iter_mut().find(|task| task.stay > 1).expect("a task");
        task.stay = task.stay.wrapping_add(by);
        assert_eq!(changes.rebuild(&bent), Err(Undecided));
    }
    assert_eq!(changes.rebuild(&Batch::default()), Ok(Rebuilt::default()));
}
