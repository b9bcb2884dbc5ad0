//! Reads of more bytes than one attempt can have in the cache.
//!
//! Each piece is an attempt of its own. The inode's version shows that all pieces belong to one state of the
//! file, because a writer of the content locks the inode.

use crate::attempt::Core;
use crate::files::data;
use crate::files::inode::Inode;
use crate::mounted::shared::Shared;
use crate::mounted::writer::Writer;
use crate::vocabulary::error::{Error, Outcome, Result};
use crate::vocabulary::types::Ino;
use lanefs_format::{BLOCK, Code};
use lanefs_store::{Closed, Store, Version};

/// Bytes of one piece at most.
pub(crate) const PIECE_BYTES: usize = 1 << 20;

/// Largest file that is taken into memory as a whole, in bytes.
pub(crate) const MAX_WHOLE_BYTES: u64 = 4 << 30;

/// Attempts at a file before changes are stopped while it is read.
const ATTEMPTS: usize = 8;

/// The content of a file at one moment.
pub(crate) struct FileState {
    ino: Ino,
    version: Version,
}

/// The protection of an attempt against changes.
pub(crate) enum Mode<'c, 's> {
    Optimistic,
    /// No change happens meanwhile.
    Alone(&'c Closed<'s, Writer>),
}

/// Returns the most bytes that one attempt reads: an eighth of the cache, so that they are there together.
pub(crate) fn most_at_once(store: &Store) -> usize {
    if store.is_memory() {
        return usize::MAX;
    }
    (store.stats().blocks_allowed.saturating_mul(BLOCK / 8) as usize).max(64 << 10)
}

/// Calls `attempt` until it has a result: at first beside changes, and with the gate closed where they come
/// again and again.
pub(crate) fn in_one_state<T, E>(
    shared: &Shared,
    mut attempt: impl FnMut(&Mode<'_, '_>) -> std::result::Result<Option<T>, E>,
) -> std::result::Result<T, E> {
    for _ in 0..ATTEMPTS {
        if let Some(result) = attempt(&Mode::Optimistic)? {
            return Ok(result);
        }
    }
    // (Blocks are evicted meanwhile, which other readers must see.)
    let closed = shared.state.gate.close_to_change(&shared.state.store);
    loop {
        if let Some(result) = attempt(&Mode::Alone(&closed))? {
            return Ok(result);
        }
    }
}

/// Reads from `offset` on, inside the file. Returns false where the file has another state now.
pub(crate) fn read_state(
    shared: &Shared,
    mode: &Mode<'_, '_>,
    state: &FileState,
    offset: u64,
    memory: &mut [u8],
    is_stopped: impl Fn() -> bool,
) -> Result<bool> {
    let store = &shared.state.store;
    let piece = most_at_once(store).min(PIECE_BYTES);
    for (i, part) in memory.chunks_mut(piece).enumerate() {
        if is_stopped() {
            return Err(Code::Busy.into());
        }
        let at = offset + (i * piece) as u64;
        let is_same = mode.run(shared, |core| {
            let node = Inode::load(core, state.ino.0)?;
            if matches!(mode, Mode::Optimistic) && core.store.version(&node.view) != state.version {
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

impl FileState {
    /// The state that an attempt sees.
    pub(crate) fn of(core: &Core<'_>, ino: Ino, node: &Inode<'_>) -> Self {
        FileState { ino, version: core.store.version(&node.view) }
    }
}

impl Mode<'_, '_> {
    pub(crate) fn run<T>(
        &self,
        shared: &Shared,
        operation: impl FnMut(&Core<'_>) -> Outcome<T>,
    ) -> Result<T> {
        match self {
            Mode::Optimistic => shared.view(operation),
            Mode::Alone(closed) => shared.view_exclusive(closed, operation),
        }
    }
}
