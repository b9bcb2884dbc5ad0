//! Direct writes, also asynchronous ones, beside reads from the kernel's cache: once a write has ended, every
//! reader sees it.
//!
//! The tests need /dev/fuse and root.

use lanefs::{Caller, Changed, CreateOptions, Ino, SetAttr, Volume};
use lanefs_fuse::Mount;
use parking_lot::Mutex;
use rustix::fs::{Advice, OFlags};
use rustix::process::Uid;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;

const OWNER: Caller = Caller::OWNER;
/// A user without privileges.
const USER: u32 = 1001;
const BLOCK: usize = 4096;

/// A queue of the kernel for asynchronous I/O, `io_setup(2)`.
struct Queue(libc::c_ulong);

/// `struct iocb` of `linux/aio_abi.h`, for a little-endian or big-endian machine alike: KEY and RW_FLAGS,
/// the order of which depends on that, are 0.
#[repr(C)]
#[derive(Default)]
struct Iocb {
    data: u64,
    key_and_flags: u64,
    opcode: u16,
    priority: i16,
    descriptor: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_descriptor: u32,
}

/// `struct io_event` of `linux/aio_abi.h`.
#[repr(C)]
#[derive(Default)]
struct IoEvent {
    data: u64,
    request: u64,
    result: i64,
    result2: i64,
}

/// `IOCB_CMD_PWRITE`.
const WRITE: u16 = 1;

impl Queue {
    fn new() -> Self {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes the context, which lives.
        let done = unsafe { libc::syscall(libc::SYS_io_setup, 1, &raw mut context) };
        assert_eq!(done, 0, "io_setup: {}", io::Error::last_os_error());
        Queue(context)
    }

