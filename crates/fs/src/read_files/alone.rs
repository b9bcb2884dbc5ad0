//! One file by itself: a large one in pieces, and one that changed since it was found.
//!
//! A file may be larger than the cache, so no single attempt can read it. Each piece is an attempt of its
//! own, and the inode's version shows that all pieces belong to one state of the file: a writer of the
//! content locks the inode.

use super::contents::Late;
use super::options::ByteRange;
use super::planned::{PlannedFile, State};
use crate::attempt::Core;
use crate::by_path::MAX_WHOLE;
use crate::data;
use crate::error::{Error, Outcome, Result};
use crate::inode::Inode;
use crate::ops;
use crate::perm::{READ, access};
use crate::resolve::{self, Start};
use crate::shared::Shared;
use crate::types::{Caller, Ino};
use crate::writer::Writer;
use lanefs_format::Code;
use lanefs_store::{Closed, Version};

/// Bytes of one attempt at most.
pub(super) const PIECE: usize = 1 << 20;

/// Attempts at a file before changes are stopped while it is read.
const ATTEMPTS: usize = 8;

/// A file, by the inode or by the path that the caller gave.
pub(super) enum Target<'t> {
    Inode(Ino),
    Path(&'t Start<'t>, &'t [u8]),
}

/// A state of a file.
struct Found {
    ino: Ino,
    version: Version,
    len: u64,
}

/// The protection of an attempt against changes.
enum Mode<'c, 's> {
    Optimistic,
    /// No change happens meanwhile.
    Alone(&'c Closed<'s, Writer>),
}

/// Reads one file of a batch.
pub(super) fn read_alone(shared: &Shared, who: &Caller, target: &Target<'_>, file: &mut PlannedFile<'_>) {
    let mut own = Vec::new();
    let done = read(shared, who, target, file.range, file.out, &mut own);
    let late = |code, bytes| State::Late(Late { row: file.row, code, bytes });
    file.state = match done {
        Ok(true) => State::Done,
        Ok(false) => late(Code::Success, own),
        Err(error) => late(error.code(), Vec::new()),
    };
}

/// Reads a file into `out`, and returns true; or, where its length is another, into `own`.
fn read(
    shared: &Shared,
    who: &Caller,
    target: &Target<'_>,
    range: ByteRange,
    out: &mut [u8],
    own: &mut Vec<u8>,
) -> Result<bool> {
    let mut attempt = 0;
    loop {
        // (Blocks are evicted meanwhile, which other readers must see.)
        let closed = (attempt >= ATTEMPTS).then(|| shared.state.gate.close_to_change(&shared.state.store));
        let mode = closed.as_ref().map_or(Mode::Optimistic, Mode::Alone);
        let found = mode.run(shared, |core| find(core, who, target, range))?;
        let is_same = found.len == out.len() as u64;
        let memory = if is_same { &mut *out } else { room(own, found.len)? };
        if read_state(shared, &mode, &found, range.offset, memory)? {
            return Ok(is_same);
        }
        attempt += 1;
    }
}

fn find(core: &Core<'_>, who: &Caller, target: &Target<'_>, range: ByteRange) -> Outcome<Found> {
    let ino = match *target {
        Target::Inode(ino) => ino,
        Target::Path(start, path) => Ino(resolve::resolve(core, start, path)?.0),
    };
    let node = ops::regular(core, ino)?;
    access(core, who, &node, READ)?;
    let len = range.within(node.size());
    if len > MAX_WHOLE {
        return Err(Code::FileTooLarge.into());
    }
    Ok(Found { ino, version: core.store.version(&node.view), len })
}

fn room(own: &mut Vec<u8>, len: u64) -> Result<&mut [u8]> {
    own.clear();
    own.try_reserve_exact(len as usize).map_err(|_| Error::Io {
        what: format!("memory for a file of {len} bytes"),
        source: std::io::ErrorKind::OutOfMemory.into(),
    })?;
    own.resize(len as usize, 0);
    Ok(own)
}

/// Reads a file as it was found. Returns false where it has changed since.
fn read_state(
    shared: &Shared,
    mode: &Mode<'_, '_>,
    found: &Found,
    offset: u64,
    memory: &mut [u8],
) -> Result<bool> {
    let store = &shared.state.store;
    // A piece takes a small part of the cache, so that it is there as a whole.
    let piece = (store.stats().blocks_allowed as usize * 512).clamp(64 << 10, PIECE);
    for (i, part) in memory.chunks_mut(piece).enumerate() {
        let at = offset + (i * piece) as u64;
        let is_same = mode.run(shared, |core| {
            let node = Inode::load(core, found.ino.0)?;
            if matches!(mode, Mode::Optimistic) && core.store.version(&node.view) != found.version {
                return Ok(false);
            }
            Ok(data::read(core, node, at, part)? == part.len())
        });
        match is_same {
            Ok(true) => {}
            // The inode is free now.
            Ok(false) | Err(Error::Code(Code::StaleInode)) => return Ok(false),
            Err(error) => return Err(error),
        }
        if let Mode::Alone(_) = mode {
            store.make_room_exclusively();
        }
    }
    Ok(true)
}

impl Mode<'_, '_> {
    fn run<T>(&self, shared: &Shared, operation: impl FnMut(&Core<'_>) -> Outcome<T>) -> Result<T> {
        match self {
            Mode::Optimistic => shared.view(operation),
            Mode::Alone(closed) => shared.view_exclusive(closed, operation),
        }
    }
}
