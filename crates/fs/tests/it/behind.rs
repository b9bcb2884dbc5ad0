//! Large writes of new blocks, which bypass the cache, while the device is slow or fails.

use lanefs::*;
use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::Arc;
use std::time::Duration;

const PIECE: usize = 1 << 20;
const SIZE: u64 = 256 << 20;
/// Size from which on write-behind hands a piece to the device.
const LARGE: usize = 128 << 10;

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    /// Large writes wait.
    is_held: bool,
    fails: bool,
    /// Number of large writes that reached the device.
    came: usize,
}

/// A device whose large writes can be delayed, and can fail. Clones are the same device.
#[derive(Clone)]
struct Slow(Arc<(Mutex<State>, Condvar)>);

impl Slow {
    fn new() -> Self {
        let state = State { bytes: vec![0; SIZE as usize], ..State::default() };
        Slow(Arc::new((Mutex::new(state), Condvar::new())))
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let done = work(&mut self.0.0.lock());
        self.0.1.notify_all();
        done
    }

    fn hold(&self, is_held: bool) {
        self.with(|state| state.is_held = is_held);
    }

    fn came(&self) -> usize {
        self.with(|state| state.came)
    }
}

impl Device for Slow {
    fn len(&self) -> u64 {
        SIZE
    }
    fn read_at(&self, at: u64, mut buffer: IoBufMut<'_>) -> io::Result<()> {
        let len = buffer.len();
        self.with(|state| buffer.copy_from(&state.bytes[at as usize..][..len]));
        Ok(())
    }
    fn write_at(&self, at: u64, data: IoBuf<'_>) -> io::Result<()> {
        let mut state = self.0.0.lock();
        if data.len() >= LARGE {
            state.came += 1;
            self.0.1.notify_all();
            while state.is_held {
                self.0.1.wait(&mut state);
            }
            if state.fails {
                return Err(io::ErrorKind::Other.into());
            }
        }
        data.copy_to(&mut state.bytes[at as usize..][..data.len()]);
        Ok(())
    }
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
    fn discard(&self, _at: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }
    fn resize(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

fn piece(salt: u64) -> Vec<u8> {
    (0..PIECE as u64 / 8).flat_map(|word| (word ^ salt << 32).to_le_bytes()).collect()
}

fn create(volume: &Volume, name: &str) -> Ino {
    let made = volume.create_file(&Caller::OWNER, volume.root(), name.as_bytes(), 0o644);
    made.expect("create").ino
}

fn write(volume: &Volume, ino: Ino, number: u64) {
    let written = volume.write(&Caller::OWNER, ino, number * PIECE as u64, &piece(number));
    assert_eq!(written.expect("write"), PIECE);
}

fn holds(volume: &Volume, ino: Ino, number: u64) -> bool {
    let mut found = vec![0; PIECE];
    let read = volume.read(&Caller::OWNER, ino, number * PIECE as u64, &mut found);
    read.is_ok_and(|count| count == PIECE) && found == piece(number)
}

/// A volume with its background threads running, and its device.
fn volume() -> (Volume, Slow) {
    let device = Slow::new();
    let options = CreateOptions { size: SIZE, ..CreateOptions::default() };
    let volume = Volume::create_device(Box::new(device.clone()), &options).expect("create");
    volume.close().expect("close");
    // Commits happen on request only.
    let options = OpenOptions { commit_every: Duration::from_secs(3600), ..OpenOptions::from(Access::Write) };
    let volume = Volume::open_device(Box::new(device.clone()), options).expect("open");
    let probe = create(&volume, "probe");
    for number in 0..1000 {
        write(&volume, probe, number % 4);
        std::thread::sleep(Duration::from_millis(5));
        if device.came() > 0 {
            return (volume, device);
        }
        let empty = SetAttr { size: Some(0), ..SetAttr::default() };
        volume.setattr(&Caller::OWNER, probe, &empty).expect("truncate");
        volume.sync().expect("sync");
        device.with(|state| state.came = 0);
    }
    panic!("nothing is written behind");
}

fn is_sound(volume: &Volume) {
    let report = volume.check(false, &|_, _| {}).expect("check");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[test]
fn a_large_write_waits_for_no_device_and_who_reads_it_does() {
    let (volume, device) = volume();
    let ino = create(&volume, "file");
    let before = volume.stats().blocks_resident;
    device.hold(true);
    write(&volume, ino, 0);
    assert!(volume.stats().blocks_resident < before + 64, "it is in the cache");
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| holds(&volume, ino, 0));
        let sync = scope.spawn(|| volume.sync());
        std::thread::sleep(Duration::from_millis(50));
        let wait = !reader.is_finished() && !sync.is_finished();
        device.hold(false);
        assert!(wait, "somebody does not wait for the device");
        assert!(reader.join().expect("no panic"), "another content");
        sync.join().expect("no panic").expect("sync");
    });
    is_sound(&volume);
}

