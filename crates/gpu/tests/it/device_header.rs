//! `include/lanefs_device.h`, the header for kernels of other programs: its constants are those of the
//! declarations, and as C++ on the host it gives the answers of the twins and of the CPU engine, whatever the
//! bytes of a mirror are.

pub mod driver;

use crate::support::{CALLER, gpu, questions};
use driver::{Answers, Driver, Requests, header, header_path};
use lanefs::format::{CHUNK, FileKind, InodeSize};
use lanefs::{Allocate, Code, EngineExt, FileExtent, Ino, ResolveOptions, Volume};
use lanefs_gpu::MirrorOptions;
use lanefs_gpu::testing::device_constants;
use lanefs_gpu::twin::Memory;
use lanefs_gpu::twin::host::{HostCopy, Snapshot, WithCache};
use lanefs_gpu::twin::kernels::lookup::{LookupQuery, PathResult, lookup};
use lanefs_testkit::mutate::{bases, hostile};
use lanefs_testkit::seeded::Seeded;

/// Rounds of loops that the header allows itself: those of a device.
const FUEL: u32 = 1 << 20;

fn query(volume: &Volume, follow: bool) -> LookupQuery {
    let (root, superblock) = (volume.root().0, volume.superblock());
    let (seed, inode_size) = (superblock.seed, superblock.inode_size);
    LookupQuery { root, base: root, seed, inode_size, follow, user: None, fuel: FUEL }
}

fn code(number: u64) -> Code {
    Code::from_number(number as u8).expect("a code")
}

fn result(answers: &mut Answers) -> PathResult {
    let [number, kind, ino] = answers.numbers();
    PathResult { code: code(number), kind: kind as u32, ino }
}

/// Returns the results of the header for paths.
fn by_header(mirror: &[u8], query: &LookupQuery, asked: &[Vec<u8>]) -> Vec<PathResult> {
    let mut requests = Requests::default();
    asked.iter().for_each(|path| requests.lookup(query.base, path, query.follow));
    let mut answers = Driver::shared().ask(mirror, None, &requests);
    let found = asked.iter().map(|_| result(&mut answers)).collect();
    assert!(answers.is_over());
    found
}

/// Compares lookups by the header with those of the twin. On a sound volume also with those of the CPU
/// engine, where the header decides; about damage the engine knows more, by checksums.
fn compare<M: Memory>(
    volume: &Volume,
    mirror: &[u8],
    memory: &M,
    asked: &[Vec<u8>],
    what: &str,
    is_sound: bool,
) {
    for follow in [true, false] {
        let query = query(volume, follow);
        let options = ResolveOptions { follow, ..ResolveOptions::default() };
        let by_engine = volume.resolve_batch(&options, asked).ok().filter(|_| is_sound);
        for (i, found) in by_header(mirror, &query, asked).into_iter().enumerate() {
            let path = asked[i].escape_ascii();
            assert_eq!(found, lookup(memory, &query, &asked[i], &mut Default::default()), "{what}: {path}");
            if let Some(expected) =
                by_engine.as_ref().map(|all| all[i]).filter(|_| found.code != Code::NotResident)
            {
                assert_eq!(
                    (found.code, found.ino),
                    (expected.code, expected.ino.map_or(0, |ino| ino.0)),
                    "{what}: {path}"
                );
            }
        }
    }
}

fn sound(seed: u64, size: InodeSize) -> (Volume, Vec<Vec<u8>>) {
    let volume = Volume::create_memory(&crate::support::options(size)).expect("volume");
    let paths = crate::support::fill(&volume, &mut Seeded::new(seed));
    (volume, paths)
}

#[test]
fn the_constants_are_those_of_the_declarations() {
    let text = header();
    let (before, rest) = text.split_once("// generated\n").expect("the generated part");
    let (_, after) = rest.split_once("// end\n").expect("its end");
    let wanted = format!("{before}// generated\n{}// end\n{after}", device_constants());
    if std::env::var_os("UPDATE_SHADERS").is_some() {
        std::fs::write(header_path(), &wanted).expect("written");
    }
    let what = "UPDATE_SHADERS=1 cargo test -p lanefs-gpu --test it -- device_header::the_constants";
    assert!(text == wanted || std::env::var_os("UPDATE_SHADERS").is_some(), "lanefs_device.h is old: {what}");
}

