//! Search in texts: the device finds those in which a line may match.

use super::kept_texts::{KeptScan, KeptTexts, Room, Slab, strips};
use super::text_device::{Sizes, TextBuffers, TextDevice, dispatch_len};
use super::woven::{have_bits, weave, woven_bytes};
use crate::error::Result;
use crate::inputs::patterns::Patterns;
use crate::kernels::context::DeviceContext;
use crate::resident::tables::PARAMETERS_BYTES;
use crate::shared::layout::TEXT_WORD;
use crate::shared::structures::{Parameters, ScanProgram};
use std::sync::Arc;

/// Bytes of a program, as the kernel reads it. The text after it begins at a multiple of a word.
const PROGRAM_BYTES: u64 = (ScanProgram::SIZE as u64).next_multiple_of(64);

/// A search for patterns in texts. Any number of threads may use it.
///
/// A text has a match where some bytes of one of its lines are those of a pattern's steps. The device may err
/// on one side: it takes a text for one with a match where a match would have several hundred bytes.
pub struct TextScan {
    device: TextDevice,
    program: ScanProgram,
}

/// Slabs of kept texts in one dispatch: more would take a software device seconds.
const SLABS: usize = 4;

/// Returns the sizes for so many bytes of woven texts.
fn sizes(bytes: u64) -> Sizes {
    Sizes { input: PARAMETERS_BYTES + PROGRAM_BYTES + bytes, output: strips(bytes) * 4 }
}

impl TextScan {
    pub(crate) fn new(context: &DeviceContext, patterns: &Patterns) -> Self {
        TextScan { device: TextDevice::new(context), program: patterns.program() }
    }

    /// Tells for each text whether a line in it may match. Where the device fails, now or before, or has no
    /// memory for it, each may.
    pub fn may_match(&self, texts: &[&[u8]]) -> Vec<bool> {
        self.search(texts, None)
    }

    /// Does the same, and keeps those texts that have a number, while there is room.
    ///
    /// # Panics
    /// Where there are more texts than `ids`.
    pub fn may_match_and_keep(&self, texts: &[&[u8]], ids: &[Option<u64>], kept: &KeptTexts) -> Vec<bool> {
        self.search(texts, Some((kept, ids)).filter(|_| kept.are_on(&self.device.context)))
    }

    /// Searches in all kept texts.
    pub fn scan_kept(&self, kept: &Arc<KeptTexts>) -> KeptScan {
        let (slabs, known) = kept.slabs();
        let mut found = Vec::with_capacity(slabs.len());
        for some in slabs.chunks(SLABS).take_while(|_| kept.are_on(&self.device.context)) {
            let Some(bits) = self.device.attempt(|| self.dispatch_slabs(some)) else { break };
            found.extend(bits);
        }
        KeptScan::new(kept.clone(), known, found)
    }

    fn search(&self, texts: &[&[u8]], keep: Option<(&KeptTexts, &[Option<u64>])>) -> Vec<bool> {
        let mut all = Vec::with_capacity(texts.len());
        while let Some(rest) = texts.get(all.len()..).filter(|rest| !rest.is_empty()) {
            let some = &rest[..dispatch_len(rest, |text| text.len() + TEXT_WORD)];
            let keep = keep.map(|(kept, ids)| (kept, &ids[all.len()..][..some.len()]));
            let found = self.device.attempt(|| self.dispatch(some, keep));
            all.extend(found.unwrap_or_else(|| vec![true; some.len()]));
        }
        all
    }

    /// Returns in words why the device is not used any more; `None` while it is.
    pub fn failure(&self) -> Option<String> {
        self.device.failure()
    }

