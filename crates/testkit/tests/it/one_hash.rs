//! Directories with more names of one hash than a region index has slots for.

use lanefs::{Caller, Code, DirEntry, Ino, InodeSize, MemoryDevice, RenameMode, ResolveOptions, Volume};
use lanefs_format::dir::{Slot, entry, index};
use lanefs_format::{BLOCK, BlockKind, HashSeed, half_md4};
use lanefs_testkit::mutate::{Editor, MutationBase, bases};
use lanefs_testkit::naive::Naive;
use lanefs_testkit::one_hash::{HASH, SEED, names};
use lanefs_testkit::ops::bulk_name;
use lanefs_testkit::seeded::Seeded;
use lanefs_testkit::volume::options;
use std::collections::BTreeMap;

const OWNER: Caller = Caller::OWNER;
/// Slots of a region index that are used at most.
const SLOTS: usize = 256;

fn volume(inode_size: InodeSize) -> (Volume, Ino) {
    let volume = Volume::create_memory(&options(16 << 20, inode_size)).expect("volume");
    let dir = volume.mkdir(&OWNER, volume.root(), b"d", 0o755).expect("mkdir").ino;
    (volume, dir)
}

/// Names with other hashes: lower and higher ones.
fn neighbours() -> Vec<Vec<u8>> {
    let names: Vec<_> = (0..400).map(bulk_name).collect();
    let seed = HashSeed::from_bytes(SEED);
    let below = names.iter().filter(|name| half_md4(seed, name) < HASH).count();
    assert!(below > 50 && names.len() - below > 50, "{below}");
    names
}

fn listed(volume: &Volume, dir: Ino) -> BTreeMap<Vec<u8>, Ino> {
    let (mut names, mut cookie) = (BTreeMap::new(), 0);
    loop {
        let page: Vec<DirEntry> = volume.readdir(&OWNER, dir, cookie, 100).expect("readdir");
        let Some(last) = page.last() else { return names };
        cookie = last.cookie;
        for entry in page {
            assert!(names.insert(entry.name, entry.ino).is_none(), "a name is listed twice");
        }
    }
}

/// Checks that exactly these names of all are there, by every way to them.
fn verify(volume: &Volume, dir: Ino, there: &BTreeMap<Vec<u8>, Ino>, all: &[Vec<u8>]) {
    let count = there.len();
    assert!(listed(volume, dir) == *there, "the listing of {count} names");
    for name in all {
        let found = volume.lookup(&OWNER, dir, name).map(|(ino, _)| ino).map_err(|error| error.code());
        assert_eq!(found, there.get(name).copied().ok_or(Code::NotFound), "one of {count} names");
    }
    let paths: Vec<Vec<u8>> = all.iter().map(|name| [b"/d/", &name[..]].concat()).collect();
    let answers = volume.resolve_batch(&ResolveOptions::default(), &paths).expect("batch");
    for (name, answer) in all.iter().zip(answers) {
        assert_eq!(answer.code == Code::Success, there.contains_key(name), "in a batch, of {count} names");
    }
    let findings = volume.check(false, &|_, _| {}).expect("check").findings;
    assert!(findings.is_empty(), "{count} names: {findings:?}");
    let bytes = volume.to_bytes().expect("bytes");
    let tree = Naive::open(&&bytes[..]).and_then(|reader| reader.tree());
    let tree = tree.unwrap_or_else(|text| panic!("{count} names, the second reader: {text}"));
    tree.compare(volume).unwrap_or_else(|text| panic!("{count} names, the second reader: {text}"));
}

#[test]
fn the_names_have_one_hash() {
    let names = names();
    let seed = HashSeed::from_bytes(SEED);
    assert!(names.iter().all(|name| name.len() <= 255 && half_md4(seed, name) == HASH));
    assert!(names.len() > SLOTS + 100, "{}", names.len());
    let distinct: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
}

