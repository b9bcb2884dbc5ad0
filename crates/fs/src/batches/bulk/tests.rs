//! Batches with an engine that does everything in the plainest way.

use super::*;
use crate::attempt::Core;
use crate::files::inode::Inode;
use crate::names::dir::{self, Dentry, Name};
use crate::running::volume::Volume;
use crate::vocabulary::error::Outcome;
use crate::vocabulary::options::CreateOptions;
use crate::vocabulary::types::{Caller, Ino, RenameMode, XattrMode};
use lanefs_format::dir::{BUCKET_SLOTS, BUCKETS, Slot, entry as e, index as x, small_tag};
use lanefs_format::{BLOCK, BlockKind, Code, DirRoot, INODE_CORE, InodeSize, UNIT};
use lanefs_store::Reader;
use std::collections::BTreeMap;

pub(crate) struct Plain<'v>(pub(crate) &'v Volume);

impl Plain<'_> {
    fn core<T>(&self, work: impl FnOnce(&Core<'_>) -> Outcome<T>) -> Result<T, Undecided> {
        let shared = &self.0.shared;
        work(&Core::new(&shared.state, Reader::exclusive(&shared.state.store, None))).map_err(|_| Undecided)
    }
}

impl DirEngine for Plain<'_> {
    fn begin(&mut self, _: &Frozen<'_>) -> Result<(), Undecided> {
        Ok(())
    }

    fn seek(&mut self, names: &[LookupRequest<'_>]) -> Result<Vec<Lookup>, Undecided> {
        self.core(|core| {
            names
                .iter()
                .map(|sought| {
                    let name = Name::new(core.seed, sought.name);
                    match sought.dir {
                        0 => Ok(Lookup { hash: name.hash, ..Lookup::default() }),
                        ino => dir::look(core, &Inode::directory(core, ino)?, name),
                    }
                })
                .collect()
        })
    }

    fn rebuild(&mut self, batch: &Batch) -> Result<Rebuilt, Undecided> {
        self.core(|core| {
            let mut rebuilt = Rebuilt::default();
            for task in &batch.tasks {
                rebuild(core, batch, task, &mut rebuilt)?;
            }
            Ok(rebuilt)
        })
    }
}

/// Links everything again and makes new indexes, ignoring the old ones.
fn rebuild(core: &Core<'_>, batch: &Batch, task: &Task, rebuilt: &mut Rebuilt) -> Outcome<()> {
    let range = |(first, end): (u32, u32)| first as usize..end as usize;
    let (removed, heads) = (&batch.removed[range(task.removed)], &batch.heads[range(task.heads)]);
    let mut all: Vec<(u32, u64)> =
        batch.added[range(task.added)].iter().map(|added| (added.hash, added.at)).collect();
    let mut after = 0;
    for source in &batch.sources[range(task.sources)] {
        let mut at = match *source {
            Source::Small(leaf) => leaf + 5 * UNIT,
            Source::Region(index) => core.store.block(index, BlockKind::Index)?.get(x::DUMMY),
        };
        for _ in 0..Dentry::at(core, at)?.count() {
            at = Dentry::at(core, at)?.next();
            if removed.binary_search(&at).is_err() {
                all.push((Dentry::at(core, at)?.hash(), at));
            }
        }
        after = Dentry::at(core, at)?.next();
    }
    all.sort_unstable();
    assert_eq!(all.len(), task.stay as usize + (task.added.1 - task.added.0) as usize);
    let mut put = |at: u64, field: usize, value: u64| rebuilt.words.push((at + field as u64, value));
    let cut = |i: usize| {
        let mut at = i * all.len() / heads.len();
        while at > 0 && at < all.len() && all[at - 1].0 == all[at].0 {
            at -= 1;
        }
        at
    };
    let mut before = None;
    for (number, head) in heads.iter().enumerate() {
        let part = &all[cut(number)..cut(number + 1)];
        if let Some(before) = before {
            put(before, e::NEXT.offset, head.dummy);
            put(head.dummy, e::PREVIOUS.offset, before);
        }
        let mut last = head.dummy;
        for (_, at) in part {
            put(last, e::NEXT.offset, *at);
            put(*at, e::PREVIOUS.offset, last);
            last = *at;
        }
        before = Some(last);
        let lowest = if number == 0 { task.lowest } else { part[0].0 };
        rebuilt.heads.push(Built { lowest, count: part.len() as u32 });
        if head.index == 0 {
            let inode = core.store.inode(task.inode / core.store.inode_size().bytes())?;
            let size = if inode.len() == 128 { InodeSize::B128 } else { InodeSize::B256 };
            let mut bytes = vec![0u8; 2 * size.small_entries()];
            for (i, (hash, at)) in part.iter().enumerate() {
                bytes[i] = small_tag(*hash);
                bytes[size.small_entries() + i] = (at % BLOCK / UNIT) as u8;
            }
            for (i, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
                put(task.inode, size.small_tags() + 8 * i, u64::from_le_bytes(*eight));
            }
        } else {
            let mut slots = vec![0u64; x::SLOTS.len];
            for (hash, at) in part {
                let mut bucket = Slot::home(*hash as u16);
                let free = loop {
                    let slots = &mut slots[bucket * BUCKET_SLOTS..(bucket + 1) * BUCKET_SLOTS];
                    if let Some(free) = slots.iter().position(|slot| slot & !Slot::OVERFLOW == 0) {
                        break bucket * BUCKET_SLOTS + free;
                    }
                    slots[0] |= Slot::OVERFLOW;
                    bucket = (bucket + 1) % BUCKETS;
                };
                slots[free] |= Slot::new(*hash, *at).0;
            }
            for (i, slot) in slots.iter().enumerate() {
                put(head.index, x::SLOTS.offset + 8 * i, *slot);
            }
        }
    }
    if let Some(last) = before {
        put(last, e::NEXT.offset, after);
        if after != 0 {
            put(after, e::PREVIOUS.offset, last);
        }
    }
    Ok(())
}

