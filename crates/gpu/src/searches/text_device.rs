//! Work of a device on texts: the memory of dispatches, which is kept for later ones, and the failure that
//! ends it.

use crate::error::{Error, Result};
use crate::kernels::context::DeviceContext;
use crate::vulkan::{Commands, Direction, Recording, Staged};
use lanefs_sync::lock::Mutex;

/// Bytes of texts on the device in one dispatch.
pub(crate) const DISPATCH_BYTES: usize = 16 << 20;

/// Buffers that are kept.
const KEPT: usize = 16;

/// A device that works on texts. Any number of threads may use it.
pub(crate) struct TextDevice {
    pub(crate) context: DeviceContext,
    kept: Mutex<Vec<TextBuffers>>,
    /// Why the device is not used any more.
    failure: Mutex<Option<Error>>,
}

/// Memory of a dispatch. (Commands come first: dropping them waits for their end.)
pub(crate) struct TextBuffers {
    commands: Commands,
    input: Staged,
    output: Staged,
}

/// Bytes of the input and of the output of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) input: u64,
    pub(crate) output: u64,
}

impl TextDevice {
    pub(crate) fn new(context: &DeviceContext) -> Self {
        TextDevice { context: context.clone(), kept: Mutex::default(), failure: Mutex::default() }
    }

    /// Returns in words why the device is not used any more; `None` while it is.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().as_ref().map(ToString::to_string)
    }

    /// Works with the device; `None` where it failed, now or before. Want of memory costs this work only.
    pub(crate) fn attempt<T>(&self, work: impl FnOnce() -> Result<T>) -> Option<T> {
        if self.failure.lock().is_some() {
            return None;
        }
        match work() {
            Ok(done) => return Some(done),
            Err(error) if error.is_short_of_memory() => self.kept.lock().clear(),
            Err(error) => drop(self.failure.lock().get_or_insert(error)),
        }
        None
    }

    /// Takes kept buffers with room for so many bytes of texts, or makes some. `sizes` gives the size of both
    /// for a number of bytes.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn buffers(&self, bytes: usize, sizes: impl Fn(u64) -> Sizes) -> Result<TextBuffers> {
        let needed = sizes(bytes as u64);
        {
            let mut kept = self.kept.lock();
            let fits =
                |one: &TextBuffers| one.input.len() >= needed.input && one.output.len() >= needed.output;
            if let Some(index) = kept.iter().position(fits) {
                return Ok(kept.swap_remove(index));
            }
        }
        // Texts of about the same length find room in them.
        let made = sizes(bytes.next_power_of_two() as u64);
        let device = &self.context.device;
        Ok(TextBuffers {
            commands: Commands::new(device)?,
            input: Staged::new(device, made.input, Direction::ToDevice)?,
            output: Staged::new(device, made.output, Direction::ToHost)?,
        })
    }

    /// Keeps buffers for later texts.
    pub(crate) fn keep(&self, buffers: TextBuffers) {
        let mut kept = self.kept.lock();
        if kept.len() < KEPT {
            kept.push(buffers);
        }
    }
}

impl TextBuffers {
    /// Returns the bytes of the input.
    pub(crate) fn input_mut(&mut self) -> &mut [u8] {
        self.input.bytes_mut()
    }

    /// Returns the addresses of the input and of the output.
    pub(crate) fn addresses(&self) -> (u64, u64) {
        (self.input.address(), self.output.address())
    }

    /// Has the device run what `record` records on the first bytes of the input, which it is passed, and
    /// returns the first bytes of the output as words.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn run(
        &mut self,
        used: Sizes,
        record: impl FnOnce(&Recording<'_>, &Staged),
    ) -> Result<Vec<u32>> {
        let TextBuffers { commands, input, output } = self;
        commands.record(|recording| {
            input.transfer(recording, used.input);
            record(recording, input);
            output.transfer(recording, used.output);
        })?;
        commands.submit()?;
        commands.wait()?;
        let (words, _) = output.bytes().as_chunks::<4>();
        let used = used.output as usize / 4;
        Ok(words.iter().take(used).map(|word| u32::from_le_bytes(*word)).collect())
    }
}

/// Returns how many of the first texts a dispatch takes, of which each has so many bytes on the device. One
/// text alone may have more than others have together.
pub(crate) fn dispatch_len(texts: &[&[u8]], bytes_of: impl Fn(&[u8]) -> usize) -> usize {
    let mut bytes = 0;
    let fits = |text: &&&[u8]| {
        bytes += bytes_of(text);
        bytes <= DISPATCH_BYTES
    };
    texts.iter().take_while(fits).count().max(1)
}
