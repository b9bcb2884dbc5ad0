//! Memory of pieces, which is used again: the first touch of fresh memory costs more time than most pieces
//! take to be decompressed.

use super::hash::Hash;
use super::layout::WINDOW_BYTES;
use super::proof::TreePlace;
use lanefs::format::BLOCK;
use lanefs_sync::lock::Mutex;
use std::fmt;
use std::io::Cursor;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use zstd::bulk::Decompressor;

/// Buffers that are kept at most, each of a window: 8 MiB.
const BUFFERS: usize = 32;
/// Decompression contexts that are kept at most.
const CONTEXTS: usize = 8;

/// Buffers and decompression contexts that nobody uses now.
#[derive(Default)]
pub(crate) struct Buffers {
    free: Mutex<Vec<Vec<u8>>>,
    contexts: Mutex<Vec<Decompressor<'static>>>,
}

/// A part of the content of a buffer.
pub(crate) struct Part<'p> {
    pub(crate) bytes: &'p [u8],
    /// Bytes after decompression.
    pub(crate) raw: usize,
    pub(crate) is_compressed: bool,
}

/// Bytes in a buffer, which goes back when they are dropped.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    /// Hashes of the blocks of a piece, each of which is hashed once, however many references are checked.
    hashes: OnceLock<Box<[Hash]>>,
    /// Contents of the other frames of a piece, of a single frame as its proof has them.
    pub(crate) beside: Box<[(TreePlace, Hash)]>,
    home: Arc<Buffers>,
}

impl Buffers {
    /// Returns an empty buffer with room for so many bytes. Small pieces get memory of their own: in a buffer
    /// of a window they would take many times what they have.
    fn take(self: &Arc<Self>, room: usize) -> Buffer {
        let is_window = room <= WINDOW_BYTES as usize && room > WINDOW_BYTES as usize / 2;
        let bytes = match is_window.then(|| self.free.lock().pop()).flatten() {
            Some(bytes) => bytes,
            None => Vec::with_capacity(if is_window { WINDOW_BYTES as usize } else { room }),
        };
        Buffer { bytes, hashes: OnceLock::new(), beside: Box::default(), home: Arc::clone(self) }
    }

    /// Returns a buffer with a copy of bytes.
    pub(crate) fn copy(self: &Arc<Self>, bytes: &[u8]) -> Buffer {
        let mut buffer = self.take(bytes.len());
        buffer.bytes.extend_from_slice(bytes);
        buffer
    }

    /// Decompresses bytes to a buffer; `None` where they are damaged, or not `raw` come out.
    pub(crate) fn decompress(self: &Arc<Self>, bytes: &[u8], raw: usize) -> Option<Buffer> {
        self.decompress_all(std::iter::once(Part { bytes, raw, is_compressed: true }), raw)
    }

    /// Does the same for several parts.
    pub(crate) fn decompress_all<'p>(
        self: &Arc<Self>,
        mut parts: impl Iterator<Item = Part<'p>>,
        raw: usize,
    ) -> Option<Buffer> {
        let mut buffer = self.take(raw);
        // (A statement of its own unlocks the mutex before the work begins.)
        let kept = self.contexts.lock().pop();
        let mut context = kept.map_or_else(Decompressor::new, Ok).ok()?;
        let is_done = parts.all(|Part { bytes, raw, is_compressed }| {
            if !is_compressed {
                buffer.bytes.extend_from_slice(bytes);
                return bytes.len() == raw;
            }
            let mut target = Cursor::new(&mut buffer.bytes);
            target.set_position(target.get_ref().len() as u64);
            context.decompress_to_buffer(bytes, &mut target).is_ok_and(|len| len == raw)
        });
        let mut contexts = self.contexts.lock();
        if contexts.len() < CONTEXTS {
            contexts.push(context);
        }
        (is_done && buffer.len() == raw).then_some(buffer)
    }
}

impl Buffer {
    /// Bytes of memory that it takes.
    pub(crate) fn capacity(&self) -> usize {
        let hashes = self.hashes.get().map_or(0, |hashes| size_of_val(&**hashes));
        self.bytes.capacity() + hashes + size_of_val(&*self.beside)
    }

    /// The hashes of the blocks.
    pub(crate) fn hashes(&self) -> &[Hash] {
        self.hashes.get_or_init(|| self.bytes.chunks(BLOCK as usize).map(Hash::of).collect())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.bytes.capacity() != WINDOW_BYTES as usize {
            return;
        }
        let mut free = self.home.free.lock();
        if free.len() < BUFFERS {
            self.bytes.clear();
            free.push(std::mem::take(&mut self.bytes));
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of the smallest piece that gets a buffer of a window.
    const LARGE: usize = WINDOW_BYTES as usize / 2 + 1;

    #[test]
    fn a_buffer_is_used_again_and_has_nothing_of_its_last_use() {
        let buffers = Arc::new(Buffers::default());
        let first = buffers.copy(&[1; LARGE + 5000]);
        let at = first.as_ptr();
        drop(first);
        let second = buffers.copy(&[2; LARGE]);
        assert_eq!((second.as_ptr(), &second[..]), (at, &[2; LARGE][..]));
        assert_ne!(buffers.copy(&[3; LARGE]).as_ptr(), at, "a buffer in use");
    }

    #[test]
    fn a_small_piece_takes_no_more_than_it_has() {
        let buffers = Arc::new(Buffers::default());
        drop(buffers.take(LARGE));
        for len in [1, 4096, LARGE - 1] {
            assert!(buffers.copy(&vec![1; len]).capacity() < len + 64, "{len} bytes");
        }
        assert_eq!(buffers.copy(&[1; LARGE]).capacity(), WINDOW_BYTES as usize);
    }

    #[test]
    fn no_more_than_some_buffers_are_kept_and_none_of_another_size() {
        let buffers = Arc::new(Buffers::default());
        let all: Vec<Buffer> = (0..BUFFERS + 5).map(|_| buffers.take(LARGE)).collect();
        drop(all);
        assert_eq!(buffers.free.lock().len(), BUFFERS);
        buffers.free.lock().clear();
        drop(buffers.take(WINDOW_BYTES as usize + 1));
        assert!(buffers.free.lock().is_empty());
    }
}