#[test]
fn lookups_are_those_of_the_twin_and_of_the_cpu_engine() {
    // `make device-header` asks for ten times as many.
    let count = std::env::var("LANEFS_LOOKUPS").map_or(25_000, |count| count.parse().expect("a number"));
    for (seed, size) in [(1, InodeSize::B128), (2, InodeSize::B256)] {
        let (volume, paths) = sound(seed, size);
        let memory = HostCopy::of(&volume).expect("copied");
        let asked = questions(&paths, count, &mut Seeded::new(seed));
        compare(
            &volume,
            &memory.exported(&query(&volume, true), None),
            &memory,
            &asked,
            "by the trees",
            true,
        );
    }
}

#[test]
fn a_lookup_begins_in_directories_only() {
    let volume = Volume::create_memory(&crate::support::options(InodeSize::B256)).expect("volume");
    let dir = volume.mkdir_all("/dir", 0o755).expect("made").ino.0;
    let inside = volume.write_file("/dir/name", b"").expect("written").ino.0;
    // The bytes of the file lie where a directory has its root.
    let files = [104, 120, 160, 5000]
        .map(|len| volume.write_file(format!("/{len}"), vec![0; len]).expect("written").ino.0);
    let memory = HostCopy::of(&volume).expect("copied");
    let mirror = memory.exported(&query(&volume, true), None);
    let mut requests = Requests::default();
    requests.lookup(dir, b"name", true);
    for base in files {
        [&b"name"[..], b".", b"..", b"../dir/name"].iter().for_each(|path| requests.lookup(base, path, true));
        // A path with a slash at its beginning starts at the root.
        requests.lookup(base, b"/dir/name", true);
    }
    requests.lookup(u64::MAX, b"name", true);
    let mut answers = Driver::shared().ask(&mirror, None, &requests);
    assert_eq!(result(&mut answers).ino, inside);
    for base in files {
        for _ in 0..4 {
            assert_eq!(result(&mut answers).code, Code::NotDirectory, "{base}");
        }
        assert_eq!(result(&mut answers).ino, inside);
    }
    assert_eq!(result(&mut answers).code, Code::NotResident);
    assert!(answers.is_over());
}

#[test]
fn lookups_by_the_caches_of_a_device_are_those_of_the_twin() {
    let (volume, paths) = sound(3, InodeSize::B256);
    let asked = questions(&paths, 5000, &mut Seeded::new(3));
    let memory = HostCopy::of(&volume).expect("copied");
    let mirrored = gpu(64).mirror(&volume, &MirrorOptions::default()).expect("mirror");
    mirrored.resolve_batch(&ResolveOptions::default(), &asked).expect("learned");
    let snapshot: Snapshot = mirrored.snapshot().expect("snapshot");
    assert!(snapshot.directories.contents().len() > 10 && snapshot.cache.contents().len() > 100);
    let mirror = memory.exported(&query(&volume, true), Some(&snapshot));
    let cached = WithCache { memory: &memory, snapshot: &snapshot };
    compare(&volume, &mirror, &cached, &asked, "by the caches", true);
    // They are used: without the entries in the trees the same names are found.
    let empty = HostCopy::empty(&volume);
    let mirror = empty.exported(&query(&volume, true), Some(&snapshot));
    let alone = WithCache { memory: &empty, snapshot: &snapshot };
    compare(&volume, &mirror, &alone, &asked, "by the caches alone", true);
    let found = by_header(&mirror, &query(&volume, true), &asked);
    let count = found.iter().filter(|found| found.code == Code::Success).count();
    assert!(count > 20, "the caches have found {count}");
}

