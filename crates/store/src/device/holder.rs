//! The processes that have a file locked by `flock`, as proc_locks(5) lists them.

use rustix::io::Errno;
use rustix::process::Pid;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;

/// A `flock` on a file.
#[derive(Debug, PartialEq, Eq)]
struct Holder {
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
        holders.into_iter().map(|holder| (holder.is_a_stranger(&file), holder.process)).min()
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
    let may_be = holders.into_iter().filter(|holder| !holder.is_a_stranger(&file));
    may_be.map(|holder| holder.process).collect()
}

fn holders(file: &File) -> Option<(Metadata, Vec<Holder>)> {
    let file = file.metadata().ok()?;
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let device = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
    let holders = holders_in(&locks, device, file.ino());
    Some((file, holders))
}

/// Finds the processes with a `flock` on a file in the list.
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
        let process = id.parse().ok().filter(|id| is_it && *id > 0)?;
        Some(Holder { process, alone: mode == "WRITE" })
    };
    locks.lines().filter_map(holder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_found_among_other_locks() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 08:02:131090 0 EOF\n\
                     2: FLOCK  ADVISORY  READ 0 08:02:131090 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 12 08:02:131090 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 13 08:02:131091 0 EOF\n\
                     5: FLOCK  ADVISORY  WRITE 14 fd:1f:131090 0 EOF\n\
                     6: FLOCK\n\
                     7: FLOCK  ADVISORY  WRITE 15 08:02:131090 0 EOF\n\
                     8: FLOCK  ADVISORY  READ 16 08:02:131090 0 EOF\n";
        let found = [Holder { process: 15, alone: true }, Holder { process: 16, alone: false }];
        assert_eq!(holders_in(locks, (8, 2), 131_090), found);
        assert_eq!(holders_in(locks, (0xfd, 0x1f), 131_090), [Holder { process: 14, alone: true }]);
        assert_eq!(holders_in(locks, (8, 2), 1), []);
    }
}
