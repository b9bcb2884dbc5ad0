//! BLAKE3 hashes of texts.

use super::text_device::{DISPATCH_BYTES, Sizes, TextBuffers, TextDevice, dispatch_len};
use super::woven::weave_portions;
use crate::error::Result;
use crate::inputs::hash_lists::{HashLists, portions_of};
use crate::kernels::context::DeviceContext;
use crate::resident::tables::PARAMETERS_BYTES;
use crate::shared::layout::{IS_ROOT, PORTION, WOVEN_STRIPS};
use crate::shared::structures::{JoinRecord, Parameters, PortionRecord};
use crate::twin::headers::blake3::Value;

/// Levels of the highest tree of a dispatch.
const LEVELS: usize = (DISPATCH_BYTES / PORTION).ilog2() as usize;

/// Bytes of the parameters: of the portions, and of each level.
const HEADER_BYTES: usize = PARAMETERS_BYTES as usize * (1 + LEVELS);

// The only text of a dispatch may have a full tree. The numbers of portions are below their flag.
const _: () = {
    assert!(
        (DISPATCH_BYTES / PORTION).is_power_of_two() && DISPATCH_BYTES.is_multiple_of(PORTION * WOVEN_STRIPS)
    );
    assert!(DISPATCH_BYTES / PORTION <= IS_ROOT as usize);
};

/// A device that hashes texts by BLAKE3. Any number of threads may use it.
pub struct TextHash {
    device: TextDevice,
}

/// Returns the sizes for so many bytes of woven portions. Each join has one of them on its right, so there
/// are fewer.
fn sizes(bytes: u64) -> Sizes {
    let portions = bytes / PORTION as u64;
    let lists = portions * (PortionRecord::SIZE + JoinRecord::SIZE) as u64;
    Sizes { input: HEADER_BYTES as u64 + bytes + lists, output: portions * size_of::<Value>() as u64 }
}

/// Returns the bytes that portions take, woven.
fn woven_bytes(portions: usize) -> usize {
    portions.next_multiple_of(WOVEN_STRIPS) * PORTION
}

impl TextHash {
    pub(crate) fn new(context: &DeviceContext) -> Self {
        TextHash { device: TextDevice::new(context) }
    }

    /// Returns the hash of each text; `None` for texts of more than 16 MiB, and where the device fails, now
    /// or before, or has no memory for it.
    pub fn hash(&self, texts: &[&[u8]]) -> Vec<Option<[u8; 32]>> {
        let bytes_of = |text: &[u8]| portions_of(text) * PORTION;
        let mut all = Vec::with_capacity(texts.len());
        while let Some(rest) = texts.get(all.len()..).filter(|rest| !rest.is_empty()) {
            let some = &rest[..dispatch_len(rest, bytes_of)];
            let is_small = bytes_of(some[0]) <= DISPATCH_BYTES;
            let hashes = is_small.then(|| self.device.attempt(|| self.dispatch(some))).flatten();
            match hashes {
                Some(hashes) => all.extend(hashes.into_iter().map(Some)),
                None => all.resize(all.len() + some.len(), None),
            }
        }
        all
    }

    /// Returns in words why the device is not used any more; `None` while it is.
    pub fn failure(&self) -> Option<String> {
        self.device.failure()
    }

    fn dispatch(&self, texts: &[&[u8]]) -> Result<Vec<[u8; 32]>> {
        let lists = HashLists::new(texts);
        let bytes = woven_bytes(lists.portions.len());
        let mut buffers = self.device.buffers(bytes, sizes)?;
        weave_portions(texts, &mut buffers.input_mut()[HEADER_BYTES..][..bytes]);
        let values = self.run(&mut buffers, &lists)?;
        self.device.keep(buffers);
        let hash = |first: &usize| {
            let mut hash = [0; 32];
            for (to, word) in hash.as_chunks_mut().0.iter_mut().zip(values[*first]) {
                *to = word.to_le_bytes();
            }
            hash
        };
        Ok(lists.firsts.iter().map(hash).collect())
    }

    /// Dispatches the kernels for portions that lie in the input, woven. Returns the values that they leave.
    fn run(&self, buffers: &mut TextBuffers, lists: &HashLists) -> Result<Vec<Value>> {
        debug_assert!(
            lists.levels.len() <= LEVELS && lists.joins() <= lists.portions.len(),
            "too large a tree"
        );
        let context = &self.device.context;
        let bytes = woven_bytes(lists.portions.len());
        let (address, answers) = buffers.addresses();
        let (parameters, rest) = buffers.input_mut().split_at_mut(HEADER_BYTES);
        let (portions, joins) = rest[bytes..].split_at_mut(lists.portions.len() * PortionRecord::SIZE);
        PortionRecord::write_all(portions, &lists.portions);
        JoinRecord::write_all(joins, lists.levels.iter().flatten());
        let mut starts = address + (HEADER_BYTES + bytes) as u64;
        let mut blocks = parameters.chunks_exact_mut(PARAMETERS_BYTES as usize);
        let mut put = |count: usize, size: usize| {
            let list = Parameters {
                text: address + HEADER_BYTES as u64,
                starts,
                answers,
                count: count as u32,
                fuel: context.fuel(),
                ..Parameters::default()
            };
            blocks.next().into_iter().for_each(|block| list.write(block));
            starts += (count * size) as u64;
        };
        put(lists.portions.len(), PortionRecord::SIZE);
        lists.levels.iter().for_each(|level| put(level.len(), JoinRecord::SIZE));
        let words = buffers.run(sizes(bytes as u64), |recording, _| {
            recording.dispatch(&context.kernels.hash_text, address, lists.portions.len() as u64);
            for (number, level) in (1..).zip(&lists.levels) {
                let parameters = address + number * PARAMETERS_BYTES;
                recording.dispatch(&context.kernels.hash_join, parameters, level.len() as u64);
            }
        })?;
        let (values, _) = words.as_chunks();
        Ok(values[..lists.portions.len()].to_vec())
    }

    /// Returns the values that the kernels leave for any lists, and woven portions.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn hash_directly(&self, woven: &[u8], lists: &HashLists) -> Result<Vec<Value>> {
        debug_assert_eq!(woven.len(), woven_bytes(lists.portions.len()), "a list for each portion");
        let mut buffers = self.device.buffers(woven.len(), sizes)?;
        buffers.input_mut()[HEADER_BYTES..][..woven.len()].copy_from_slice(woven);
        self.run(&mut buffers, lists)
    }
}

/// Returns texts as they lie on the device, with the lists for them.
pub(crate) fn woven_portions(texts: &[&[u8]]) -> (Vec<u8>, HashLists) {
    let lists = HashLists::new(texts);
    let mut memory = vec![0; woven_bytes(lists.portions.len())];
    weave_portions(texts, &mut memory);
    (memory, lists)
}