/// Files of every kind: in the inode, with extents, with a map of pointers, with holes and unwritten blocks.
fn files(volume: &Volume) -> Vec<(Ino, Vec<u8>)> {
    let mut all = Vec::new();
    for (i, len) in [0, 1, 31, 32, 33, 160, 161, 5000, 300_000].into_iter().enumerate() {
        let content: Vec<u8> = (0..len).map(|at| (at * 7 + at / 250) as u8).collect();
        all.push((volume.write_file(format!("/kind{i}"), &content).expect("written").ino, content));
    }
    for (name, step) in [("/some holes", 3), ("/many holes", 2)] {
        let ino = volume.write_file(name, b"").expect("written").ino;
        for block in (0..(4 - step) * 60_u64).step_by(step as usize) {
            volume.write(&CALLER, ino, block * 4096 * (1 + block % 5 / 4 * 900), b"some").expect("written");
        }
        volume.fallocate(&CALLER, ino, Allocate::Extend, 9 << 20, 3 << 20).expect("allocated");
        all.push((ino, Vec::new()));
    }
    all
}

/// Returns extents, those that continue one another joined.
fn joined(all: impl Iterator<Item = FileExtent>) -> Vec<FileExtent> {
    let mut list: Vec<FileExtent> = Vec::new();
    for one in all {
        match list.last_mut() {
            Some(last)
                if last.offset + last.bytes == one.offset
                    && last.position + last.bytes == one.position
                    && last.unwritten == one.unwritten =>
            {
                last.bytes += one.bytes;
            }
            _ => list.push(one),
        }
    }
    list
}

fn extents(answers: &mut Answers) -> (Code, Vec<FileExtent>) {
    let [end, count] = answers.numbers();
    let list = (0..count).map(|_| {
        let [offset, position, bytes, unwritten] = answers.numbers();
        FileExtent { offset, position, bytes, unwritten: unwritten != 0 }
    });
    (code(end), joined(list))
}

type Entries = Vec<(u64, u64, u64, Vec<u8>)>;

fn entries(answers: &mut Answers) -> (Code, Entries) {
    let mut list = Vec::new();
    loop {
        match answers.number() {
            0 => return (code(answers.number()), list),
            ino => {
                let [cookie, kind] = answers.numbers();
                list.push((ino, cookie, kind, answers.text()));
            }
        }
    }
}

/// Asks for the attributes, the extents and the entries of each inode, and for the first bytes.
fn about(inos: &[u64]) -> Requests {
    let mut requests = Requests::default();
    for ino in inos {
        requests.stat(*ino);
        requests.extents(*ino);
        requests.list(*ino, 0);
        requests.read(*ino, 1, 200);
    }
    requests
}

/// Compares the answers to [`about`] with the CPU engine's, where both decide. Returns the number of inodes
/// about which the header decided.
fn check(volume: &Volume, inos: &[u64], answers: &mut Answers, what: &str) -> usize {
    let mut decided = 0;
    for ino in inos {
        let (attr, node) = (volume.getattr(Ino(*ino)), Ino(*ino));
        let stat: [u64; 14] = answers.numbers();
        if let (0, Ok(attr)) = (stat[0], &attr) {
            let times = [attr.mtime, attr.ctime, attr.atime, attr.btime].map(|time| time.0 as u64);
            let rest = [u64::from(attr.mode()), attr.links.into(), attr.uid.into(), attr.gid.into()];
            let sizes = [*ino, attr.size, attr.blocks, attr.rdev];
            let all = [&sizes[..], &times, &rest, &[attr.generation.into()]].concat();
            assert_eq!(stat[1..], all, "{what}: the attributes of {ino}");
            decided += 1;
        }
        let (end, list) = extents(answers);
        if let (Code::NoSuchRange, Ok(expected)) = (end, volume.extents(node)) {
            assert_eq!(list, joined(expected.into_iter()), "{what}: the extents of {ino}");
        }
        let (end, list) = entries(answers);
        if let (Code::NotFound, Ok(expected)) = (end, volume.readdir(&CALLER, node, 0, usize::MAX)) {
            let expected: Entries =
                expected.into_iter().map(|one| (one.ino.0, one.cookie, one.kind as u64, one.name)).collect();
            assert_eq!(list, expected, "{what}: the entries of {ino}");
        }
        let (count, bytes) = (answers.number() as i64, answers.text());
        let mut expected = [0; 200];
        match (count, volume.read(&CALLER, node, 1, &mut expected)) {
            (0.., Ok(read)) => assert_eq!(bytes, expected[..read], "{what}: the bytes of {ino}"),
            (..0, _) => drop(code(count.unsigned_abs())),
            (_, Err(_)) => {}
        }
    }
    assert!(answers.is_over());
    decided
}

