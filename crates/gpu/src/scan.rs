//! Search in texts: the device finds those in which a line may match.

use crate::context::DeviceContext;
use crate::error::{Error, Result};
use crate::layout::{STRIP_WORDS, TEXT_WORD};
use crate::patterns::Patterns;
use crate::structures::{Parameters, ScanProgram};
use crate::tables::PARAMETERS;
use crate::vulkan::{Commands, Direction, Staged};
use crate::woven::{have_bits, weave, woven_bytes};
use parking_lot::Mutex;

/// Bytes of a program, as the kernel reads it. The text behind it begins at a multiple of a word.
const PROGRAM: u64 = (ScanProgram::SIZE as u64).next_multiple_of(64);

/// Bytes of texts on the device in one dispatch. One text alone may have more.
const DISPATCH: usize = 16 << 20;

/// Buffers that are kept.
const KEPT: usize = 16;

/// A search for patterns in texts. Any number of threads may use it.
///
/// A text has a match where some bytes of one of its lines are those of a pattern's steps. The device may err
/// on one side: it takes a text for one with a match where a match would have several hundred bytes.
pub struct TextScan<'g> {
    context: &'g DeviceContext,
    program: ScanProgram,
    kept: Mutex<Vec<Buffers>>,
    /// Why the device is not used any more.
    failure: Mutex<Option<Error>>,
}

/// Memory of a dispatch. (Commands come first: dropping them waits for their end.)
struct Buffers {
    commands: Commands,
    input: Staged,
    output: Staged,
}

impl<'g> TextScan<'g> {
    pub(crate) fn new(context: &'g DeviceContext, patterns: &Patterns) -> Self {
        let program = patterns.program();
        TextScan { context, program, kept: Mutex::default(), failure: Mutex::default() }
    }

    /// Tells for each text whether a line in it may match. Where the device fails, now or before, or has no
    /// memory for it, each may.
    pub fn may_match(&self, texts: &[&[u8]]) -> Vec<bool> {
        let mut all = Vec::with_capacity(texts.len());
        while let Some(rest) = texts.get(all.len()..).filter(|rest| !rest.is_empty()) {
            let mut bytes = 0;
            let fits = |text: &&&[u8]| {
                bytes += text.len() + TEXT_WORD;
                bytes <= DISPATCH
            };
            let some = &rest[..rest.iter().take_while(fits).count().max(1)];
            all.extend(self.attempt(some).unwrap_or_else(|| vec![true; some.len()]));
        }
        all
    }

    /// Returns in words why the device is not used any more; `None` while it is.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().as_ref().map(ToString::to_string)
    }

    /// Works with the device; `None` where it failed. Want of memory costs these texts only.
    fn attempt(&self, texts: &[&[u8]]) -> Option<Vec<bool>> {
        if self.failure.lock().is_some() {
            return None;
        }
        match self.dispatch(texts) {
            Ok(found) => return Some(found),
            Err(error) if error.is_short_of_memory() => self.kept.lock().clear(),
            Err(error) => drop(self.failure.lock().get_or_insert(error)),
        }
        None
    }

    fn dispatch(&self, texts: &[&[u8]]) -> Result<Vec<bool>> {
        let bytes = woven_bytes(texts);
        if bytes == 0 {
            return Ok(vec![false; texts.len()]);
        }
        let mut buffers = self.buffers(bytes)?;
        let text = &mut buffers.input.bytes_mut()[(PARAMETERS + PROGRAM) as usize..][..bytes];
        let ranges = weave(texts, text);
        let found = self.run(&mut buffers, bytes)?;
        let mut kept = self.kept.lock();
        if kept.len() < KEPT {
            kept.push(buffers);
        }
        Ok(have_bits(&ranges, &found))
    }

    /// Takes kept buffers with room for so many bytes of woven texts, or makes some.
    fn buffers(&self, bytes: usize) -> Result<Buffers> {
        let device = &self.context.device;
        let needed = PARAMETERS + PROGRAM + bytes as u64;
        {
            let mut kept = self.kept.lock();
            if let Some(index) = kept.iter().position(|one| one.input.len() >= needed) {
                return Ok(kept.swap_remove(index));
            }
        }
        // Texts of about the same length find room in them.
        let bytes = bytes.next_power_of_two() as u64;
        let results = bytes / (STRIP_WORDS * TEXT_WORD) as u64 * 4;
        Ok(Buffers {
            commands: Commands::new(device)?,
            input: Staged::new(device, PARAMETERS + PROGRAM + bytes, Direction::ToDevice)?,
            output: Staged::new(device, results, Direction::ToHost)?,
        })
    }

    /// Dispatches the kernel for woven texts that lie in the input. Returns its results.
    fn run(&self, buffers: &mut Buffers, bytes: usize) -> Result<Vec<u32>> {
        let Buffers { commands, input, output } = buffers;
        let strips = bytes / (STRIP_WORDS * TEXT_WORD);
        let address = input.address();
        let parameters = Parameters {
            text: address + PARAMETERS,
            starts: address + PARAMETERS + PROGRAM,
            answers: output.address(),
            count: strips as u32,
            fuel: self.context.fuel(),
            ..Parameters::default()
        };
        let (parameter_bytes, rest) = input.bytes_mut().split_at_mut(PARAMETERS as usize);
        parameters.write(parameter_bytes);
        self.program.write(&mut rest[..PROGRAM as usize]);
        commands.record(|recording| {
            input.transfer(recording, PARAMETERS + PROGRAM + bytes as u64);
            recording.dispatch(&self.context.kernels.scan, address, strips as u64);
            output.transfer(recording, strips as u64 * 4);
        })?;
        commands.submit()?;
        commands.wait()?;
        let (words, _) = output.bytes().as_chunks::<4>();
        Ok(words.iter().take(strips).map(|word| u32::from_le_bytes(*word)).collect())
    }

    /// Returns the kernel's results for woven texts.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn scan_directly(&self, woven: &[u8]) -> Result<Vec<u32>> {
        let mut buffers = self.buffers(woven.len())?;
        buffers.input.bytes_mut()[(PARAMETERS + PROGRAM) as usize..][..woven.len()].copy_from_slice(woven);
        self.run(&mut buffers, woven.len())
    }

    pub(crate) fn program(&self) -> &ScanProgram {
        &self.program
    }
}