    /// Submits a write, waits for its end, and returns its result.
    fn write(&self, file: &File, data: &[u8], offset: u64) -> i64 {
        let mut request = Iocb {
            opcode: WRITE,
            descriptor: file.as_raw_fd() as u32,
            buffer: data.as_ptr() as u64,
            bytes: data.len() as u64,
            offset: offset as i64,
            ..Iocb::default()
        };
        let mut requests = [&raw mut request];
        // SAFETY: the kernel copies the request and the pointer to it. It reads `data` until the request has
        // ended, and this function returns only then.
        let submitted = unsafe { libc::syscall(libc::SYS_io_submit, self.0, 1, requests.as_mut_ptr()) };
        assert_eq!(submitted, 1, "io_submit: {}", io::Error::last_os_error());
        let mut event = IoEvent::default();
        loop {
            let none = std::ptr::null_mut::<libc::timespec>();
            // SAFETY: the kernel writes one event, for which there is room.
            let ended = unsafe { libc::syscall(libc::SYS_io_getevents, self.0, 1, 1, &raw mut event, none) };
            match ended {
                1 => return event.result,
                _ => assert_eq!(io::Error::last_os_error().kind(), io::ErrorKind::Interrupted),
            }
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the queue is this value's, and no request is in it.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

/// A mount of a volume in memory with one file, `f`, of these bytes. It belongs to [`USER`].
struct Mounted {
    mount: Mount,
    dir: tempfile::TempDir,
}

impl Mounted {
    /// Calls `prepare` with the volume and the file before the volume is mounted.
    fn new(content: &[u8], prepare: impl FnOnce(&Volume, Ino)) -> Self {
        let volume =
            Volume::create_memory(&CreateOptions { size: 64 << 20, ..CreateOptions::default() }).unwrap();
        volume.write_file("/f", content).unwrap();
        let (ino, _) = volume.lookup(&OWNER, volume.root(), b"f").unwrap();
        let set = SetAttr { uid: Some(USER), ..SetAttr::default() };
        volume.setattr(&OWNER, ino, &set).unwrap();
        prepare(&volume, ino);
        let dir = tempfile::tempdir().unwrap();
        let mount = Mount::start(volume, dir.path(), &crate::mount_options())
            .unwrap_or_else(|error| panic!("this test needs root and /dev/fuse: {error}"));
        Mounted { mount, dir }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("f")
    }

    fn open_direct(&self) -> File {
        let flags = OFlags::DIRECT.bits() as i32;
        OpenOptions::new().read(true).write(true).custom_flags(flags).open(self.path()).unwrap()
    }
}

/// A read that is answered before an asynchronous direct write, and ends after the kernel has emptied its
/// cache for that write, leaves an old page in the cache. It must not stay there.
///
/// The order of events is forced. The file gets the set-user-id bit without the knowledge of the kernel.
/// The write is by a user without privileges, so the server first removes the bit, and the volume's listener
/// holds it there until the read has ended.
#[test]
fn a_page_that_is_read_before_an_asynchronous_write_goes_with_it() {
    let (arrived, writing) = channel();
    let (go, gone) = channel::<()>();
    let gone = Mutex::new(gone);
    let change = AtomicUsize::new(0);
    let m = Mounted::new(&[b'a'; 2 * BLOCK], |volume, ino| {
        volume.on_change(move |volume, changed| {
            if changed != Changed::Inode(ino) {
                return;
            }
            match change.fetch_add(1, Ordering::Relaxed) {
                // The change of mode through the mount.
                0 => {
                    let set = SetAttr { perm: Some(0o4777), ..SetAttr::default() };
                    volume.setattr(&OWNER, ino, &set).unwrap();
                }
                // This function's own change.
                1 => {}
                // The removal of the bit.
                2 => {
                    arrived.send(()).unwrap();
                    gone.lock().recv().unwrap();
                }
                _ => {}
            }
        });
    });
    std::fs::set_permissions(m.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let (direct, cached) = (m.open_direct(), File::open(m.path()).unwrap());
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let user = Uid::from_raw(USER);
            rustix::thread::set_thread_res_uid(user, user, user).expect("this test needs root");
            Queue::new().write(&direct, &[b'b'; BLOCK], 0)
        });
        writing.recv().unwrap();
        let mut byte = [0];
        cached.read_exact_at(&mut byte, 0).unwrap();
        assert_eq!(byte, *b"a", "the write is held before it changes the file");
        go.send(()).unwrap();
        assert_eq!(writer.join().unwrap(), BLOCK as i64);
    });
    let mut bytes = [0; 2 * BLOCK];
    cached.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!((bytes[0], bytes[BLOCK - 1], bytes[BLOCK]), (b'b', b'b', b'a'));
    drop((direct, cached));
    m.mount.stop().unwrap();
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// As above, in any order that happens: readers with readahead, and with pages that the kernel has just
/// dropped, beside writes each of which is verified when it has ended.
#[test]
fn readers_beside_asynchronous_writes_never_bring_old_bytes_back() {
    const ROUNDS: usize = 300;
    const LEN: usize = 16 * BLOCK;
    let m = Mounted::new(&[0; LEN], |_, _| ());
    let (direct, cached) = (m.open_direct(), File::open(m.path()).unwrap());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let (file, mut bytes) = (File::open(m.path()).unwrap(), vec![0; LEN]);
                while !done.load(Ordering::Relaxed) {
                    file.read_exact_at(&mut bytes, 0).unwrap();
                    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
                }
            });
        }
        // Ends the readers also where this thread panics.
        let _end = SetOnDrop(&done);
        let (queue, mut stale) = (Queue::new(), Vec::new());
        for round in 1..=ROUNDS {
            let data = vec![(round % 251) as u8; LEN];
            assert_eq!(queue.write(&direct, &data, 0), LEN as i64);
            let mut bytes = vec![0; LEN];
            cached.read_exact_at(&mut bytes, 0).unwrap();
            if bytes != data {
                stale.push(round);
            }
        }
        assert!(stale.is_empty(), "old bytes after the writes {stale:?}");
    });
    drop((direct, cached));
    m.mount.stop().unwrap();
}