/// The order in which names go.
#[derive(Clone, Copy, Debug)]
enum Order {
    First,
    Last,
    Mixed(u64),
}

fn ordered(count: usize, order: Order) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..count).collect();
    match order {
        Order::First => {}
        Order::Last => numbers.reverse(),
        Order::Mixed(seed) => {
            let random = &mut Seeded::new(seed);
            for i in (1..count).rev() {
                numbers.swap(i, random.below(i as u64 + 1) as usize);
            }
        }
    }
    numbers
}

/// Adds and removes all names, and verifies at the given numbers of names.
fn grow_and_shrink(inode_size: InodeSize, order: Order, neighbours: &[Vec<u8>], late: &[Vec<u8>]) {
    let (volume, dir) = volume(inode_size);
    let names = names();
    let all: Vec<Vec<u8>> = names.iter().chain(neighbours).chain(late).cloned().collect();
    let mut there = BTreeMap::new();
    let add = |there: &mut BTreeMap<Vec<u8>, Ino>, name: &Vec<u8>| {
        there.insert(name.clone(), volume.create_file(&OWNER, dir, name, 0o644).expect("create").ino);
        let again = volume.create_file(&OWNER, dir, name, 0o644).map_err(|error| error.code());
        assert_eq!(again.err(), Some(Code::Exists));
    };
    for name in neighbours {
        add(&mut there, name);
    }
    for (number, name) in names.iter().enumerate() {
        add(&mut there, name);
        if [SLOTS - 1, SLOTS, SLOTS + 1, SLOTS + 50, names.len() - 1].contains(&number) {
            verify(&volume, dir, &there, &all);
        }
    }
    for name in late {
        add(&mut there, name);
    }
    verify(&volume, dir, &there, &all);
    for (gone, number) in ordered(names.len(), order).into_iter().enumerate() {
        let name = &names[number];
        volume.unlink(&OWNER, dir, name).expect("unlink");
        there.remove(name);
        let left = names.len() - 1 - gone;
        if gone == 0 || [SLOTS + 1, SLOTS, SLOTS - 1, 100, 20, 1, 0].contains(&left) {
            verify(&volume, dir, &there, &all);
        }
    }
    for name in neighbours.iter().chain(late) {
        volume.unlink(&OWNER, dir, name).expect("unlink");
    }
    verify(&volume, dir, &BTreeMap::new(), &all);
}

#[test]
fn a_directory_of_one_hash_grows_and_shrinks_in_any_order() {
    grow_and_shrink(InodeSize::B256, Order::First, &[], &[]);
    grow_and_shrink(InodeSize::B128, Order::Last, &[], &[]);
    grow_and_shrink(InodeSize::B256, Order::Mixed(1), &[], &[]);
}

#[test]
fn neighbours_keep_regions_of_their_own() {
    let names = neighbours();
    let (some, others) = names.split_at(200);
    grow_and_shrink(InodeSize::B128, Order::First, &names, &[]);
    grow_and_shrink(InodeSize::B256, Order::Mixed(2), &[], &names);
    grow_and_shrink(InodeSize::B256, Order::Last, some, others);
    // The first other name opens a region on either side.
    let seed = HashSeed::from_bytes(SEED);
    let (below, above): (Vec<_>, Vec<_>) =
        names.iter().cloned().partition(|name| half_md4(seed, name) < HASH);
    grow_and_shrink(InodeSize::B256, Order::Mixed(3), &[], &[below[0].clone(), above[0].clone()]);
    grow_and_shrink(InodeSize::B128, Order::Mixed(4), &[], &[above[0].clone(), below[0].clone()]);
}