#[test]
fn attributes_extents_entries_and_bytes_are_those_of_the_cpu_engine() {
    for (seed, size) in [(5, InodeSize::B128), (6, InodeSize::B256)] {
        let (volume, paths) = sound(seed, size);
        let files = files(&volume);
        let found = volume.resolve_batch(&ResolveOptions { follow: false, ..Default::default() }, &paths);
        let mut inos: Vec<u64> =
            found.expect("resolved").iter().filter_map(|found| Some(found.ino?.0)).collect();
        inos.extend(files.iter().map(|(ino, _)| ino.0).chain([volume.root().0]));
        inos.sort_unstable();
        inos.dedup();
        let memory = HostCopy::of(&volume).expect("copied");
        let mirror = memory.exported(&query(&volume, true), None);
        let mut answers = Driver::shared().ask(&mirror, None, &about(&inos));
        assert_eq!(check(&volume, &inos, &mut answers, "sound"), inos.len());
        // A listing continues after each cookie, and small files lie in their inodes.
        let (mut requests, mut expected) = (Requests::default(), Vec::new());
        for ino in &inos {
            let Ok(all) = volume.readdir(&CALLER, Ino(*ino), 0, usize::MAX) else { continue };
            for cookie in all.iter().step_by(1 + all.len() / 7).map(|one| one.cookie) {
                requests.list(*ino, cookie);
                expected.push(volume.readdir(&CALLER, Ino(*ino), cookie, usize::MAX).expect("listed").len());
            }
        }
        let kinds: Vec<_> = files.iter().filter(|(_, content)| !content.is_empty()).collect();
        kinds.iter().for_each(|(ino, _)| requests.read(ino.0, 0, 400_000));
        let mut answers = Driver::shared().ask(&mirror, None, &requests);
        for count in expected {
            assert_eq!(entries(&mut answers).1.len(), count);
        }
        for (_, content) in kinds {
            let (count, bytes) = (answers.number() as i64, answers.text());
            let is_inline = content.len() <= size.inline();
            assert_eq!(
                count,
                if is_inline { content.len() as i64 } else { -i64::from(Code::NotResident.number()) }
            );
            assert!(!is_inline || bytes == *content);
        }
    }
}

