//! Texts that stay in the device's memory: a later search neither reads nor copies them.

use super::woven::has_bit;
use crate::kernels::context::DeviceContext;
use crate::shared::layout::{STRIP_WORDS, TEXT_WORD};
use crate::vulkan::{Buffer, MemoryLocation};
use lanefs_sync::lock::RwLock;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a slab. A driver may have few thousand allocations, so each has many texts.
const SLAB_BYTES: u64 = 64 << 20;

/// Texts that a device keeps, by numbers of the caller. Any number of threads may use them.
///
/// They are right for as long as the texts do not change, so the caller keeps none that may.
pub struct KeptTexts {
    context: DeviceContext,
    /// Most bytes of the device's memory.
    most: u64,
    state: RwLock<KeptTextsState>,
}

#[derive(Default)]
struct KeptTextsState {
    slabs: Vec<Slab>,
    taken: u64,
    texts: HashMap<u64, Kept>,
    /// The device has no memory for another slab.
    is_full: bool,
}

/// Woven texts, one after the other.
#[derive(Clone)]
pub(crate) struct Slab {
    pub(crate) memory: Arc<Buffer>,
    /// Bytes that are reserved, from the first on.
    pub(crate) used: u64,
}

/// Where a text lies.
struct Kept {
    slab: usize,
    /// Its words in the slab.
    words: Range<usize>,
    /// How many texts were kept before it.
    number: usize,
}

/// Room for woven texts in a slab. Searches look at it already, and take no text in it for known.
pub(crate) struct Room {
    slab: usize,
    pub(crate) memory: Arc<Buffer>,
    pub(crate) at: u64,
}

/// Result of a search in kept texts.
pub struct KeptScan {
    kept: Arc<KeptTexts>,
    /// Number of the texts that were kept when it began. Only of these the device has seen every byte.
    known: usize,
    /// Results of the kernel for each slab, a bit for each word of each strip.
    found: Vec<Vec<u32>>,
}

impl KeptTexts {
    pub(crate) fn new(context: &DeviceContext, most: u64) -> Self {
        KeptTexts { context: context.clone(), most, state: RwLock::default() }
    }

    /// Returns the number of texts.
    pub fn len(&self) -> usize {
        self.state.read().texts.len()
    }

    /// Tells whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of the device's memory that they take.
    pub fn bytes(&self) -> u64 {
        self.state.read().taken
    }

    /// Tells whether they lie on the device of a context.
    pub(crate) fn are_on(&self, context: &DeviceContext) -> bool {
        Arc::ptr_eq(&self.context.device, &context.device)
    }

    /// Reserves room for woven texts; `None` where there is none left.
    pub(crate) fn reserve(&self, bytes: u64) -> Option<Room> {
        let mut state = self.state.write();
        let state = &mut *state;
        if state.slabs.last().is_none_or(|last| last.memory.len - last.used < bytes) {
            let left = self.most.saturating_sub(state.taken);
            let len = SLAB_BYTES.min(left).max(bytes);
            if state.is_full || len > left {
                return None;
            }
            let Ok(memory) = Buffer::new(&self.context.device, len, MemoryLocation::Device) else {
                state.is_full = true;
                return None;
            };
            state.taken += memory.len;
            state.slabs.push(Slab { memory: Arc::new(memory), used: 0 });
        }
        let slab = state.slabs.len() - 1;
        let last = &mut state.slabs[slab];
        let room = Room { slab, memory: last.memory.clone(), at: last.used };
        last.used += bytes;
        Some(room)
    }

    /// Keeps the texts that the device has copied into a room: the number of each, and its words there.
    pub(crate) fn add(&self, room: &Room, texts: impl Iterator<Item = (u64, Range<usize>)>) {
        let first = room.at as usize / TEXT_WORD;
        let mut state = self.state.write();
        for (id, words) in texts {
            let number = state.texts.len();
            let words = first + words.start..first + words.end;
            state.texts.entry(id).or_insert(Kept { slab: room.slab, words, number });
        }
    }

    /// Returns the slabs as they are now, and the number of texts in them.
    pub(crate) fn slabs(&self) -> (Vec<Slab>, usize) {
        let state = self.state.read();
        (state.slabs.clone(), state.texts.len())
    }
}

impl KeptScan {
    pub(crate) fn new(kept: Arc<KeptTexts>, known: usize, found: Vec<Vec<u32>>) -> Self {
        KeptScan { kept, known, found }
    }

    /// Tells for each text whether a line in it may match. `None`: it was not kept when the search began, or
    /// the device failed.
    pub fn may_match(&self, ids: impl Iterator<Item = u64>) -> Vec<Option<bool>> {
        let state = self.kept.state.read();
        let answer = |id| {
            let kept = state.texts.get(&id).filter(|kept| kept.number < self.known)?;
            Some(has_bit(&kept.words, self.found.get(kept.slab)?))
        };
        ids.map(answer).collect()
    }
}

/// Strips that some bytes of woven texts are.
pub(crate) fn strips(bytes: u64) -> u64 {
    bytes / (STRIP_WORDS * TEXT_WORD) as u64
}