/// The content below a directory: by path, type, mode, links, size, content.
fn tree(volume: &Volume) -> BTreeMap<String, String> {
    let (mut found, mut dirs) = (BTreeMap::new(), vec![(volume.root(), String::new())]);
    while let Some((dir, path)) = dirs.pop() {
        for entry in volume.readdir(&Caller::OWNER, dir, 0, usize::MAX).expect("read") {
            let path = format!("{path}/{}", String::from_utf8_lossy(&entry.name));
            let attr = volume.getattr(entry.ino).expect("attributes");
            let mut content = Vec::new();
            match entry.kind {
                lanefs_format::FileKind::Directory => {
                    dirs.push((entry.ino, path.clone()));
                    assert_eq!(volume.lookup(&Caller::OWNER, entry.ino, b"..").expect("parent").0, dir);
                }
                lanefs_format::FileKind::File => content = volume.read_file(&path).expect("content"),
                _ => {}
            }
            let size = if entry.kind == lanefs_format::FileKind::Directory { 0 } else { attr.size };
            let found_again = volume.resolve_no_follow(&path).expect("found").ino;
            assert_eq!(found_again, entry.ino, "{path}");
            found
                .insert(path, format!("{:?} {:o} {} {} {content:?}", attr.kind, attr.perm, attr.links, size));
        }
    }
    found
}

struct Two {
    one_by_one: Volume,
    together: Volume,
}

impl Two {
    fn new(inode_size: InodeSize) -> Two {
        let make = || {
            let options = CreateOptions { size: 256 << 20, inode_size, ..CreateOptions::default() };
            Volume::create_memory(&options).expect("volume")
        };
        Two { one_by_one: make(), together: make() }
    }

    fn apply(&self, changes: &[Change<'_>]) -> Vec<Code> {
        let one = self.one_by_one.apply(self.one_by_one.root(), changes).expect("applied");
        let mut engine = Plain(&self.together);
        let root = self.together.root();
        let (two, shares) = self.together.apply_with(&mut engine, root, changes).expect("applied");
        let codes: Vec<Code> = two.iter().map(|applied| applied.code).collect();
        for (i, change) in changes.iter().enumerate() {
            assert_eq!(one[i].code, codes[i], "{i}: {change:?}");
            assert_eq!(one[i].ino.is_some(), two[i].ino.is_some(), "{i}: {change:?}");
        }
        assert_eq!(shares.one_by_one, 0, "{shares:?}");
        assert_eq!(tree(&self.one_by_one), tree(&self.together));
        for volume in [&self.one_by_one, &self.together] {
            let report = volume.check(false, &|_, _| ()).expect("checked");
            assert!(report.findings.is_empty(), "{:?}", report.findings);
        }
        let inodes = [&self.one_by_one, &self.together].map(|volume| volume.statfs().expect("statfs").inodes);
        assert_eq!(inodes[0], inodes[1]);
        codes
    }
}

fn create(path: &str) -> Change<'_> {
    Change::Create { path: path.as_bytes(), perm: 0o644, data: path.as_bytes() }
}