#[test]
fn a_group_of_any_size_gives_the_answers_of_a_thread() {
    let (volume, paths) = sound(7, InodeSize::B256);
    let files = files(&volume);
    let memory = HostCopy::of(&volume).expect("copied");
    let mirrored = gpu(64).mirror(&volume, &MirrorOptions::default()).expect("mirror");
    let asked = questions(&paths, 250, &mut Seeded::new(7));
    mirrored.resolve_batch(&ResolveOptions::default(), &asked[..100]).expect("learned");
    let snapshot = mirrored.snapshot().expect("snapshot");
    let mirror = memory.exported(&query(&volume, true), Some(&snapshot));
    let mut requests = Requests::default();
    asked
        .iter()
        .filter(|path| path.len() < 2000)
        .for_each(|path| requests.lookup(volume.root().0, path, true));
    let mut lists = 0;
    for path in &paths {
        if let Ok(attr) = volume.metadata(path)
            && attr.kind == FileKind::Directory
            && attr.blocks < 20
        {
            requests.list(attr.ino.0, 0);
            lists += 1;
        }
    }
    files.iter().for_each(|(ino, _)| requests.read(ino.0, 3, 150));
    // Directories, links and no file at all among them.
    let inos: Vec<u64> =
        files.iter().map(|(ino, _)| ino.0).chain(volume.root().0..volume.root().0 + 40).collect();
    inos.iter().for_each(|ino| requests.stat(*ino));
    inos.iter().for_each(|ino| requests.extents(*ino));
    let alone = Driver::shared().output(&mirror, None, 1, &requests);
    assert!(alone.status.success(), "{}", String::from_utf8_lossy(&alone.stderr));
    for lanes in [2, 5] {
        for (rank, mut answers) in
            Driver::shared().ask_group(&mirror, None, lanes, &requests).into_iter().enumerate()
        {
            let mut alone = Answers::of(alone.stdout.clone());
            for path in asked.iter().filter(|path| path.len() < 2000) {
                assert_eq!(result(&mut answers), result(&mut alone), "{}", path.escape_ascii());
            }
            // Of a listing each member has a share.
            for _ in 0..lists {
                let (end, all) = entries(&mut alone);
                let expected: Entries = all.into_iter().skip(rank).step_by(lanes as usize).collect();
                assert_eq!(entries(&mut answers), (end, expected));
            }
            for _ in &files {
                assert_eq!((answers.number(), answers.text()), (alone.number(), alone.text()));
            }
            for ino in &inos {
                let found: [u64; 14] = answers.numbers();
                assert_eq!(found, alone.numbers(), "the attributes of {ino}");
            }
            let mut most = 0;
            for ino in &inos {
                let (code, list) = extents(&mut answers);
                most = most.max(list.len());
                assert_eq!((code, list), extents(&mut alone), "the extents of {ino}");
            }
            assert!(most > 20, "{most} extents of a file");
            assert!(lists > 5 && alone.is_over() && answers.is_over());
        }
    }
}

/// Compares the attributes and the extents that a group finds with those of a thread.
fn same_by_groups(mirror: &[u8], inos: &[u64], what: &str) {
    let mut requests = Requests::default();
    for ino in inos {
        requests.stat(*ino);
        requests.extents(*ino);
    }
    let alone = Driver::shared().output(mirror, None, 1, &requests);
    assert!(alone.status.success(), "{what}: {}", String::from_utf8_lossy(&alone.stderr));
    let group = Driver::shared().output(mirror, None, 3, &requests);
    assert!(group.status.success(), "{what}: {}", String::from_utf8_lossy(&group.stderr));
    let mut members = Answers::of(group.stdout);
    for rank in 0..3 {
        assert!(members.text() == alone.stdout, "{what}: member {rank} of a group");
    }
}

#[test]
fn no_hostile_image_leads_outside_a_mirror() {
    let bases = bases().expect("sound volumes can be made");
    let (mut opened, mut decided) = (0, 0);
    for seed in 0..60 {
        let base = &bases[seed as usize % bases.len()];
        let Ok(volume) = Volume::from_bytes(hostile(base, seed)) else { continue };
        let _ = volume.load_metadata(&|_, _| true);
        let numbers = &mut Seeded::new(seed);
        let asked =
            questions(&[base.paths.clone(), vec![b"/d/no such file".to_vec()]].concat(), 300, numbers);
        let what = format!("{} {seed}", base.name);
        let memory = HostCopy::of(&volume).expect("copied");
        let mirror = memory.exported(&query(&volume, true), None);
        compare(&volume, &mirror, &memory, &asked, &what, false);
        let inos: Vec<u64> = (0..100)
            .map(|i| match i % 4 {
                0 => numbers.below(u64::MAX),
                _ => 8192 + numbers.below(600),
            })
            .collect();
        let mut answers = Driver::shared().ask(&mirror, None, &about(&inos));
        decided += check(&volume, &inos, &mut answers, &what);
        opened += 1;
        if seed % 6 == 0 {
            same_by_groups(&mirror, &inos, &what);
        }
    }
    assert!(
        opened > 25 && decided > 0,
        "only {opened} images could be opened, {decided} inodes had attributes"
    );
}

