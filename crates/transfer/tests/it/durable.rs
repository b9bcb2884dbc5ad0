//! Imports into a volume whose device fails: what they count is there after that.

use crate::archives::file;
use crate::common::*;
use lanefs::{Access, CreateOptions, Device, IoBuf, IoBufMut, OpenOptions, Volume};
use lanefs_transfer::*;
use std::fs;
use std::io::{self, Cursor};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const SIZE: u64 = 64 << 20;

/// A sparse file on a host that has room for so many more bytes.
#[derive(Clone)]
struct Sparse {
    bytes: Arc<parking_lot::Mutex<Vec<u8>>>,
    room: Arc<AtomicU64>,
}

impl Device for Sparse {
    fn len(&self) -> u64 {
        SIZE
    }
    fn read_at(&self, at: u64, mut buffer: IoBufMut<'_>) -> io::Result<()> {
        let len = buffer.len();
        buffer.copy_from(&self.bytes.lock()[at as usize..][..len]);
        Ok(())
    }
    fn write_at(&self, at: u64, data: IoBuf<'_>) -> io::Result<()> {
        let mut bytes = self.bytes.lock();
        let target = &mut bytes[at as usize..][..data.len()];
        // Only what was a hole takes room.
        let more = if target.iter().all(|byte| *byte == 0) { data.len() as u64 } else { 0 };
        let taken = self.room.fetch_update(SeqCst, SeqCst, |room| room.checked_sub(more));
        taken.map_err(|_| io::Error::from(io::ErrorKind::StorageFull))?;
        data.copy_to(target);
        Ok(())
    }
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
    fn discard(&self, _at: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }
    fn resize(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }
}

/// Imports into a new volume on a host that becomes full, and returns the report and the volume as it is when
/// there is room again.
fn import(room: u64, import: impl FnOnce(&Volume, &ImportOptions<'_>) -> Report) -> (Report, Volume) {
    on_full_host(room, |volume, commit| import(volume, &ImportOptions { commit, ..ImportOptions::default() }))
}

/// Transfers into a new volume on a host that becomes full, and returns the report and the volume as it is
/// when there is room again.
fn on_full_host<R>(room: u64, transfer: impl FnOnce(&Volume, CommitInterval) -> R) -> (R, Volume) {
    let bytes = Arc::new(parking_lot::Mutex::new(vec![0; SIZE as usize]));
    let device = Sparse { bytes, room: Arc::new(AtomicU64::new(u64::MAX)) };
    let create = CreateOptions { size: SIZE, ..CreateOptions::default() };
    Volume::create_device(Box::new(device.clone()), &create).unwrap().close().unwrap();
    // The volume's own commits are whenever they are.
    let options = OpenOptions { commit_every: Duration::MAX, ..OpenOptions::from(Access::Write) };
    let volume = Volume::open_device(Box::new(device.clone()), options).unwrap();
    device.room.store(room, SeqCst);
    let commit = CommitInterval { names: 100, bytes: 1 << 20, time: Duration::MAX, rest: 0 };
    let report = transfer(&volume, commit);
    drop(volume);
    device.room.store(u64::MAX, SeqCst);
    (report, Volume::open_device(Box::new(device), Access::Write).unwrap())
}

/// The files of the volume, each of which must be whole.
fn whole_files(volume: &Volume) -> u64 {
    assert_sound(volume);
    let temp = tempfile::tempdir().unwrap();
    let back = temp.path().join("back");
    if volume.resolve("/in").is_err() {
        return 0;
    }
    assert_clean(&export_tree(volume, b"/in", &back, &ExportOptions::default(), control()).unwrap());
    let mut count = 0;
    for dir in fs::read_dir(&back).unwrap() {
        for file in fs::read_dir(dir.unwrap().path()).unwrap() {
            assert_eq!(fs::read(file.unwrap().path()).unwrap(), noise(4000));
            count += 1;
        }
    }
    count
}

#[track_caller]
fn assert_counted(report: &Report, volume: &Volume, most: u64) {
    let text = report.stopped.as_ref().expect("the host is full").to_string();
    assert_eq!(report.exit_code(), EXIT_STOPPED, "{text}");
    assert_eq!(whole_files(volume), report.counts.files, "{text}");
    assert!((1..most).contains(&report.counts.files), "{:?}", report.counts);
    assert!((1..most).contains(&(report.counts.files + report.lost.files)), "{:?}", report.lost);
}

#[test]
fn a_tree_counts_what_a_reopened_volume_has() {
    let temp = tempfile::tempdir().unwrap();
    let source = temp.path().join("source");
    for dir in 0..30 {
        let dir = source.join(format!("dir-{dir}"));
        fs::create_dir_all(&dir).unwrap();
        (0..50).for_each(|i| fs::write(dir.join(format!("file-{i}")), noise(4000)).unwrap());
    }
    let from = |source: &Path, room| {
        import(room, |volume, options| import_tree(volume, source, b"/in", options, control()).unwrap())
    };
    for room in [3 << 20, 4 << 20, 5 << 20] {
        let (report, volume) = from(&source, room);
        assert_counted(&report, &volume, 1500);
    }
    let (report, volume) = from(&source, 60 << 20);
    assert_clean(&report);
    assert_eq!((whole_files(&volume), report.lost), (1500, Counts::default()));
}

#[test]
fn an_archive_counts_what_a_reopened_volume_has() {
    let member = |i: u64| file(format!("dir-{}/file-{i}", i / 50).as_bytes(), &noise(4000));
    let bytes: Vec<u8> = (0..1500).flat_map(member).chain([0; 1024]).collect();
    for room in [3 << 20, 4 << 20, 5 << 20] {
        let source = ArchiveSource::StandardInput(Box::new(Cursor::new(bytes.clone())));
        let (report, volume) = import(room, |volume, options| {
            import_archive(volume, source, b"/in", options, control()).unwrap()
        });
        assert_counted(&report, &volume, 1500);
    }
}

#[test]
fn a_sync_counts_the_differences_that_a_reopened_volume_has() {
    let temp = tempfile::tempdir().unwrap();
    let source = temp.path().join("source");
    for dir in 0..30 {
        let dir = source.join(format!("dir-{dir}"));
        fs::create_dir_all(&dir).unwrap();
        (0..50).for_each(|i| fs::write(dir.join(format!("file-{i}")), noise(4000)).unwrap());
    }
    for (room, is_full) in [(3 << 20, true), (4 << 20, true), (60 << 20, false)] {
        let (SyncReport { report, counts, .. }, volume) = on_full_host(room, |volume, commit| {
            let options = SyncOptions { commit, threads: Some(1), ..SyncOptions::default() };
            sync_tree(volume, Side::Host(&source), b"/in", &options, &|_| {}, control()).unwrap()
        });
        let files = whole_files(&volume);
        assert_eq!((files, report.stopped.is_some()), (report.counts.files, is_full));
        // A directory is counted when all in it is done.
        assert!((files..=files + 31).contains(&counts.added), "{counts:?}, {files} files");
        assert_eq!(counts.added == 1531, !is_full, "{counts:?}");
    }
}