fn mkdir(path: &str) -> Change<'_> {
    Change::Mkdir { path: path.as_bytes(), perm: 0o755 }
}

fn unlink(path: &str) -> Change<'_> {
    Change::Unlink { path: path.as_bytes() }
}

fn rmdir(path: &str) -> Change<'_> {
    Change::Rmdir { path: path.as_bytes() }
}

fn rename<'c>(from: &'c str, to: &'c str) -> Change<'c> {
    Change::Rename { from: from.as_bytes(), to: to.as_bytes(), mode: RenameMode::Replace }
}

#[test]
fn what_depends_on_what_in_a_batch_is_settled_in_order() {
    for size in [InodeSize::B128, InodeSize::B256] {
        let two = Two::new(size);
        two.apply(&[
            mkdir("/a"),
            create("/a/x"),
            create("/a/x"),
            unlink("/a/x"),
            unlink("/a/x"),
            create("/a/x"),
        ]);
        two.apply(&[
            rename("/a", "/b"),
            create("/a/y"),
            create("/b/y"),
            rmdir("/b"),
            mkdir("/a"),
            rename("/b/x", "/a/x"),
            unlink("/b/y"),
            rmdir("/b"),
            rename("/a", "/a/inside"),
            Change::MkdirAll { path: b"/a/1/2/3", perm: 0o700 },
            Change::MkdirAll { path: b"/a/x/2", perm: 0o700 },
            rename("/a/1/2", "/a/2"),
            rename("/a/2", "/a/1"),
            rmdir("/a/1"),
            rename("/a/2", "/a/1"),
            unlink("/a/1"),
            rmdir("/a/x"),
            create("/none/file"),
            create("/a/x/file"),
        ]);
        assert_eq!(
            two.apply(&[rmdir("/a/1/3"), rmdir("/a/1"), unlink("/a/x"), rmdir("/a")]),
            [Code::Success; 4]
        );
    }
}

#[test]
fn directories_grow_and_shrink_together() {
    for size in [InodeSize::B128, InodeSize::B256] {
        let two = Two::new(size);
        two.apply(&[mkdir("/d")]);
        let paths: Vec<String> = (0..3000).map(|i| format!("/d/file {i:0width$}", width = i % 40)).collect();
        let mut at = 0;
        for step in [1, 5, 4, 20, 100, 200, 600, 2000] {
            let some: Vec<_> =
                paths[at..(at + step).min(paths.len())].iter().map(|path| create(path)).collect();
            two.apply(&some);
            at += step;
        }
        let at = at.min(paths.len());
        let mut order: Vec<usize> = (0..at).collect();
        order.sort_by_key(|i| i.wrapping_mul(2_654_435_761) % 4093);
        let mut rest = &order[..];
        for step in [1, 10, 700, 1500, 400, 200, 50, 20, 1000] {
            let (now, later) = rest.split_at(step.min(rest.len()));
            two.apply(&now.iter().map(|i| unlink(&paths[*i])).collect::<Vec<_>>());
            rest = later;
        }
        two.apply(&[rmdir("/d")]);
    }
}