#[test]
fn random_changes_keep_the_directory_sound() {
    for seed in 0..4 {
        let random = &mut Seeded::new(seed);
        let (volume, dir) = volume(if seed % 2 == 0 { InodeSize::B128 } else { InodeSize::B256 });
        let names = names();
        let others = neighbours();
        let mut all = names.to_vec();
        all.extend(others.iter().take(60).cloned());
        let mut there: BTreeMap<Vec<u8>, Ino> = BTreeMap::new();
        for name in names.iter().take(SLOTS + 20) {
            there.insert(name.clone(), volume.create_file(&OWNER, dir, name, 0o644).expect("create").ino);
        }
        for step in 0..3000 {
            let (one, other) = (random.pick(&all).clone(), random.pick(&all).clone());
            let has = (there.get(&one).copied(), there.get(&other).copied());
            match (random.below(10), has) {
                (0, (Some(_), Some(_))) => {
                    volume.rename_at(&OWNER, dir, &one, dir, &other, RenameMode::Exchange).expect("exchange");
                    if let (Some(a), Some(b)) = has {
                        there.extend([(one, b), (other, a)]);
                    }
                }
                (1 | 2, (Some(ino), _)) => {
                    volume.rename_at(&OWNER, dir, &one, dir, &other, RenameMode::Replace).expect("rename");
                    if one != other {
                        there.remove(&one);
                        there.insert(other, ino);
                    }
                }
                (_, (Some(_), _)) if there.len() > SLOTS => {
                    volume.unlink(&OWNER, dir, &one).expect("unlink");
                    there.remove(&one);
                }
                (_, (None, _)) => {
                    let made = volume.create_file(&OWNER, dir, &one, 0o644).expect("create").ino;
                    there.insert(one, made);
                }
                _ => {}
            }
            if step % 500 == 499 {
                verify(&volume, dir, &there, &all);
            }
        }
    }
}

/// The image with entries that have no slot.
fn base() -> &'static MutationBase {
    let bases = bases().expect("sound volumes can be made");
    bases.iter().find(|base| base.name == "one-hash").expect("the base")
}

/// The region index block of the base that lacks entries.
fn lacking(editor: &Editor<'_>) -> u64 {
    let blocks = editor.base().metadata.iter().filter(|block| block.kind == BlockKind::Index);
    let mut lacking = blocks.filter(|block| index::UNINDEXED.read(editor.block(block.at)) != Some(0));
    lacking.next().expect("an index without slots for all").at
}

/// The position that the field of an entry holds.
fn link(editor: &Editor<'_>, at: u64, field: lanefs_format::Field<u64>) -> u64 {
    field.read(&editor.block(at & !(BLOCK - 1))[(at % BLOCK) as usize..]).expect("a link")
}

fn set_link(editor: &mut Editor<'_>, at: u64, field: lanefs_format::Field<u64>, to: u64) {
    field.write(&mut editor.edit(at & !(BLOCK - 1))[(at % BLOCK) as usize..], to);
}

fn some_slot(editor: &Editor<'_>, at: u64) -> (usize, u64) {
    let slots =
        (0..index::SLOTS.len).filter_map(|i| Some((i, index::SLOTS.index(i).read(editor.block(at))?)));
    let mut used = slots.filter(|(i, word)| i % 8 != 0 && Slot(*word).position() != 0);
    used.next().expect("a slot")
}

