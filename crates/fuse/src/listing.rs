//! Listings of directories.
//!
//! The kernel's offset says where to go on: 0 is `.`, 1 is `..`, and from 2 on it is the volume's cookie and 2. A cookie stays good
//! whatever comes and goes, so no handle has to remember anything.

use crate::convert::{FOR_EVER, generation, kind};
use crate::errno::{Errno, FuseResult};
use crate::served::Served;
use fuser::{INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use lanefs::{Caller, Code, DirEntry, FileKind, Ino, Volume};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

const OWNER: Caller = Caller::OWNER;
/// Offsets below this one belong to `.` and `..`.
const DOTS: u64 = 2;
/// Entries fetched at a time: about what fits into one answer.
const NAMES: usize = 128;
const ENTRIES: usize = 28;

/// What a listing is written to.
pub(crate) enum Page<'r> {
    /// Names alone.
    Names(&'r mut ReplyDirectory),
    /// Names with attributes; each counts as a lookup.
    Entries(&'r mut ReplyDirectoryPlus),
}

/// Why there are no more entries.
enum Done {
    /// That was all.
    Listed,
    Refused(Errno),
}

impl From<lanefs::Error> for Done {
    fn from(error: lanefs::Error) -> Self {
        Done::Refused(error.into())
    }
}

/// Whether an entry found room.
#[derive(PartialEq, Eq)]
enum Room {
    Enough,
    None,
}

impl Served {
    pub(crate) fn list(
        &self,
        volume: &Volume,
        dir: INodeNo,
        offset: u64,
        page: &mut Page<'_>,
    ) -> FuseResult<()> {
        let dir = self.numbers.ino(dir);
        if offset == 0 && self.put_dots(volume, dir, page, 0)? == Room::None {
            return Ok(());
        }
        if offset < DOTS && self.put_dots(volume, dir, page, 1)? == Room::None {
            return Ok(());
        }
        let mut cookie = offset.saturating_sub(DOTS);
        let mut put_any = offset < DOTS;
        loop {
            match self.put_some(volume, dir, page, &mut cookie) {
                Ok(Room::Enough) => put_any = true,
                Ok(Room::None) => return Ok(()),
                Err(Done::Listed) => {
                    self.accessed(volume, dir);
                    return Ok(());
                }
                // What was put counts, and what is held for it the kernel must come to know. It will ask again from here.
                Err(Done::Refused(_)) if put_any => return Ok(()),
                Err(Done::Refused(errno)) => return Err(errno),
            }
        }
    }

    /// The entries behind `cookie`, which moves on with each.
    fn put_some(
        &self,
        volume: &Volume,
        dir: Ino,
        page: &mut Page<'_>,
        cookie: &mut u64,
    ) -> Result<Room, Done> {
        let most = if matches!(page, Page::Names(_)) { NAMES } else { ENTRIES };
        let entries = volume.readdir(&OWNER, dir, *cookie, most)?;
        if entries.is_empty() {
            return Err(Done::Listed);
        }
        for entry in &entries {
            if self.put(volume, dir, page, entry)? == Room::None {
                return Ok(Room::None);
            }
            *cookie = entry.cookie;
        }
        Ok(Room::Enough)
    }

    /// One of the two entries that every directory has.
    fn put_dots(&self, volume: &Volume, dir: Ino, page: &mut Page<'_>, offset: u64) -> FuseResult<Room> {
        let (name, ino) = match offset {
            0 => (".", dir),
            _ => ("..", volume.lookup(&OWNER, dir, b"..")?.0),
        };
        let full = match page {
            Page::Names(reply) => {
                reply.add(self.numbers.number(ino), offset + 1, kind(FileKind::Directory), name)
            }
            Page::Entries(reply) => {
                // These two are not lookups: the kernel does not count them.
                let attr = volume.getattr(ino)?;
                let number = self.numbers.number(ino);
                let to = self.numbers.attr(&attr);
                reply.add(number, offset + 1, name, &FOR_EVER, &to, generation(&attr))
            }
        };
        Ok(if full { Room::None } else { Room::Enough })
    }

    fn put(&self, volume: &Volume, dir: Ino, page: &mut Page<'_>, entry: &DirEntry) -> Result<Room, Done> {
        let next = entry.cookie.saturating_add(DOTS);
        let shown = OsStr::from_bytes(&entry.name);
        let full = match page {
            Page::Names(reply) => reply.add(self.numbers.number(entry.ino), next, kind(entry.kind), shown),
            Page::Entries(reply) => {
                let attr = match volume.lookup_held(&OWNER, dir, &entry.name) {
                    Ok(attr) => attr,
                    // Removed since it was listed.
                    Err(error) if error.code() == Code::NotFound => return Ok(Room::Enough),
                    Err(error) => return Err(error.into()),
                };
                let number = self.numbers.number(attr.ino);
                let to = self.numbers.attr(&attr);
                let full = reply.add(number, next, shown, &FOR_EVER, &to, generation(&attr));
                if full {
                    volume.release(attr.ino, 1)?;
                }
                full
            }
        };
        Ok(if full { Room::None } else { Room::Enough })
    }
}
