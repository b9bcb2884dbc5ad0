//! One file by itself: a large one in pieces, and one that changed since it was found.
//!
//! A file may be larger than the cache, so no single attempt can read it. Each piece is an attempt of its
//! own, and the inode's version shows that all pieces belong to one state of the file: a writer of the
//! content locks the inode.

use super::batch::FileBatch;
use super::contents::Late;
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
use crate::types::{Ino, ResolveOptions};
use crate::writer::Writer;
use lanefs_format::Code;
use lanefs_store::{Closed, Version};

/// Bytes of one attempt at most.
pub(super) const PIECE: usize = 1 << 20;

/// Attempts at a file before changes are stopped while it is read.
const ATTEMPTS: usize = 8;

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
pub(super) fn read_alone(batch: &FileBatch<'_>, file: &mut PlannedFile<'_>) {
    let mut own = Vec::new();
    let done = read(batch, file, &mut own);
    let late = |code, bytes| State::Late(Late { row: file.row, code, bytes });
    file.state = match done {
        Ok(true) => State::Done,
        Ok(false) => late(Code::Success, own),
        Err(error) => late(error.code(), Vec::new()),
    };
}

/// Reads a file into its place, and returns true; or, where its length is another, into `own`.
fn read(batch: &FileBatch<'_>, file: &mut PlannedFile<'_>, own: &mut Vec<u8>) -> Result<bool> {
    let shared = &batch.volume.shared;
    let mut attempt = 0;
    loop {
        // (Blocks are evicted meanwhile, which other readers must see.)
        let closed = (attempt >= ATTEMPTS).then(|| shared.state.gate.close_to_change(&shared.state.store));
        let mode = closed.as_ref().map_or(Mode::Optimistic, Mode::Alone);
        let found = mode.run(shared, |core| find(core, batch, file))?;
        let is_same = found.len == file.out.len() as u64;
        let memory = if is_same { &mut *file.out } else { room(own, found.len)? };
        if read_state(batch, &mode, &found, file.range.offset, memory)? {
            return Ok(is_same);
        }
        attempt += 1;
    }
}

/// Finds a file by its path, or by its number where it has none.
fn find(core: &Core<'_>, batch: &FileBatch<'_>, file: &PlannedFile<'_>) -> Outcome<Found> {
    let ResolveOptions { base, follow, caller: who, .. } = &batch.options.resolve;
    let ino = match file.path {
        None => file.ino,
        Some((path, _)) => {
            let root = batch.volume.root().0;
            let start = Start { root, base: base.map_or(root, |ino| ino.0), follow: *follow, who };
            Ino(resolve::resolve(core, &start, path)?.0)
        }
    };
    let node = ops::regular(core, ino)?;
    access(core, who, &node, READ)?;
    let len = file.range.within(node.size());
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
    batch: &FileBatch<'_>,
    mode: &Mode<'_, '_>,
    found: &Found,
    offset: u64,
    memory: &mut [u8],
) -> Result<bool> {
    let shared = &batch.volume.shared;
    let store = &shared.state.store;
    // A piece takes a small part of the cache, so that it is there as a whole.
    let piece = (store.stats().blocks_allowed as usize * 512).clamp(64 << 10, PIECE);
    for (i, part) in memory.chunks_mut(piece).enumerate() {
        if batch.is_stopped() {
            return Err(Code::Busy.into());
        }
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
