//! The input of a batch: ranges, numbers and text, on the host and on their way to the device.

use crate::error::Result;
use crate::vulkan::{Commands, Device, Direction, Recording, Staged};
use std::sync::Arc;

/// The input of a batch.
pub(crate) struct BatchInput {
    // Dropped first: its commands end before the bytes are freed.
    way: InputWay,
    bytes: Staged,
}

/// The way of an input to the device.
enum InputWay {
    /// The batch's own commands copy it, unless the host writes it in place.
    WithWork,
    /// The queue for copies copies it, while kernels of other batches are at work.
    Beside {
        upload: Commands,
        /// Number of the copy of the present bytes, once it has begun.
        begun: Option<u64>,
    },
    /// The device has it, and it stays as it is.
    Kept,
}

impl BatchInput {
    /// Makes memory for an input, which the batch's own commands bring to the device.
    ///
    /// # Errors
    /// An error of the device, also for want of memory.
    pub(crate) fn new(device: &Arc<Device>, len: u64) -> Result<BatchInput> {
        Ok(BatchInput { way: InputWay::WithWork, bytes: Staged::new(device, len, Direction::ToDevice)? })
    }

    /// From now on the queue for copies brings it to the device, where the device has one, and where the
    /// input is large enough for the wait of one queue for the other to pay.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(crate) fn go_beside(&mut self, device: &Arc<Device>) -> Result<()> {
        let is_large = device.beside_from.is_some_and(|least| self.bytes.len() >= least);
        if is_large && self.bytes.is_copied() {
            let mut upload = Commands::of_copies(device)?;
            upload.record(|commands| self.bytes.transfer(commands, self.bytes.len()))?;
            self.way = InputWay::Beside { upload, begun: None };
        }
        Ok(())
    }

    /// Copies it to the device, for good, and waits for that.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn keep(&mut self, device: &Arc<Device>) -> Result<()> {
        let mut upload = Commands::new(device)?;
        upload.record(|commands| self.bytes.transfer(commands, self.bytes.len()))?;
        upload.submit()?;
        upload.wait()?;
        self.way = InputWay::Kept;
        Ok(())
    }

    /// Begins the copy, if another queue makes it and has not begun since the bytes were written. Returns the
    /// number of the copy, for which kernels must wait.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn begin(&mut self) -> Result<Option<u64>> {
        match &mut self.way {
            InputWay::WithWork | InputWay::Kept => Ok(None),
            InputWay::Beside { upload, begun } => {
                if begun.is_none() {
                    *begun = Some(upload.submit()?);
                }
                Ok(*begun)
            }
        }
    }

    /// Records the copy, if the batch's own commands make it.
    pub(crate) fn record(&self, commands: &Recording<'_>) {
        if let InputWay::WithWork = self.way {
            self.bytes.transfer(commands, self.bytes.len());
        }
    }

    /// Waits for a copy by another queue, and returns the bytes for the host to write. The batch's own
    /// commands must have ended.
    ///
    /// # Errors
    /// An error of the device: it may still read the bytes.
    pub(crate) fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        debug_assert!(!matches!(self.way, InputWay::Kept), "an input that does not change");
        if let InputWay::Beside { upload, begun } = &mut self.way {
            upload.wait()?;
            *begun = None;
        }
        Ok(self.bytes.bytes_mut())
    }

    /// Address for kernels.
    pub(crate) fn address(&self) -> u64 {
        self.bytes.address()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vulkan::{Choice, fail_call};
    use ash::vk;

    fn device(own_memory: bool) -> Arc<Device> {
        fail_call(None);
        Device::open(&Choice::Best, true, own_memory).expect("a Vulkan device")
    }

    /// Makes an input whose way is the one for its size.
    fn input(device: &Arc<Device>, len: u64) -> BatchInput {
        let mut input = BatchInput::new(device, len).expect("memory");
        input.go_beside(device).expect("commands");
        input
    }

    #[test]
    fn an_input_goes_beside_kernels_where_it_is_large_and_copied() {
        let device = device(true);
        let least = device.beside_from.expect("a queue for copies");
        for (len, is_beside) in [(least - 4, false), (least, true)] {
            let mut input = input(&device, len);
            input.bytes_mut().expect("the host's bytes").fill(1);
            let before = device.copies_submitted();
            let first = input.begin().expect("begun");
            assert_eq!(first.is_some(), is_beside, "{len} bytes");
            assert_eq!(input.begin().expect("begun"), first, "the same bytes are copied once");
            assert_eq!(device.copies_submitted() - before, u64::from(is_beside), "{len} bytes");
            input.bytes_mut().expect("the host's bytes").fill(2);
            let second = input.begin().expect("begun");
            assert_eq!(second, first.map(|number| number + 1), "other bytes");
            // Dropped while the device copies.
        }
        // A device that shares the host's memory copies nothing.
        let device = self::device(false);
        if !device.has_own_memory {
            assert_eq!(input(&device, 2 << 20).begin().expect("begun"), None);
        }
    }

    #[test]
    fn the_host_writes_no_bytes_that_the_device_still_copies() {
        let device = device(true);
        let mut input = input(&device, 1 << 16);
        input.bytes_mut().expect("the host's bytes").fill(1);
        assert!(input.begin().expect("begun").is_some());
        // No submission is seen to end.
        fail_call(Some((0, vk::Result::TIMEOUT)));
        assert!(input.bytes_mut().is_err(), "bytes that the device still copies");
        drop((input, device));
        fail_call(None);
    }
}
