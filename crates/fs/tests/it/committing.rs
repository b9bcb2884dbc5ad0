//! Changes while a commit waits for its device.

use lanefs::*;
use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::{Arc, mpsc};
use std::time::Duration;

const SIZE: u64 = 64 << 20;
/// Longest time for which changes may wait here. None of them does.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    /// Flushes wait.
    is_held: bool,
    /// A flush waits.
    is_waiting: bool,
}

/// A device whose flushes can be delayed. Clones are the same device.
#[derive(Clone)]
struct SlowFlush(Arc<(Mutex<State>, Condvar)>);

impl SlowFlush {
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let done = work(&mut self.0.0.lock());
        self.0.1.notify_all();
        done
    }

    fn wait_for_flush(&self) {
        let mut state = self.0.0.lock();
        while !state.is_waiting {
            self.0.1.wait(&mut state);
        }
    }
}

impl Device for SlowFlush {
    fn len(&self) -> u64 {
        SIZE
    }
    fn read_at(&self, at: u64, mut buffer: IoBufMut<'_>) -> io::Result<()> {
        let len = buffer.len();
        self.with(|state| buffer.copy_from(&state.bytes[at as usize..][..len]));
        Ok(())
    }
    fn write_at(&self, at: u64, data: IoBuf<'_>) -> io::Result<()> {
        self.with(|state| data.copy_to(&mut state.bytes[at as usize..][..data.len()]));
        Ok(())
    }
    fn flush(&self) -> io::Result<()> {
        let mut state = self.0.0.lock();
        while state.is_held {
            state.is_waiting = true;
            self.0.1.notify_all();
            self.0.1.wait(&mut state);
        }
        state.is_waiting = false;
        Ok(())
    }
    fn discard(&self, _at: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }
    fn resize(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[test]
fn changes_do_not_wait_for_the_device_of_a_commit() {
    let state = State { bytes: vec![0; SIZE as usize], ..State::default() };
    let device = SlowFlush(Arc::new((Mutex::new(state), Condvar::new())));
    let options = CreateOptions { size: SIZE, ..CreateOptions::default() };
    Volume::create_device(Box::new(device.clone()), &options).expect("create").close().expect("close");
    let options = OpenOptions { commit_every: Duration::from_secs(3600), ..OpenOptions::from(Access::Write) };
    let volume = Volume::open_device(Box::new(device.clone()), options).expect("open");
    let (owner, root) = (&Caller::OWNER, volume.root());
    // Without file data the log is all that the commit flushes.
    volume.create_file(owner, root, b"first", 0o644).expect("create");
    device.with(|state| state.is_held = true);
    let were_quick = std::thread::scope(|scope| {
        let commit = scope.spawn(|| volume.sync());
        device.wait_for_flush();
        let (done, told) = mpsc::channel();
        let volume = &volume;
        scope.spawn(move || {
            volume.create_file(owner, root, b"second", 0o644).expect("create");
            let whole = volume.create_whole(owner, root, b"third", b"content", &SetAttr::default());
            assert!(whole.expect("create").is_some());
            volume.unlink(owner, root, b"first").expect("unlink");
            let _ = done.send(());
        });
        let were_quick = told.recv_timeout(PATIENCE).is_ok();
        device.with(|state| state.is_held = false);
        commit.join().expect("no panic").expect("commit");
        were_quick
    });
    assert!(were_quick, "changes wait until a commit is on the device");
    volume.close().expect("close");
    let volume = Volume::open_device(Box::new(device), Access::Read).expect("open");
    assert_eq!(volume.read_file("/third").expect("there"), b"content");
    assert!(volume.resolve("/first").is_err());
}
