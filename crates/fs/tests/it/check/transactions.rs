//! Transactions of several changes by path, cut off at any write to the device.

use crate::check::fixture::options;
use crate::check::image::Overlay;
use lanefs::*;
use std::sync::Arc;

/// The names and contents below the root directory.
fn content(volume: &Volume) -> Vec<(String, Vec<u8>)> {
    let (mut all, mut dirs) = (Vec::new(), vec![String::new()]);
    while let Some(dir) = dirs.pop() {
        for entry in volume.read_dir(format!("{dir}/")).expect("list") {
            let entry = entry.expect("an entry");
            let path = format!("{dir}/{}", String::from_utf8(entry.name).expect("text"));
            if entry.kind == FileKind::Directory {
                dirs.push(path.clone());
                all.push((path, Vec::new()));
            } else {
                let bytes = volume.read_file(&path).expect("content");
                all.push((path, bytes));
            }
        }
    }
    all.sort();
    all
}

#[test]
fn a_transaction_that_is_cut_off_at_any_write_has_happened_or_has_not() {
    let device = Overlay::new(&Arc::new(vec![0; 16 << 20]));
    let created = Volume::create_device(Box::new(device.clone()), &options(16 << 20, InodeSize::B256));
    let volume = created.expect("create");
    let (old, new) = (vec![1; 20_000], vec![2; 30_000]);
    volume.mkdir_all("/d/e", 0o755).expect("mkdir");
    for path in ["/a", "/b", "/d/c"] {
        volume.write_file(path, &old).expect("write");
    }
    volume.sync().expect("sync");
    let (before, tree_before) = (device.copy(), content(&volume));
    device.take_writes();
    let mut transaction = volume.transaction();
    transaction.write_file("/a", &new).remove_file("/b").rename("/d/c", "/b").write_file("/new", b"small");
    transaction.create_dir_all("/x/y").write_file("/x/y/z", &new).rename("/x/y", "/d/y").remove_dir("/x");
    transaction
        .hard_link("/a", "/d/e/a")
        .set_attributes("/a", SetAttr { size: Some(25_000), ..SetAttr::default() });
    transaction.commit().expect("committed");
    volume.sync().expect("sync");
    let tree_after = content(&volume);
    let (mut had, mut had_not) = (0, 0);
    for_each_cut(&before, &device.take_writes(), |volume, cut| {
        let tree = content(volume);
        assert!(tree == tree_before || tree == tree_after, "{cut}");
        *(if tree == tree_after { &mut had } else { &mut had_not }) += 1;
    });
    assert!(had > 0 && had_not > 0, "{had} had happened, {had_not} had not");
}

/// Opens the volume that each prefix of these writes leaves, and checks it.
fn for_each_cut(before: &Overlay, writes: &[(u64, Vec<u8>)], mut found: impl FnMut(&Volume, &str)) {
    for end in 0..=writes.len() {
        let device = before.copy();
        for (at, bytes) in &writes[..end] {
            Device::write_slice(&device, *at, bytes).expect("inside");
        }
        let cut = format!("{end} of {} writes", writes.len());
        let opened = Volume::open_device(Box::new(device), Access::Write);
        let volume = opened.unwrap_or_else(|error| panic!("{cut}: {error}"));
        let report = volume.check(false, &|_, _| {}).expect("check");
        assert!(report.findings.is_empty(), "{cut}: {:?}", report.findings);
        found(&volume, &cut);
    }
}

/// The journal of this volume takes 64 blocks, so a commit of the whole chain would not be atomic.
#[test]
fn a_chain_of_directories_that_outgrows_the_journal_is_made_from_the_top() {
    let device = Overlay::new(&Arc::new(vec![0; 16 << 20]));
    let created = Volume::create_device(Box::new(device.clone()), &options(16 << 20, InodeSize::B256));
    let volume = created.expect("create");
    volume.sync().expect("sync");
    let chain = "/d".repeat(300);
    let mut transaction = volume.transaction();
    transaction.create_dir_all(&chain);
    let refused = transaction.commit();
    assert_eq!(refused.map_err(|error| error.code()), Err(Code::FileTooLarge));
    assert!(!volume.exists("/d").expect("looked up"), "a refused transaction has changed nothing");
    volume.sync().expect("sync");
    let before = device.copy();
    device.take_writes();
    volume.mkdir_all(&chain, 0o755).expect("made in parts");
    volume.sync().expect("sync");
    let mut depths = std::collections::BTreeSet::new();
    for_each_cut(&before, &device.take_writes(), |volume, _| {
        let is_there = |depth: &usize| volume.exists(&chain[..2 * depth]).expect("looked up");
        depths.insert((1..=300).take_while(is_there).count());
    });
    assert!(depths.contains(&0) && depths.contains(&300) && depths.len() > 2, "{depths:?}");
    // As a change of a batch.
    let base = volume.create_dir("/base").expect("made").ino;
    let path = chain.as_bytes()[1..].to_vec();
    let made = volume.apply(base, &[bulk::Change::MkdirAll { path: &path, perm: 0o700 }]).expect("applied");
    assert_eq!(made[0].code, Code::Success);
    assert_eq!(volume.metadata(format!("/base{chain}")).expect("there").ino, made[0].ino.expect("made"));
}
