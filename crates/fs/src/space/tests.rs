//! Chunks of metadata that are freed: what others still know of them, and what is written of them.

use super::of_chunk;
use crate::mounted::hints::Hints;
use crate::running::volume::Volume;
use crate::vocabulary::options::{Access, CreateOptions, OpenOptions};
use crate::vocabulary::types::Caller;
use lanefs_format::{BLOCK, CHUNK, group as f};

const OWNER: Caller = Caller::OWNER;

fn volume(dir: &tempfile::TempDir) -> Volume {
    let path = dir.path().join("volume.lane");
    let options = CreateOptions { size: 64 << 20, ..CreateOptions::default() };
    Volume::create(&path, &options).expect("create").close().expect("close");
    open(dir)
}

fn open(dir: &tempfile::TempDir) -> Volume {
    Volume::open(dir.path().join("volume.lane"), OpenOptions::from(Access::Write)).expect("open")
}

/// Positions of the metadata chunks.
fn chunks(volume: &Volume) -> Vec<u64> {
    let is_metadata = |at: &u64| {
        let found = volume.view(|core| {
            let (group, bit) = of_chunk(core, *at)?;
            Ok(group.get(f::METADATA) & bit != 0)
        });
        found.expect("a group")
    };
    let end = volume.shared.state.store.bytes();
    (0..end / CHUNK).map(|chunk| chunk * CHUNK).filter(is_metadata).collect()
}

#[test]
fn a_hint_to_a_chunk_that_holds_evicted_data_is_dropped() {
    let dir = tempfile::tempdir().expect("a directory");
    let volume = volume(&dir);
    // A whole chunk of data.
    let ino = volume.write_file("/data", vec![7; 3 * CHUNK as usize]).expect("write").ino;
    let extent = volume.extents(ino).expect("extents")[0];
    let chunk = extent.position.next_multiple_of(CHUNK);
    assert!(chunk + CHUNK <= extent.position + extent.bytes, "{extent:?}");
    volume.sync().expect("sync");
    volume.shared.state.store.drop_clean();
    // Another writer had freed the last inode block there, before it became file data.
    volume.shared.state.gate.each(|writer| writer.hints.inode_block = chunk + 9 * BLOCK);
    volume.create_file(&OWNER, volume.root(), b"new", 0o644).expect("create");
}

#[test]
fn a_writer_returns_to_the_inode_that_it_has_freed() {
    let dir = tempfile::tempdir().expect("a directory");
    let volume = volume(&dir);
    let shared = &volume.shared;
    let make = |name: String| volume.write_file(name.as_str(), b"").expect("create").ino;
    let inos: Vec<_> = (0..40).map(|file| make(format!("/{file}"))).collect();
    let forget = || shared.state.gate.each(|writer| writer.hints.inode_block = 0);
    forget();
    volume.unlink(&OWNER, volume.root(), b"5").expect("unlink");
    // A search would begin after the only group, and find nothing.
    shared.state.cursors.inodes.pass(0);
    assert_eq!(make("/new".into()), inos[5]);
    // One that is in use by now is not given again.
    forget();
    shared.state.gate.each(|writer| writer.hints.freed_inode = inos[5].0);
    assert_ne!(make("/newer".into()), inos[5]);
    let report = volume.check(false, &|_, _| {}).expect("check");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[test]
fn a_chunk_that_is_used_again_while_a_commit_frees_it_is_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let volume = volume(&dir);
    let shared = &volume.shared;
    volume.sync().expect("sync");
    let lock = shared.lock_commits();
    let before = chunks(&volume);
    // No writer knows a chunk with room, so the next file gets a new one. Its removal empties that.
    // (The volume has one group.)
    let cursors = &shared.state.cursors;
    cursors.blocks.pass(0);
    cursors.inodes.pass(0);
    shared.state.gate.each(|writer| writer.hints = Hints::default());
    volume.write_file("/a", b"").expect("create");
    let made: Vec<_> = chunks(&volume).into_iter().filter(|chunk| !before.contains(chunk)).collect();
    let [chunk] = made[..] else { panic!("new chunks: {made:?}") };
    shared.state.gate.each(|writer| writer.hints = Hints::default());
    cursors.blocks.go_back_to(0);
    cursors.inodes.go_back_to(0);
    volume.unlink(&OWNER, volume.root(), b"a").expect("unlink");
    let (snapshot, freed) = shared.begin_commit().expect("a snapshot");
    shared.state.store.commit(snapshot).expect("commit");
    // The commit has freed the chunk. It is in use until that is known to be durable, and finds a new user.
    cursors.inodes.pass(0);
    shared.state.gate.each(|writer| writer.hints = Hints { chunk, ..Hints::default() });
    let ino = volume.write_file("/b", b"").expect("create").ino;
    assert_eq!(ino.0 * shared.state.store.inode_size().bytes() / CHUNK * CHUNK, chunk);
    shared.end_commit(&freed).expect("frees");
    drop(lock);
    assert!(chunks(&volume).contains(&chunk));
    volume.close().expect("close");
    let volume = open(&dir);
    let report = volume.check(false, &|_, _| {}).expect("check");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}