#[test]
fn a_directory_that_loses_its_last_regions_one_by_one_is_empty() {
    let two = Two::new(InodeSize::B256);
    two.apply(&[mkdir("/d")]);
    let mut names: Vec<String> = (0..1000).map(|i| format!("/d/{i}")).collect();
    two.apply(&names.iter().map(|name| create(name)).collect::<Vec<_>>());
    let seed = two.together.shared.state.seed;
    names.sort_by_key(|name| lanefs_format::half_md4(seed, &name.as_bytes()[3..]));
    // In the order of their hashes few at a time, so that no batch changes two regions.
    for some in names.chunks(4) {
        let some: Vec<_> = some.iter().map(|name| unlink(name)).collect();
        for volume in [&two.one_by_one, &two.together] {
            let done = volume.apply_with(&mut Plain(volume), volume.root(), &some).expect("applied");
            assert!(done.0.iter().all(|applied| applied.code == Code::Success));
        }
    }
    assert_eq!(two.apply(&[rmdir("/d")]), [Code::Success]);
}

#[test]
fn a_new_directory_may_have_any_number_of_entries() {
    for count in [1, 8, 9, 28, 29, 256, 257, 5000, 60_000] {
        let two = Two::new(InodeSize::B256);
        let names: Vec<String> = (0..count).map(|i| format!("/new/{i}")).collect();
        let mut changes = vec![mkdir("/new")];
        changes.extend(names.iter().map(|name| mkdir(name)));
        two.apply(&changes);
    }
}