type Plant = fn(&mut Editor<'_>);

const FAULTS: [(&str, &str, Plant); 5] = [
    ("one too many", "index-unindexed", |e| {
        let at = lacking(e);
        let count = index::UNINDEXED.read(e.block(at)).unwrap_or(0);
        index::UNINDEXED.write(e.edit(at), count + 1);
    }),
    ("none", "index-unindexed", |e| {
        let at = lacking(e);
        index::UNINDEXED.write(e.edit(at), 0);
    }),
    ("a free slot", "index-slots", |e| {
        let at = lacking(e);
        let (slot, _) = some_slot(e, at);
        index::SLOTS.index(slot).write(e.edit(at), 0);
    }),
    ("the slot of an entry that should have none", "index-slots", |e| {
        let at = lacking(e);
        let (slot, _) = some_slot(e, at);
        let first = link(e, index::DUMMY.read(e.block(at)).unwrap_or(0), entry::NEXT);
        index::SLOTS.index(slot).write(e.edit(at), Slot::new(HASH, first).0);
    }),
    ("an entry in front that has a slot", "index-slots", |e| {
        // The last of the entries without a slot and the first with one are exchanged.
        let at = lacking(e);
        let mut before = index::DUMMY.read(e.block(at)).unwrap_or(0);
        for _ in 1..index::UNINDEXED.read(e.block(at)).unwrap_or(0) {
            before = link(e, before, entry::NEXT);
        }
        let one = link(e, before, entry::NEXT);
        let other = link(e, one, entry::NEXT);
        let after = link(e, other, entry::NEXT);
        for (from, to) in [(before, other), (other, one), (one, after)] {
            set_link(e, from, entry::NEXT, to);
            set_link(e, to, entry::PREVIOUS, from);
        }
    }),
];

#[test]
fn faults_of_such_regions_are_found_by_both_readers_and_mended() {
    let base = base();
    let before = listed_base(&Volume::from_bytes(base.image.bytes()).expect("the base opens"));
    for (what, invariant, plant) in FAULTS {
        let mut editor = Editor::new(&base.image);
        plant(&mut editor);
        editor.seal();
        let bytes = editor.into_bytes(&mut Seeded::new(0));
        let tree = Naive::open(&&bytes[..]).and_then(|reader| reader.tree());
        assert!(tree.is_err(), "{what}: the second reader sees nothing");
        let volume = Volume::open_device(Box::new(MemoryDevice::new(bytes)), lanefs::Access::Repair);
        let volume = volume.expect("the volume opens");
        let found = volume.check(false, &|_, _| {}).expect("check").findings;
        assert!(found.iter().any(|one| one.invariant == invariant), "{what}: {found:?}");
        let mended = volume.check(true, &|_, _| {}).expect("repair").findings;
        assert!(mended.iter().all(|one| one.repaired), "{what}: {mended:?}");
        let left = volume.check(false, &|_, _| {}).expect("check").findings;
        assert!(left.is_empty(), "{what}: {left:?}");
        assert!(listed_base(&volume) == before, "{what}: other names after the repair");
    }
}

#[test]
fn a_circle_of_entries_without_a_slot_ends_a_lookup() {
    let base = base();
    for circle in 1..=9 {
        let mut editor = Editor::new(&base.image);
        let at = lacking(&editor);
        let first = link(&editor, index::DUMMY.read(editor.block(at)).unwrap_or(0), entry::NEXT);
        let last = (1..circle).fold(first, |at, _| link(&editor, at, entry::NEXT));
        set_link(&mut editor, last, entry::NEXT, first);
        index::UNINDEXED.write(editor.edit(at), u32::MAX);
        editor.seal();
        let bytes = editor.into_bytes(&mut Seeded::new(0));
        let volume = Volume::open_device(Box::new(MemoryDevice::new(bytes)), lanefs::Access::Read);
        let volume = volume.expect("the volume opens");
        let dir = volume.lookup(&OWNER, volume.root(), b"one hash").expect("the directory").0;
        let absent = names().last().expect("a name");
        let found = volume.lookup(&OWNER, dir, absent);
        assert!(matches!(found, Err(lanefs::Error::Damaged { .. })), "{circle} entries: {found:?}");
    }
}

/// All names of the base's directory; each is found.
fn listed_base(volume: &Volume) -> BTreeMap<Vec<u8>, Ino> {
    let dir = volume.lookup(&OWNER, volume.root(), b"one hash").expect("the directory").0;
    let names = listed(volume, dir);
    for (name, ino) in &names {
        assert_eq!(volume.lookup(&OWNER, dir, name).expect("lookup").0, *ino);
    }
    names
}
