//! Listings of directories.
//!
//! A client's offset says where to continue: 0 is `.`, 1 is `..`, and from 2 on the offset is the volume's
//! cookie plus 2. A cookie stays valid while names are added and removed, so an open directory has no state.

use crate::errno::{Errno, Reply};
use crate::served::Served;
use crate::statistics::Operation;
use crate::versions::OpenVersion;
use crate::versions::{Entry, NodeId};
use lanefs::{Caller, Code, DirEntry, FileKind, Ino};

const OWNER: Caller = Caller::OWNER;
/// Offsets below this one belong to `.` and `..`.
const DOTS: u64 = 2;
/// Entries that one call reads from the volume: about as many as fit into one reply.
const NAMES_PER_CALL: usize = 128;
const ENTRIES_PER_CALL: usize = 28;

/// Tells whether a reply took an entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// The reply has the entry.
    Taken,
    /// The reply is full and did not take the entry.
    Full,
}

/// Reply to which the names of a directory are written.
pub trait NameSink {
    /// Adds a name. The listing continues after it from the offset `next`.
    fn add(&mut self, name: &[u8], next: u64, node: NodeId, kind: FileKind) -> Room;
}

/// Reply to which the names of a directory are written, with attributes. The client gets a reference to each
/// inode but those of `.` and `..`.
pub trait EntrySink {
    /// Adds an entry. The listing continues after it from the offset `next`.
    fn add(&mut self, name: &[u8], next: u64, entry: &Entry) -> Room;
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

impl From<Room> for Offer {
    fn from(room: Room) -> Self {
        match room {
            Room::Taken => Offer::Added,
            Room::Full => Offer::Full,
        }
    }
}

/// A kind of listing: names alone, or with attributes.
trait ListingKind {
    /// Entries that one call reads from the volume.
    const PER_CALL: usize;

    /// Offers `.` or `..`, to which no listing gives a reference.
    fn put_dots(&mut self, at: &Listed<'_, '_>, name: &[u8], next: u64, ino: Ino) -> Reply<Room>;

    /// Offers an entry. One with attributes is held for the client, unless the reply is full.
    fn put(&mut self, at: &Listed<'_, '_>, entry: &DirEntry, next: u64) -> lanefs::Result<Offer>;
}

/// A directory that is listed.
struct Listed<'s, 'v> {
    served: &'s Served,
    volume: &'s OpenVersion<'v>,
    dir: Ino,
}

struct Names<'k, S>(&'k mut S);

impl<S: NameSink> ListingKind for Names<'_, S> {
    const PER_CALL: usize = NAMES_PER_CALL;

    fn put_dots(&mut self, at: &Listed<'_, '_>, name: &[u8], next: u64, ino: Ino) -> Reply<Room> {
        Ok(self.0.add(name, next, at.volume.numbers.node(ino), FileKind::Directory))
    }

    fn put(&mut self, at: &Listed<'_, '_>, entry: &DirEntry, next: u64) -> lanefs::Result<Offer> {
        Ok(self.0.add(&entry.name, next, at.volume.numbers.node(entry.ino), entry.kind).into())
    }
}

struct Entries<'k, S>(&'k mut S);

impl<S: EntrySink> ListingKind for Entries<'_, S> {
    const PER_CALL: usize = ENTRIES_PER_CALL;

    fn put_dots(&mut self, at: &Listed<'_, '_>, name: &[u8], next: u64, ino: Ino) -> Reply<Room> {
        let attr = at.volume.getattr(ino)?;
        Ok(self.0.add(name, next, &at.served.entry(at.volume, attr)))
    }

    fn put(&mut self, at: &Listed<'_, '_>, entry: &DirEntry, next: u64) -> lanefs::Result<Offer> {
        let attr = match at.volume.give_named(at.dir, &entry.name) {
            Ok(attr) => attr,
            // Another thread removed the name meanwhile.
            Err(error) if error.code() == Code::NotFound => return Ok(Offer::Vanished),
            Err(error) => return Err(error),
        };
        let found = at.served.entry(at.volume, attr);
        let room = self.0.add(&entry.name, next, &found);
        if room == Room::Full {
            at.volume.take_back(attr.ino, 1)?;
        } else {
            at.served.note_name(at.volume.numbers.node(at.dir), &entry.name, &found);
        }
        Ok(room.into())
    }
}

impl Served {
    /// Writes names from `offset` on to the reply until it is full.
    ///
    /// # Errors
    /// Those of [`Volume::readdir`](lanefs::Volume::readdir), unless the reply has a name already.
    pub fn list(&self, dir: NodeId, offset: u64, reply: &mut impl NameSink) -> Reply<()> {
        self.with(Operation::Readdir, dir, |volume| {
            let dir = volume.numbers.ino(dir);
            Listed { served: self, volume, dir }.list(offset, &mut Names(reply))
        })
    }

    /// [`list`](Self::list) with attributes.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn list_entries(&self, dir: NodeId, offset: u64, reply: &mut impl EntrySink) -> Reply<()> {
        self.with(Operation::Readdir, dir, |volume| {
            let dir = volume.numbers.ino(dir);
            Listed { served: self, volume, dir }.list(offset, &mut Entries(reply))
        })
    }
}

impl Listed<'_, '_> {
    fn list(&self, offset: u64, reply: &mut impl ListingKind) -> Reply<()> {
        if offset == 0 && reply.put_dots(self, b".", 1, self.dir)? == Room::Full {
            return Ok(());
        }
        if offset < DOTS {
            let (parent, _) = self.volume.lookup(&OWNER, self.dir, b"..")?;
            if reply.put_dots(self, b"..", DOTS, parent)? == Room::Full {
                return Ok(());
            }
        }
        let mut cookie = offset.saturating_sub(DOTS);
        let mut put_any = offset < DOTS;
        loop {
            match self.put_some(reply, &mut cookie, &mut put_any) {
                Ok(Offer::Full) => return Ok(()),
                Ok(_) => {}
                Err(ListEnd::Complete) => {
                    self.served.directory_accessed(self.volume, self.dir);
                    return Ok(());
                }
                // The reply must reach the client with the entries that it has, because they are held for the
                // client, which continues from here.
                Err(ListEnd::Failed(_)) if put_any => return Ok(()),
                Err(ListEnd::Failed(errno)) => return Err(errno),
            }
        }
    }

    /// Adds the entries after `cookie`, which advances with each. Sets `put_any` once the reply has an entry.
    fn put_some<K: ListingKind>(
        &self,
        reply: &mut K,
        cookie: &mut u64,
        put_any: &mut bool,
    ) -> Result<Offer, ListEnd> {
        let entries = self.volume.readdir(&OWNER, self.dir, *cookie, K::PER_CALL)?;
        if entries.is_empty() {
            return Err(ListEnd::Complete);
        }
        for entry in &entries {
            match reply.put(self, entry, entry.cookie.saturating_add(DOTS))? {
                Offer::Full => return Ok(Offer::Full),
                Offer::Added => *put_any = true,
                Offer::Vanished => {}
            }
            *cookie = entry.cookie;
        }
        Ok(Offer::Added)
    }
}