#[test]
fn the_first_entries_of_a_directory_may_be_too_long_for_its_leaf() {
    for size in [InodeSize::B128, InodeSize::B256] {
        for (count, width) in [(1, 254), (7, 254), (8, 254), (13, 254), (16, 254), (27, 100), (28, 254)] {
            let two = Two::new(size);
            two.apply(&[mkdir("/old")]);
            let names =
                |dir: &str| -> Vec<String> { (0..count).map(|i| format!("/{dir}/{i:0width$}")).collect() };
            let (old, new) = (names("old"), names("new"));
            let changes = [mkdir("/new")].into_iter().chain(old.iter().chain(&new).map(|name| create(name)));
            two.apply(&changes.collect::<Vec<_>>());
            two.apply(&old.iter().map(|name| unlink(name)).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_directory_with_several_paths_is_one_directory() {
    let two = Two::new(InodeSize::B256);
    two.apply(&[mkdir("/a"), mkdir("/a/b"), create("/a/b/old")]);
    two.apply(&[
        create("/a/b/x"),
        create("/a//b/x"),
        create("a/b/x"),
        create("//a/b/y"),
        unlink("a/b/old"),
        create("/a/b/old"),
        rename("/a/b", "/c"),
        create("/a/b/z"),
        create("/c/x"),
        mkdir("/a/b"),
        create("/a/b/x"),
        create("a//b/x"),
        unlink("/c/x"),
        rmdir("/c"),
        rename("/a/b", "/c"),
        unlink("/c//y"),
        Change::MkdirAll { path: b"a/b//e/f", perm: 0o755 },
        create("/a/b/e/f/x"),
        create("/a//b/e/f/x"),
    ]);
}

#[test]
fn a_chain_is_made_and_unmade_in_one_batch_each() {
    let two = Two::new(InodeSize::B256);
    let path: String = (0..500).map(|i| format!("/{i}")).collect();
    two.apply(&[Change::MkdirAll { path: path.as_bytes(), perm: 0o755 }]);
    let ends: Vec<usize> = path.match_indices('/').map(|(i, _)| i).chain([path.len()]).skip(1).collect();
    two.apply(&ends.iter().rev().map(|end| rmdir(&path[..*end])).collect::<Vec<_>>());
}

#[test]
fn an_engine_that_answers_wrongly_changes_nothing() {
    /// An engine that answers wrongly in one thing.
    struct Wrong<'v>(Plain<'v>, fn(&Batch, &mut Rebuilt));
    impl DirEngine for Wrong<'_> {
        fn begin(&mut self, still: &Frozen<'_>) -> Result<(), Undecided> {
            self.0.begin(still)
        }
        fn seek(&mut self, names: &[LookupRequest<'_>]) -> Result<Vec<Lookup>, Undecided> {
            self.0.seek(names)
        }
        fn rebuild(&mut self, batch: &Batch) -> Result<Rebuilt, Undecided> {
            let mut rebuilt = self.0.rebuild(batch)?;
            self.1(batch, &mut rebuilt);
            Ok(rebuilt)
        }
    }
    let wrong: [fn(&Batch, &mut Rebuilt); 3] = [
        // One entry more than there is.
        |_, rebuilt| rebuilt.heads[0].count += 1,
        // A word of the inode that is not aligned.
        |batch, rebuilt| rebuilt.words.insert(0, (batch.tasks[0].inode + INODE_CORE as u64 + 4, 0)),
        // A word of the inode that is not part of its index.
        |batch, rebuilt| rebuilt.words.insert(0, (batch.tasks[0].inode + INODE_CORE as u64 + 8, 1)),
    ];
    for wrong in wrong {
        let two = Two::new(InodeSize::B256);
        let mut engine = Wrong(Plain(&two.together), wrong);
        let root = two.together.root();
        two.together.apply(root, &[mkdir("/a"), create("/a/b")]).expect("applied");
        let changes = [create("/a/c"), unlink("/a/b")];
        let (answers, shares) = two.together.apply_with(&mut engine, root, &changes).expect("applied");
        assert!(answers.iter().all(|answer| answer.code == Code::Success) && shares.together == 0);
        assert!(two.together.check(false, &|_, _| ()).expect("checked").findings.is_empty());
    }
}

#[test]
fn what_is_not_for_batches_is_made_in_its_place() {
    let two = Two::new(InodeSize::B256);
    for volume in [&two.one_by_one, &two.together] {
        volume.mkdir_all("/d/e", 0o755).expect("made");
        volume.symlink_at(&Caller::OWNER, volume.root(), b"link", b"/d").expect("linked");
    }
    let changes = [
        create("/d/1"),
        create("/link/2"),
        create("/d/2"),
        create("/d/../3"),
        create("/3"),
        Change::Rename { from: b"/d/1", to: b"/3", mode: RenameMode::Exchange },
        create("/d/e/"),
        mkdir("/d/f/"),
        mkdir("/"),
        create(""),
    ];
    let one = two.one_by_one.apply(two.one_by_one.root(), &changes).expect("applied");
    let (other, shares) =
        two.together.apply_with(&mut Plain(&two.together), two.together.root(), &changes).expect("applied");
    assert!(one.iter().map(|a| a.code).eq(other.iter().map(|a| a.code)), "{one:?} {other:?}");
    assert_eq!(tree(&two.one_by_one), tree(&two.together));
    assert!(shares.together > 0 && shares.one_by_one > 0, "{shares:?}");
    let _ = (Ino(0), DirRoot::Empty);
}

#[test]
fn what_inherits_an_access_control_list_is_made_in_its_place() {
    // Owner rwx, user 1001 r-x, group r--, mask rwx, others ---.
    let mut list = vec![2, 0, 0, 0];
    for (tag, perm, id) in
        [(1, 7, u32::MAX), (2, 5, 1001), (4, 4, u32::MAX), (16, 7, u32::MAX), (32, 0, u32::MAX)]
    {
        list.extend([tag, 0, perm, 0]);
        list.extend(id.to_le_bytes());
    }
    let two = Two::new(InodeSize::B256);
    for volume in [&two.one_by_one, &two.together] {
        let dir = volume.mkdir_all("/d", 0o755).expect("made").ino;
        let name = b"system.posix_acl_default";
        volume.setxattr(&Caller::OWNER, dir, name, &list, XattrMode::Set).expect("set");
    }
    let changes = [create("/x"), mkdir("/d/a"), create("/d/a/f"), create("/y")];
    two.one_by_one.apply(two.one_by_one.root(), &changes).expect("applied");
    let (_, shares) =
        two.together.apply_with(&mut Plain(&two.together), two.together.root(), &changes).expect("applied");
    assert!(shares.together > 0 && shares.one_by_one > 0, "{shares:?}");
    let lists = |volume: &Volume| {
        let of = |path: &str, name: &str| {
            let ino = volume.resolve(path).expect("made").ino;
            volume.getxattr(&Caller::OWNER, ino, name.as_bytes()).ok()
        };
        [
            of("/d/a", "system.posix_acl_default"),
            of("/d/a", "system.posix_acl_access"),
            of("/d/a/f", "system.posix_acl_access"),
        ]
    };
    assert_eq!(lists(&two.one_by_one), lists(&two.together));
    assert!(lists(&two.together).iter().all(Option::is_some));
    assert!(two.together.check(false, &|_, _| ()).expect("checked").findings.is_empty());
}
