//! Files of the host read through io_uring: each one opened, read and closed by a chain of three requests.

#![allow(unsafe_code, reason = "io_uring takes addresses of paths and buffers")]

use crate::error::{Error, Result};
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{DestinationSlot, Fd, Fixed, OpenHow};
use io_uring::{IoUring, opcode};
use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Files in flight.
pub(super) const DEPTH: usize = 256;
/// Requests for a file.
const CHAIN: usize = 3;

/// A ring with a slot for each file in flight, which no descriptor of the process stands for.
pub(super) struct UringReader<'h> {
    ring: IoUring,
    root: BorrowedFd<'h>,
    how: OpenHow,
    memory: Vec<u8>,
}

impl<'h> UringReader<'h> {
    pub(super) fn new(root: BorrowedFd<'h>) -> Result<Self> {
        let ring = IoUring::new((CHAIN * DEPTH) as u32).map_err(Error::host("io_uring"))?;
        ring.submitter().register_files_sparse(DEPTH as u32).map_err(Error::host("io_uring"))?;
        Ok(UringReader { ring, root, how: OpenHow::new().flags(libc::O_RDONLY as u64), memory: Vec::new() })
    }

    /// Reads up to [`DEPTH`] files of these sizes, and passes the content of each to `each`. A file that
    /// cannot be read has none.
    pub(super) fn read(
        &mut self,
        files: &[(&CStr, usize)],
        mut each: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        assert!(files.len() <= DEPTH, "more files than slots");
        let bytes = files.iter().map(|(_, size)| size).sum();
        if self.memory.len() < bytes {
            self.memory.resize(bytes, 0);
        }
        let (mut rest, mut ranges) = (&mut self.memory[..bytes], Vec::with_capacity(files.len()));
        let mut start = 0;
        for (slot, (path, size)) in files.iter().enumerate() {
            let (own, others) = rest.split_at_mut(*size);
            rest = others;
            ranges.push(start..start + size);
            start += size;
            let chain = chain(self.root, path, &self.how, slot as u32, own);
            // SAFETY: paths, `how`, root and memory outlive this function, which waits until all requests
            // have ended, or never returns. No other request has this part of the memory.
            unsafe { self.ring.submission().push_multiple(&chain) }
                .map_err(|_| Error::host("io_uring")(std::io::Error::other("the queue is full")))?;
        }
        let requests = CHAIN * files.len();
        while self.ring.submit_and_wait(requests).is_err() || self.ring.completion().len() < requests {}
        let mut read = vec![false; files.len()];
        for done in self.ring.completion() {
            let (file, number) = (done.user_data() as usize / CHAIN, done.user_data() as usize % CHAIN);
            if number == 1 {
                read[file] = done.result() == files[file].1 as i32;
            }
        }
        for (file, range) in ranges.into_iter().enumerate() {
            each(file, read[file].then(|| &self.memory[range]));
        }
        Ok(())
    }
}

/// The requests for a file. The close follows whatever the read brings.
fn chain(root: BorrowedFd<'_>, path: &CStr, how: &OpenHow, slot: u32, memory: &mut [u8]) -> [Entry; CHAIN] {
    let number = u64::from(slot) * CHAIN as u64;
    let place = DestinationSlot::try_from_slot_target(slot).ok();
    let open = opcode::OpenAt2::new(Fd(root.as_raw_fd()), path.as_ptr(), how).file_index(place).build();
    let read = opcode::Read::new(Fixed(slot), memory.as_mut_ptr(), memory.len() as u32).build();
    let close = opcode::Close::new(Fixed(slot)).build();
    [
        open.flags(Flags::IO_LINK).user_data(number),
        read.flags(Flags::IO_HARDLINK).user_data(number + 1),
        close.user_data(number + 2),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::os::fd::AsFd;

    #[test]
    fn files_are_read_and_missing_ones_are_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let content = |number: usize| vec![number as u8; number * 7 + 1];
        let names: Vec<CString> =
            (0..600).map(|number| CString::new(format!("f{number}")).expect("a name")).collect();
        for number in (0..600).filter(|number| number % 5 != 0) {
            std::fs::write(dir.path().join(format!("f{number}")), content(number)).expect("written");
        }
        let root = std::fs::File::open(dir.path()).expect("a directory");
        let mut reader = UringReader::new(root.as_fd()).expect("io_uring");
        let numbers: Vec<usize> = (0..600).collect();
        for part in numbers.chunks(DEPTH) {
            let files: Vec<(&CStr, usize)> =
                part.iter().map(|number| (&*names[*number], number * 7 + 1)).collect();
            let mut seen = 0;
            reader
                .read(&files, |file, bytes| {
                    let number = part[file];
                    let expected = (number % 5 != 0).then(|| content(number));
                    assert_eq!(bytes.map(<[u8]>::to_vec), expected, "file {number}");
                    seen += 1;
                })
                .expect("read");
            assert_eq!(seen, part.len());
        }
    }
}
