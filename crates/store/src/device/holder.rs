//! The process that has a file locked.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

/// The error of a file that another process has locked: it names that process where the host tells it.
pub(super) fn in_use(file: &File) -> io::Error {
    let holder = file.metadata().ok().and_then(|meta| {
        let locks = std::fs::read_to_string("/proc/locks").ok()?;
        let device = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
        holder(&locks, device, meta.ino())
    });
    let text = match holder {
        None => "in use by another process".into(),
        Some(id) if id == std::process::id() => "in use by this process".into(),
        Some(id) => {
            let name = std::fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
            format!("in use by another process: process {id} ({})", name.trim_end().escape_debug())
        }
    };
    io::Error::new(io::ErrorKind::WouldBlock, text)
}

/// Finds the process with a `flock` on a file in the list that proc_locks(5) describes.
fn holder(locks: &str, (major, minor): (u32, u32), inode: u64) -> Option<u32> {
    locks.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        // A process that waits for a lock has an arrow in front.
        fields.next().filter(|kind| *kind == "FLOCK")?;
        let mut fields = fields.skip(2);
        let (id, file) = (fields.next()?, fields.next()?);
        let mut file = file.split(':');
        let number = |text: Option<&str>| u32::from_str_radix(text?, 16).ok();
        let is_it = number(file.next()) == Some(major)
            && number(file.next()) == Some(minor)
            && file.next().and_then(|text| text.parse().ok()) == Some(inode);
        // A process of another namespace has the number 0 or -1.
        id.parse().ok().filter(|id| is_it && *id > 0)
    })
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
                     7: FLOCK  ADVISORY  WRITE 15 08:02:131090 0 EOF\n";
        assert_eq!(holder(locks, (8, 2), 131_090), Some(15));
        assert_eq!(holder(locks, (0xfd, 0x1f), 131_090), Some(14));
        assert_eq!(holder(locks, (8, 2), 1), None);
    }
}
