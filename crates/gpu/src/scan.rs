//! Search in texts: the device finds those in which a line may match.

use crate::context::DeviceContext;
use crate::error::Result;
use crate::layout::{STRIP_WORDS, TEXT_WORD};
use crate::patterns::Patterns;
use crate::structures::{Parameters, ScanProgram};
use crate::tables::PARAMETERS;
use crate::text_device::{Sizes, TextBuffers, TextDevice, dispatch_len};
use crate::woven::{have_bits, weave, woven_bytes};

/// Bytes of a program, as the kernel reads it. The text behind it begins at a multiple of a word.
const PROGRAM: u64 = (ScanProgram::SIZE as u64).next_multiple_of(64);

/// A search for patterns in texts. Any number of threads may use it.
///
/// A text has a match where some bytes of one of its lines are those of a pattern's steps. The device may err
/// on one side: it takes a text for one with a match where a match would have several hundred bytes.
pub struct TextScan<'g> {
    device: TextDevice<'g>,
    program: ScanProgram,
}

/// Returns the sizes for so many bytes of woven texts.
fn sizes(bytes: u64) -> Sizes {
    let strips = bytes / (STRIP_WORDS * TEXT_WORD) as u64;
    Sizes { input: PARAMETERS + PROGRAM + bytes, output: strips * 4 }
}

impl<'g> TextScan<'g> {
    pub(crate) fn new(context: &'g DeviceContext, patterns: &Patterns) -> Self {
        TextScan { device: TextDevice::new(context), program: patterns.program() }
    }

    /// Tells for each text whether a line in it may match. Where the device fails, now or before, or has no
    /// memory for it, each may.
    pub fn may_match(&self, texts: &[&[u8]]) -> Vec<bool> {
        let mut all = Vec::with_capacity(texts.len());
        while let Some(rest) = texts.get(all.len()..).filter(|rest| !rest.is_empty()) {
            let some = &rest[..dispatch_len(rest, |text| text.len() + TEXT_WORD)];
            let found = self.device.attempt(|| self.dispatch(some));
            all.extend(found.unwrap_or_else(|| vec![true; some.len()]));
        }
        all
    }

    /// Returns in words why the device is not used any more; `None` while it is.
    pub fn failure(&self) -> Option<String> {
        self.device.failure()
    }

    fn dispatch(&self, texts: &[&[u8]]) -> Result<Vec<bool>> {
        let bytes = woven_bytes(texts);
        if bytes == 0 {
            return Ok(vec![false; texts.len()]);
        }
        let mut buffers = self.device.buffers(bytes, sizes)?;
        let text = &mut buffers.input_mut()[(PARAMETERS + PROGRAM) as usize..][..bytes];
        let ranges = weave(texts, text);
        let found = self.run(&mut buffers, bytes)?;
        self.device.keep(buffers);
        Ok(have_bits(&ranges, &found))
    }

    /// Dispatches the kernel for woven texts that lie in the input. Returns its results.
    fn run(&self, buffers: &mut TextBuffers, bytes: usize) -> Result<Vec<u32>> {
        let context = self.device.context;
        let strips = bytes / (STRIP_WORDS * TEXT_WORD);
        let (address, answers) = buffers.addresses();
        let parameters = Parameters {
            text: address + PARAMETERS,
            starts: address + PARAMETERS + PROGRAM,
            answers,
            count: strips as u32,
            fuel: context.fuel(),
            ..Parameters::default()
        };
        let (parameter_bytes, rest) = buffers.input_mut().split_at_mut(PARAMETERS as usize);
        parameters.write(parameter_bytes);
        self.program.write(&mut rest[..PROGRAM as usize]);
        buffers.run(sizes(bytes as u64), |recording| {
            recording.dispatch(&context.kernels.scan, address, strips as u64);
        })
    }

    /// Returns the kernel's results for woven texts.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn scan_directly(&self, woven: &[u8]) -> Result<Vec<u32>> {
        let mut buffers = self.device.buffers(woven.len(), sizes)?;
        buffers.input_mut()[(PARAMETERS + PROGRAM) as usize..][..woven.len()].copy_from_slice(woven);
        self.run(&mut buffers, woven.len())
    }

    pub(crate) fn program(&self) -> &ScanProgram {
        &self.program
    }
}
