//! The processes that have a file locked by `flock`, as proc_locks(5) lists them.

use rustix::io::Errno;
use rustix::process::Pid;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;

/// Bytes of the list that are asked for at once: the kernel gives a page at most.
const READ_BYTES: usize = 16 << 10;
/// Most looks at the list for two in a row that agree.
const MOST_LOOKS: usize = 20;

/// A `flock` on a file.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Holder {
    /// 0 for a process of another namespace.
    process: u32,
    /// True for a lock that excludes all others.
    alone: bool,
}

impl Holder {
    /// True where the lock cannot be one of LaneFS: it excludes others, which LaneFS asks for only with a
    /// file that is open for writing, and its process may not write the file, or has ended. (Whoever may read
    /// a file can have such a lock, and pass it on to a process that outlives the one in the list.)
    fn is_a_stranger(&self, file: &Metadata) -> bool {
        let may_write = |user: u32| user == 0 || user == file.uid() || file.mode() & 0o022 != 0;
        let Some(process) = Pid::from_raw(self.process as i32) else { return false };
        self.alone
            && match user(self.process) {
                Some(user) => !may_write(user),
                None => rustix::process::test_kill_process(process) == Err(Errno::SRCH),
            }
    }
}

/// The user of a process; `None` where the host does not tell.
fn user(process: u32) -> Option<u32> {
    std::fs::metadata(format!("/proc/{process}")).ok().map(|process| process.uid())
}

/// The error of a file that another process has locked: it names that process where the host tells it.
pub(super) fn in_use(file: &File) -> io::Error {
    let holder = holders(file).and_then(|(file, holders)| {
        let holders = holders.into_iter().filter(|holder| holder.process > 0);
        holders.map(|holder| (holder.is_a_stranger(&file), holder.process)).min()
    });
    let text = match holder.map(|(_, process)| process) {
        None => "in use by another process".into(),
        Some(process) if process == std::process::id() => "in use by this process".into(),
        Some(process) => {
            let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
            let name = name.trim_end().escape_debug();
            let other = user(process).filter(|user| *user != rustix::process::geteuid().as_raw());
            let user = other.map(|user| format!(" of user {user}")).unwrap_or_default();
            format!("in use by another process: process {process} ({name}){user}")
        }
    };
    io::Error::new(io::ErrorKind::WouldBlock, text)
}

/// True where the only `flock` on a file cannot be one of LaneFS.
pub(super) fn is_held_by_a_stranger(file: &File) -> bool {
    holders(file).is_some_and(|(file, holders)| {
        !holders.is_empty() && holders.iter().all(|holder| holder.is_a_stranger(&file))
    })
}

/// The processes with a `flock` on a file that may be those of LaneFS.
pub(super) fn processes(file: &File) -> Vec<u32> {
    let Some((file, holders)) = holders(file) else { return Vec::new() };
    let may_be = holders.into_iter().filter(|holder| holder.process > 0 && !holder.is_a_stranger(&file));
    may_be.map(|holder| holder.process).collect()
}

fn holders(file: &File) -> Option<(Metadata, Vec<Holder>)> {
    let file = file.metadata().ok()?;
    let device = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
    let holders = agreed(|| Some(holders_in(&locks().ok()?, device, file.ino())))?;
    Some((file, holders))
}

/// Looks at the holders of a file that is locked, until two looks in a row see the same, so often at most.
///
/// The kernel lists the locks by position, with none of its own locks held from one read to the next. A lock
/// that any process takes or releases meanwhile moves others: one look may miss one of them, or see it often.
fn agreed<T: PartialEq>(mut look: impl FnMut() -> Option<Vec<T>>) -> Option<Vec<T>> {
    let mut last = look()?;
    for _ in 1..MOST_LOOKS {
        let next = look()?;
        if next == last && !next.is_empty() {
            break;
        }
        last = next;
    }
    Some(last)
}

