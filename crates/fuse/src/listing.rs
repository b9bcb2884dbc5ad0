//! Listings of directories.
//!
//! The kernel's offset says where to continue: 0 is `.`, 1 is `..`, and from 2 on the offset is the volume's
//! cookie plus 2. A cookie stays valid while names are added and removed, so a handle has no state.

use crate::convert::{CACHE_TIMEOUT, generation, kind};
use crate::errno::{Errno, FuseResult};
use crate::served::Served;
use crate::versions::OpenVersion;
use fuser::{INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use lanefs::{Caller, Code, DirEntry, FileKind, Ino};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

const OWNER: Caller = Caller::OWNER;
/// Offsets below this one belong to `.` and `..`.
const DOTS: u64 = 2;
/// Entries that one call reads from the volume: about as many as fit into one reply.
const NAMES_PER_CALL: usize = 128;
const ENTRIES_PER_CALL: usize = 28;

/// Reply to which a listing is written.
pub(crate) enum ListReply<'r> {
    /// Names alone.
    Names(&'r mut ReplyDirectory),
    /// Names with attributes; the kernel counts each as a lookup.
    Entries(&'r mut ReplyDirectoryPlus),
}

/// Reason why a listing ends.
enum ListEnd {
    /// All entries are listed.
    Complete,
    Failed(Errno),
}

impl From<lanefs::Error> for ListEnd {
    fn from(error: lanefs::Error) -> Self {
        ListEnd::Failed(error.into())
    }
}

/// Outcome of offering an entry to the reply.
#[derive(PartialEq, Eq)]
enum Offer {
    Added,
    /// The name was removed meanwhile.
    Vanished,
    /// The reply is full and did not take the entry.
    Full,
}

impl Offer {
    fn new(full: bool) -> Self {
        if full { Offer::Full } else { Offer::Added }
    }
}

impl Served {
    /// Writes entries from `offset` on to the reply until it is full.
    pub(crate) fn list(
        &self,
        volume: &OpenVersion<'_>,
        dir: INodeNo,
        offset: u64,
        reply: &mut ListReply<'_>,
    ) -> FuseResult<()> {
        let dir = volume.numbers.ino(dir);
        if offset == 0 && self.put_dots(volume, dir, reply, 0)? == Offer::Full {
            return Ok(());
        }
        if offset < DOTS && self.put_dots(volume, dir, reply, 1)? == Offer::Full {
            return Ok(());
        }
        let mut cookie = offset.saturating_sub(DOTS);
        let mut put_any = offset < DOTS;
        loop {
            match self.put_some(volume, dir, reply, &mut cookie, &mut put_any) {
                Ok(Offer::Full) => return Ok(()),
                Ok(_) => {}
                Err(ListEnd::Complete) => {
                    self.directory_accessed(volume, dir);
                    return Ok(());
                }
                // The reply must reach the kernel with the entries that it has, because they are held for the
                // kernel. The kernel continues from here.
                Err(ListEnd::Failed(_)) if put_any => return Ok(()),
                Err(ListEnd::Failed(errno)) => return Err(errno),
            }
        }
    }

    /// Adds the entries after `cookie`, which advances with each. Sets `put_any` once the reply has an entry.
    fn put_some(
        &self,
        volume: &OpenVersion<'_>,
        dir: Ino,
        reply: &mut ListReply<'_>,
        cookie: &mut u64,
        put_any: &mut bool,
    ) -> Result<Offer, ListEnd> {
        let most = if matches!(reply, ListReply::Names(_)) { NAMES_PER_CALL } else { ENTRIES_PER_CALL };
        let entries = volume.readdir(&OWNER, dir, *cookie, most)?;
        if entries.is_empty() {
            return Err(ListEnd::Complete);
        }
        for entry in &entries {
            match self.put(volume, dir, reply, entry)? {
                Offer::Full => return Ok(Offer::Full),
                Offer::Added => *put_any = true,
                Offer::Vanished => {}
            }
            *cookie = entry.cookie;
        }
        Ok(Offer::Added)
    }

    /// Adds `.` or `..`.
    fn put_dots(
        &self,
        volume: &OpenVersion<'_>,
        dir: Ino,
        reply: &mut ListReply<'_>,
        offset: u64,
    ) -> FuseResult<Offer> {
        let (name, ino) = match offset {
            0 => (".", dir),
            _ => ("..", volume.lookup(&OWNER, dir, b"..")?.0),
        };
        let full = match reply {
            ListReply::Names(reply) => {
                reply.add(volume.numbers.number(ino), offset + 1, kind(FileKind::Directory), name)
            }
            ListReply::Entries(reply) => {
                // The kernel does not count these two as lookups.
                let attr = volume.getattr(ino)?;
                let number = volume.numbers.number(ino);
                let to = volume.numbers.attr(&attr);
                reply.add(number, offset + 1, name, &CACHE_TIMEOUT, &to, generation(&attr))
            }
        };
        Ok(Offer::new(full))
    }

    /// Adds one entry. An entry with attributes is held for the kernel, unless the reply is full.
    fn put(
        &self,
        volume: &OpenVersion<'_>,
        dir: Ino,
        reply: &mut ListReply<'_>,
        entry: &DirEntry,
    ) -> Result<Offer, ListEnd> {
        let next = entry.cookie.saturating_add(DOTS);
        let shown = OsStr::from_bytes(&entry.name);
        let full = match reply {
            ListReply::Names(reply) => {
                reply.add(volume.numbers.number(entry.ino), next, kind(entry.kind), shown)
            }
            ListReply::Entries(reply) => {
                let attr = match volume.give_named(dir, &entry.name) {
                    Ok(attr) => attr,
                    // Another thread removed the name meanwhile.
                    Err(error) if error.code() == Code::NotFound => return Ok(Offer::Vanished),
                    Err(error) => return Err(error.into()),
                };
                let number = volume.numbers.number(attr.ino);
                let to = volume.numbers.attr(&attr);
                let full = reply.add(number, next, shown, &CACHE_TIMEOUT, &to, generation(&attr));
                if full {
                    volume.take_back(attr.ino, 1)?;
                }
                full
            }
        };
        Ok(Offer::new(full))
    }
}