    fn dispatch(&self, texts: &[&[u8]], keep: Option<(&KeptTexts, &[Option<u64>])>) -> Result<Vec<bool>> {
        let bytes = woven_bytes(texts);
        if bytes == 0 {
            return Ok(vec![false; texts.len()]);
        }
        let mut buffers = self.device.buffers(bytes, sizes)?;
        let text = &mut buffers.input_mut()[(PARAMETERS_BYTES + PROGRAM_BYTES) as usize..][..bytes];
        let ranges = weave(texts, text);
        let keep = keep.filter(|(_, ids)| ids.iter().any(Option::is_some));
        let room = keep.and_then(|(kept, _)| kept.reserve(bytes as u64));
        let found = self.run(&mut buffers, bytes, room.as_ref())?;
        self.device.keep(buffers);
        if let (Some((kept, ids)), Some(room)) = (keep, room) {
            let texts = ids.iter().zip(&ranges).filter_map(|(id, words)| Some(((*id)?, words.clone())));
            kept.add(&room, texts);
        }
        Ok(have_bits(&ranges, &found))
    }

    /// Dispatches the kernel for woven texts that lie in the input, and copies them into a room. Returns its
    /// results.
    fn run(&self, buffers: &mut TextBuffers, bytes: usize, room: Option<&Room>) -> Result<Vec<u32>> {
        let context = &self.device.context;
        let bytes = bytes as u64;
        let strips = strips(bytes);
        let (address, answers) = buffers.addresses();
        let parameters = Parameters {
            text: address + PARAMETERS_BYTES,
            starts: address + PARAMETERS_BYTES + PROGRAM_BYTES,
            answers,
            count: strips as u32,
            fuel: context.fuel(),
            ..Parameters::default()
        };
        let (parameter_bytes, rest) = buffers.input_mut().split_at_mut(PARAMETERS_BYTES as usize);
        parameters.write(parameter_bytes);
        self.program.write(&mut rest[..PROGRAM_BYTES as usize]);
        buffers.run(sizes(bytes), |recording, input| {
            recording.dispatch(&context.kernels.scan, address, strips);
            if let Some(room) = room {
                input.copy(recording, PARAMETERS_BYTES + PROGRAM_BYTES, &room.memory, room.at, bytes);
            }
        })
    }

    /// Dispatches the kernel for slabs of kept texts. Returns its results for each.
    fn dispatch_slabs(&self, slabs: &[Slab]) -> Result<Vec<Vec<u32>>> {
        let context = &self.device.context;
        let used = slabs.iter().map(|slab| slab.used).sum();
        let sizes = |bytes| Sizes {
            input: PROGRAM_BYTES + SLABS as u64 * PARAMETERS_BYTES,
            output: strips(bytes) * 4,
        };
        let mut buffers = self.device.buffers(used as usize, sizes)?;
        let (address, mut answers) = buffers.addresses();
        let (program, parameters) = buffers.input_mut().split_at_mut(PROGRAM_BYTES as usize);
        self.program.write(program);
        for (slab, to) in slabs.iter().zip(parameters.chunks_exact_mut(PARAMETERS_BYTES as usize)) {
            let strips = strips(slab.used);
            let parameters = Parameters {
                text: address,
                starts: slab.memory.address,
                answers,
                count: strips as u32,
                fuel: context.fuel(),
                ..Parameters::default()
            };
            parameters.write(to);
            answers += strips * 4;
        }
        let words = buffers.run(sizes(used), |recording, _| {
            for (number, slab) in (0..).zip(slabs) {
                let parameters = address + PROGRAM_BYTES + number * PARAMETERS_BYTES;
                recording.dispatch(&context.kernels.scan, parameters, strips(slab.used));
            }
        })?;
        self.device.keep(buffers);
        let mut words = &words[..];
        let mut take = |slab: &Slab| {
            let (first, rest) = words.split_at(strips(slab.used) as usize);
            words = rest;
            first.to_vec()
        };
        Ok(slabs.iter().map(&mut take).collect())
    }

    /// Returns the kernel's results for woven texts.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn scan_directly(&self, woven: &[u8]) -> Result<Vec<u32>> {
        let mut buffers = self.device.buffers(woven.len(), sizes)?;
        buffers.input_mut()[(PARAMETERS_BYTES + PROGRAM_BYTES) as usize..][..woven.len()]
            .copy_from_slice(woven);
        self.run(&mut buffers, woven.len(), None)
    }

    pub(crate) fn program(&self) -> &ScanProgram {
        &self.program
    }
}