/// Reads the list in as few reads as there can be.
fn locks() -> io::Result<String> {
    let (mut list, mut part) = (File::open("/proc/locks")?, vec![0; READ_BYTES]);
    let mut locks = Vec::new();
    loop {
        match list.read(&mut part) {
            Ok(0) => return Ok(String::from_utf8_lossy(&locks).into_owned()),
            Ok(bytes) => locks.extend_from_slice(&part[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Finds the processes with a `flock` on a file in the list, each once.
fn holders_in(locks: &str, (major, minor): (u32, u32), inode: u64) -> Vec<Holder> {
    let holder = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        // A process that waits for a lock has an arrow in front.
        fields.next().filter(|kind| *kind == "FLOCK")?;
        let mut fields = fields.skip(1);
        let (mode, id, file) = (fields.next()?, fields.next()?, fields.next()?);
        let mut file = file.split(':');
        let number = |text: Option<&str>| u32::from_str_radix(text?, 16).ok();
        let is_it = number(file.next()) == Some(major)
            && number(file.next()) == Some(minor)
            && file.next().and_then(|text| text.parse().ok()) == Some(inode);
        // A process of another namespace has the number 0 or -1.
        let process = id.parse().unwrap_or(0);
        is_it.then(|| Holder { process, alone: mode == "WRITE" })
    };
    let mut holders: Vec<Holder> = locks.lines().filter_map(holder).collect();
    // A lock may be listed more than once, as `agreed` explains.
    holders.sort_unstable();
    holders.dedup();
    holders
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::FlockOperation;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Ends a thread of a test, also where the test fails.
    struct Over<'a>(&'a AtomicBool);

    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    fn lock(file: &File) {
        rustix::fs::flock(file, FlockOperation::LockExclusive).expect("a lock");
    }

    #[test]
    fn the_holder_is_found_among_other_locks() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 08:02:131090 0 EOF\n\
                     2: FLOCK  ADVISORY  READ 0 08:02:131090 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 12 08:02:131090 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 13 08:02:131091 0 EOF\n\
                     5: FLOCK  ADVISORY  WRITE 14 fd:1f:131090 0 EOF\n\
                     6: FLOCK\n\
                     7: FLOCK  ADVISORY  WRITE 15 08:02:131090 0 EOF\n\
                     8: FLOCK  ADVISORY  READ 16 08:02:131090 0 EOF\n\
                     9: FLOCK  ADVISORY  WRITE 15 08:02:131090 0 EOF\n";
        let holder = |process, alone| Holder { process, alone };
        let found = [holder(0, false), holder(15, true), holder(16, false)];
        assert_eq!(holders_in(locks, (8, 2), 131_090), found);
        assert_eq!(holders_in(locks, (0xfd, 0x1f), 131_090), [Holder { process: 14, alone: true }]);
        assert_eq!(holders_in(locks, (8, 2), 1), []);
    }

    #[test]
    fn one_look_at_the_list_that_missed_a_lock_is_not_believed() {
        let mut looks = [vec![1], vec![], vec![], vec![1], vec![1, 2], vec![1], vec![1], vec![]].into_iter();
        assert_eq!(agreed(|| looks.next()), Some(vec![1]));
        assert_eq!(looks.next(), Some(vec![]));
        let mut number = 0;
        let restless = || {
            number += 1;
            Some(vec![number])
        };
        assert_eq!((agreed(restless), number), (Some(vec![MOST_LOOKS]), MOST_LOOKS), "looks end");
        assert_eq!(
            agreed(|| Some(Vec::<usize>::new())),
            Some(Vec::new()),
            "so they do where nobody holds it"
        );
    }

    #[test]
    fn a_holder_is_found_while_other_locks_come_and_go() {
        let held = tempfile::NamedTempFile::new().expect("a file");
        lock(held.as_file());
        let is_over = AtomicBool::new(false);
        let own = std::process::id();
        let is_over = &is_over;
        let others = |_| {
            // More than a page of the list.
            let files: Vec<_> = (0..100).map(|_| tempfile::tempfile().expect("a file")).collect();
            while !is_over.load(Ordering::Relaxed) {
                files.iter().for_each(lock);
                files.iter().for_each(|file| {
                    rustix::fs::flock(file, FlockOperation::Unlock).expect("no lock");
                });
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..2 {
                scope.spawn(move || others(thread));
            }
            let _over = Over(is_over);
            for look in 0..3000 {
                assert_eq!(processes(held.as_file()), [own], "look {look}");
            }
        });
    }
}
