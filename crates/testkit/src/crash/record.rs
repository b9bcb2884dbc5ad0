//! A device that records all calls, in order.

use super::image::{CrashImage, SECTOR};
use lanefs::{Device, Ino, IoBuf, IoBufMut};
use parking_lot::{Mutex, MutexGuard};
use std::io;
use std::sync::Arc;

/// A recorded event.
#[derive(Clone, Debug)]
pub enum DeviceEvent {
    /// Whole sectors were written at this byte. A write of a part of a sector is recorded as the resulting
    /// sector: a medium writes sectors, and the rest of this one came from its cache.
    Write {
        /// Position in bytes.
        at: u64,
        /// The sectors.
        data: Arc<[u8]>,
    },
    /// A flush began.
    FlushBegin,
    /// A flush completed. It covers the writes before event number `begun`, which are those that had returned
    /// when the flush began; it does not cover writes of other threads meanwhile.
    FlushEnd {
        /// Index of its [`DeviceEvent::FlushBegin`].
        begun: usize,
    },
    /// The volume was open.
    Opened,
    /// Operation number `.0` (from 1 on) began.
    Begun(usize),
    /// A sync or fsync returned after this many operations.
    Acknowledged {
        /// Operations done before.
        done: usize,
        /// The file whose data are durable; `None` for all of them.
        file: Option<Ino>,
    },
    /// An event that a planted bug removed.
    Lost,
}

struct Tape {
    image: CrashImage,
    log: Vec<DeviceEvent>,
    /// A flush lets writes of other threads fall into it, which it does not cover.
    yields: bool,
}

/// A recording device in memory. Clones are the same device.
#[derive(Clone)]
pub struct Recorder(Arc<Mutex<Tape>>);

impl Recorder {
    /// Creates a device that holds `image`, with an empty log.
    pub fn new(image: CrashImage) -> Self {
        Recorder(Arc::new(Mutex::new(Tape { image, log: Vec::new(), yields: false })))
    }

    /// As [`new`](Self::new), for a recording whose threads write at the same time: each flush gives the
    /// processor away once, so that writes of other threads fall into it. This costs a time slice on a busy
    /// machine, so the many volumes that are only opened and checked do without.
    pub fn for_threads(image: CrashImage) -> Self {
        let recorder = Recorder::new(image);
        recorder.tape().yields = true;
        recorder
    }

    fn tape(&self) -> MutexGuard<'_, Tape> {
        self.0.lock()
    }

    /// Records a mark of the workload.
    pub fn mark(&self, event: DeviceEvent) {
        self.tape().log.push(event);
    }

    /// Returns the log so far.
    pub fn log(&self) -> Vec<DeviceEvent> {
        self.tape().log.clone()
    }

    /// Returns the bytes as a reader of the device sees them now.
    pub fn image(&self) -> CrashImage {
        self.tape().image.clone()
    }
}

fn past_the_end() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

impl Device for Recorder {
    fn len(&self) -> u64 {
        self.tape().image.len()
    }

    fn read_at(&self, at: u64, mut buffer: IoBufMut<'_>) -> io::Result<()> {
        let len = buffer.len();
        let copy = |to: usize, bytes: &[u8]| buffer.part(to..to + bytes.len()).copy_from(bytes);
        if self.tape().image.each_part(at, len, copy) { Ok(()) } else { Err(past_the_end()) }
    }

    /// The write is one event: under the lock it is begun and completed, so the log's order is the order of
    /// completion.
    fn write_at(&self, at: u64, data: IoBuf<'_>) -> io::Result<()> {
        let mut tape = self.tape();
        if !tape.image.write(at, &data.to_vec()) {
            return Err(past_the_end());
        }
        let sector = SECTOR as u64;
        let first = at / sector * sector;
        let end = (at + data.len() as u64).next_multiple_of(sector);
        let mut sectors = vec![0; (end - first) as usize];
        if !tape.image.read(first, &mut sectors) {
            return Err(past_the_end());
        }
        tape.log.push(DeviceEvent::Write { at: first, data: sectors.into() });
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let (begun, yields) = {
            let mut tape = self.tape();
            tape.log.push(DeviceEvent::FlushBegin);
            (tape.log.len() - 1, tape.yields)
        };
        if yields {
            std::thread::yield_now();
        }
        self.tape().log.push(DeviceEvent::FlushEnd { begun });
        Ok(())
    }

    /// Discarded bytes may read as anything; here each sector reads as before, or as this pattern.
    fn discard(&self, at: u64, len: u64) -> io::Result<()> {
        self.write_slice(at, &vec![0xdd; usize::try_from(len).map_err(|_| past_the_end())?])
    }

    /// As a raw device, which has its room already.
    fn resize(&self, len: u64) -> io::Result<()> {
        if len <= self.len() { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_sector_is_recorded_as_the_whole_sector() {
        let recorder = Recorder::new(CrashImage::new(vec![1; 4096]));
        recorder.write_slice(700, &[2; 10]).expect("inside");
        let log = recorder.log();
        let [DeviceEvent::Write { at: 512, data }] = &log[..] else { panic!("{log:?}") };
        assert_eq!((data.len(), data[187], data[188], data[197], data[198]), (512, 1, 2, 2, 1));
    }
}
