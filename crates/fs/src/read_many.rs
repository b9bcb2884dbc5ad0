//! Many reads in one call.

use crate::attempt::Core;
use crate::error::{Error, Result};
use crate::ops;
use crate::types::{Caller, Ino};
use crate::volume::Volume;
use lanefs_store::{Fault, Reader};
use parking_lot::Mutex;

/// One of many reads, and its result.
#[derive(Debug)]
pub struct ReadAt<'b> {
    /// File.
    pub ino: Ino,
    /// First byte.
    pub offset: u64,
    /// Memory for the bytes.
    pub buffer: &'b mut [u8],
    /// Number of bytes read. It is smaller than the buffer only at the end of the file.
    pub result: Result<usize>,
}

impl<'b> ReadAt<'b> {
    /// Makes a read.
    pub fn new(ino: Ino, offset: u64, buffer: &'b mut [u8]) -> Self {
        ReadAt { ino, offset, buffer, result: Ok(0) }
    }
}

/// Reads that are attempted together; their misses are fetched at once.
const TOGETHER: usize = 256;

/// Threads of one call.
const THREADS: usize = 4;

/// Rounds after which a read that still misses is done by itself: its metadata must be fetched step by step.
const ROUNDS: usize = 4;

impl Volume {
    /// Does many reads, each as [`read`](Self::read) does, with as many fetches in flight as the device
    /// takes.
    pub fn read_many(&self, who: &Caller, requests: &mut [ReadAt<'_>]) {
        let threads = requests.len() / TOGETHER;
        if self.shared.state.store.is_memory() || threads < 2 {
            return requests.chunks_mut(TOGETHER).for_each(|part| self.read_together(who, part));
        }
        // While one thread waits for the device, another copies the bytes that have arrived.
        let parts = Mutex::new(requests.chunks_mut(TOGETHER));
        let work = || {
            loop {
                let part = parts.lock().next();
                let Some(part) = part else { break };
                self.read_together(who, part);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.min(THREADS) {
                // Where the host has no thread left, fewer threads do the reads.
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
    }

    fn read_together(&self, who: &Caller, requests: &mut [ReadAt<'_>]) {
        let shared = &self.shared;
        let mut open: Vec<usize> = (0..requests.len()).collect();
        for _ in 0..ROUNDS {
            let mut misses = Vec::new();
            open.retain(|i| {
                let request = &mut requests[*i];
                let core = Core::new(&shared.state, Reader::reading(&shared.state.store));
                let done = ops::read(&core, who, request.ino, request.offset, request.buffer);
                match core.store.validate().and(done) {
                    Ok(bytes) => request.result = Ok(bytes),
                    Err(Fault::Code(code)) => request.result = Err(Error::Code(code)),
                    Err(Fault::Miss { at, want }) => {
                        misses.push((at, want));
                        return true;
                    }
                    Err(_) => return true,
                }
                false
            });
            if misses.is_empty() {
                break;
            }
            shared.state.store.fetch_many(&misses);
        }
        for i in open {
            let request = &mut requests[i];
            request.result = self.read(who, request.ino, request.offset, request.buffer);
        }
    }
}