#[test]
fn no_hostile_head_or_table_leads_outside_a_mirror() {
    let (volume, paths) = sound(9, InodeSize::B256);
    let memory = HostCopy::of(&volume).expect("copied");
    let snapshot = memory.empty_cache(64);
    let sound = memory.exported(&query(&volume, true), Some(&snapshot));
    let numbers = &mut Seeded::new(9);
    let mut requests = about(&[volume.root().0, 9000, 9001, 9002]);
    questions(&paths, 60, numbers).iter().for_each(|path| requests.lookup(volume.root().0, path, true));
    let mut refused = 0;
    for case in 0..50 {
        let mut mirror = sound.clone();
        for _ in 0..=case % 3 {
            let at = 16 + numbers.below(800) as usize / 8 * 8;
            let size = mirror.len() as u64;
            let value = match numbers.below(5) {
                0 => numbers.below(u64::MAX),
                1 => size - numbers.below(5000),
                2 => u64::MAX - numbers.below(5000),
                3 => numbers.below(size) / 16 * 16,
                _ => numbers.below(64),
            };
            mirror[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        if case % 10 == 0 {
            mirror.truncate(numbers.below(3 << 20) as usize);
        }
        let done = Driver::shared().output(&mirror, None, 1, &requests);
        assert!(done.status.success(), "case {case}: {}", String::from_utf8_lossy(&done.stderr));
        refused += usize::from(done.stdout == b"no mirror\n");
    }
    assert!(refused > 5 && refused < 45, "{refused} heads were refused");
}

#[test]
fn mistakes_in_the_header_are_seen() {
    let (volume, paths) = sound(10, InodeSize::B256);
    let memory = HostCopy::of(&volume).expect("copied");
    let query = query(&volume, true);
    let mirror = memory.exported(&query, None);
    let asked = questions(&paths, 12_000, &mut Seeded::new(10));
    let mut requests = Requests::default();
    asked.iter().for_each(|path| requests.lookup(query.base, path, true));
    let mut far = mirror.clone();
    // The copies of all chunks lie after the memory.
    let table = u64::from_le_bytes(far[56..64].try_into().expect("eight bytes")) as usize;
    for chunk in 0..volume.superblock().volume_bytes.div_ceil(CHUNK) as usize {
        far[table + chunk * 8..][..8].copy_from_slice(&(mirror.len() as u64).to_le_bytes());
    }
    assert!(Driver::shared().output(&far, None, 1, &requests).status.success());
    // The compiler takes a quarter of the time without optimisation and sanitizers, and the answers show
    // every mistake but the first: that program reads outside of its memory.
    const CHECKED: &[&str] = &["-O0", "-fsanitize=address", "-fno-sanitize-recover=all"];
    for (right, wrong) in [
        ("&& copy <= view->bytes - L_CHUNK", ""),
        ("if (group.ballot(differs) != 0)", "if (group.ballot(differs) > 1)"),
        ("has_components ? LANEFS_COMPONENT_NOT_FOUND", "!has_components ? LANEFS_COMPONENT_NOT_FOUND"),
        ("rest = outer[--depth];", "rest = outer[depth - 1], depth = 0;"),
        ("(i + 1) * 4, resident) <= hash", "(i + 1) * 4, resident) < hash"),
    ] {
        let text = header();
        assert_eq!(text.matches(right).count(), 1, "{right}");
        let (bytes, options) = if wrong.is_empty() { (&far, CHECKED) } else { (&mirror, &["-O0"][..]) };
        let driver = Driver::with(&text.replace(right, wrong), options);
        let done = driver.output(bytes, None, 1, &requests);
        let mut answers = Answers::of(done.stdout);
        let mut differs =
            |path| result(&mut answers) != lookup(&memory, &query, path, &mut Default::default());
        let is_seen = !done.status.success() || !wrong.is_empty() && asked.iter().any(|path| differs(path));
        assert!(is_seen, "{wrong} for {right} is not seen");
    }
}