#[test]
fn what_finds_no_buffer_goes_through_the_cache() {
    const PIECES: u64 = 40;
    let (volume, device) = volume();
    let ino = create(&volume, "file");
    device.hold(true);
    for number in 0..3 {
        write(&volume, ino, number);
    }
    let before = volume.stats().blocks_resident;
    for number in 3..PIECES / 2 {
        write(&volume, ino, number);
    }
    assert!(volume.stats().blocks_resident > before + 256, "it is not in the cache");
    device.hold(false);
    for number in PIECES / 2..PIECES {
        write(&volume, ino, number);
    }
    assert!((0..PIECES).all(|number| holds(&volume, ino, number)), "another content");
    volume.close().expect("close");
    let volume = Volume::open_device(Box::new(device), Access::Write).expect("open");
    assert!((0..PIECES).all(|number| holds(&volume, ino, number)), "another content");
    is_sound(&volume);
}

#[test]
fn what_is_under_way_can_be_overwritten_cut_off_and_removed() {
    let (volume, device) = volume();
    for round in 0..20u64 {
        let ino = create(&volume, &format!("file-{round}"));
        device.hold(true);
        (0..4).for_each(|number| write(&volume, ino, number));
        std::thread::scope(|scope| {
            let change = scope.spawn(|| {
                let part = volume.write(&Caller::OWNER, ino, 5000, &[7; 9000]).expect("write");
                assert_eq!(part, 9000);
            });
            std::thread::sleep(Duration::from_millis(round % 3));
            device.hold(false);
            change.join().expect("no panic");
        });
        let mut expected = piece(0);
        expected[5000..14_000].fill(7);
        let mut found = vec![0; PIECE];
        volume.read(&Caller::OWNER, ino, 0, &mut found).expect("read");
        assert!(found == expected && holds(&volume, ino, 3), "another content in round {round}");
        device.hold(true);
        (4..8).for_each(|number| write(&volume, ino, number));
        if round % 2 == 0 {
            let shorter = SetAttr { size: Some(5 * PIECE as u64), ..SetAttr::default() };
            volume.setattr(&Caller::OWNER, ino, &shorter).map(drop).expect("truncate");
            device.hold(false);
            assert!(holds(&volume, ino, 4), "another content in round {round}");
        } else {
            let name = format!("file-{round}");
            volume.unlink(&Caller::OWNER, volume.root(), name.as_bytes()).expect("unlink");
            device.hold(false);
            volume.sync().expect("sync");
        }
    }
    is_sound(&volume);
}

#[test]
fn what_the_device_does_not_take_can_be_read_and_the_failure_is_told() {
    let (volume, device) = volume();
    volume.sync().expect("sync");
    let ino = create(&volume, "file");
    device.with(|state| state.fails = true);
    write(&volume, ino, 0);
    assert!(volume.sync().is_err(), "nobody says that the data are lost");
    assert!(holds(&volume, ino, 0), "another content");
    let refused = volume.create_file(&Caller::OWNER, volume.root(), b"more", 0o644);
    assert!(refused.is_err(), "a volume that lost data goes on");
    drop(volume);
    device.with(|state| state.fails = false);
    let volume = Volume::open_device(Box::new(device), Access::Write).expect("open");
    assert!(volume.lookup(&Caller::OWNER, volume.root(), b"file").is_err(), "a file without its data");
    is_sound(&volume);
}
