//! One exchange of requests and replies with the kernel: a ring of one entry, and the memory that the kernel
//! and this program write in turn.

#![allow(unsafe_code, reason = "the kernel writes memory whose address it was told")]

use super::patience::Patience;
use crate::requests::abi::{self, HEADER_BYTES, u32_at, u64_at};
use io_uring::{IoUring, cqueue, opcode::UringCmd80, squeue, types::Fd};
use rustix::io::Errno;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

/// Commands of an entry (`enum fuse_uring_cmd`).
const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;

/// Memory of a fixed size that the kernel may write while a command is under way.
struct Shared {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory is owned, as a box's is.
unsafe impl Send for Shared {}

impl Shared {
    /// Returns zeros; the host gives pages when they are used.
    fn new(bytes: usize) -> Self {
        const PAGE_BYTES: usize = 4096;
        let layout = Layout::from_size_align(bytes.max(1), PAGE_BYTES).unwrap_or(Layout::new::<u8>());
        // SAFETY: the layout has a size above 0.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Shared { start, layout }
    }

    fn vector(&self) -> libc::iovec {
        libc::iovec { iov_base: self.start.as_ptr().cast(), iov_len: self.layout.size() }
    }

    /// Returns the bytes.
    ///
    /// # Safety
    /// No command is under way while they are in use.
    unsafe fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the memory is initialised, owned, and this is the only reference to it. The kernel does not
        // write it, which is the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }

    fn free(&mut self) {
        // SAFETY: it was allocated with this layout, and is freed by `Drop` of its only owner.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// An exchange. At any time the kernel has it, and writes the next request, or the program has it.
pub(super) struct Exchange {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    device: Arc<OwnedFd>,
    queue: u16,
    header: Shared,
    payload: Shared,
    vectors: Shared,
    /// True while the kernel has it.
    is_armed: bool,
}

impl Exchange {
    /// Returns an exchange of a queue of the connection `device`, for requests and replies with up to
    /// `payload_bytes` bytes beside their headers. The thread that makes it must use it.
    ///
    /// # Errors
    /// The host's: it has no rings of this kind, or does not permit them.
    pub(super) fn new(device: Arc<OwnedFd>, queue: u16, payload_bytes: usize) -> io::Result<Self> {
        let ring = Self::ring()?;
        let (header, payload) = (Shared::new(HEADER_BYTES), Shared::new(payload_bytes));
        let vectors = Shared::new(size_of::<[libc::iovec; 2]>());
        // SAFETY: the memory is large enough and aligned to a page, and no command is under way.
        unsafe { vectors.start.cast::<[libc::iovec; 2]>().write([header.vector(), payload.vector()]) };
        Ok(Exchange { ring, device, queue, header, payload, vectors, is_armed: false })
    }

    /// Checks whether this process may make rings of this kind.
    ///
    /// # Errors
    /// The host's.
    pub(super) fn check() -> io::Result<()> {
        Self::ring().map(drop)
    }

    fn ring() -> io::Result<IoUring<squeue::Entry128, cqueue::Entry>> {
        IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(1)
    }

    /// Gives the exchange to the kernel for the first time. Returns true when the first request has come
    /// already.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub(super) fn register(&mut self) -> io::Result<bool> {
        self.push(REGISTER, 0)?;
        let mut patience = Patience::default();
        while let Err(error) = self.ring.submit() {
            patience.after(error)?;
        }
        self.take_completion()
    }

    /// Waits for a request. A command that the kernel has not taken stays in the ring until it does: a
    /// process waits for the reply in it.
    ///
    /// # Errors
    /// `ENOTCONN`, `ECONNABORTED`: the connection has ended.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        let mut patience = Patience::default();
        while self.is_armed {
            let waited = self.ring.submit_and_wait(1);
            // A request may have come all the same.
            if !self.take_completion()?
                && let Err(error) = waited
            {
                patience.after(error)?;
            }
        }
        Ok(())
    }

    /// Returns the header and the payload of the request, whose places the reply takes.
    pub(super) fn parts(&mut self) -> Option<(&mut [u8], &mut [u8])> {
        // SAFETY: the kernel does not have the exchange.
        (!self.is_armed).then(|| unsafe { (self.header.bytes(), self.payload.bytes()) })
    }

    /// Gives the exchange with a reply to the kernel, which writes the next request; [`wait`](Self::wait)
    /// submits that.
    ///
    /// # Errors
    /// None that the kernel causes: [`wait`](Self::wait) has those.
    pub(super) fn reply(&mut self, unique: u64, answer: Result<usize, i32>) -> io::Result<()> {
        let Some((header, _)) = self.parts() else { return Ok(()) };
        let (error, len) = match answer {
            Ok(len) => (0, len),
            Err(errno) => (-errno, 0),
        };
        let commit_id = u64_at(header, abi::COMMIT_ID_AT);
        let mut out = abi::Out::new(header);
        out.u32(abi::REPLY_HEADER_BYTES + len as u32);
        out.u32(error as u32);
        out.u64(unique);
        let mut out = abi::Out::new(&mut header[abi::PAYLOAD_BYTES_AT..]);
        out.u32(len as u32);
        self.push(COMMIT_AND_FETCH, commit_id)
    }

    /// Puts a command into the ring.
    fn push(&mut self, command: u32, commit_id: u64) -> io::Result<()> {
        // `struct fuse_uring_cmd_req`: flags, number of the exchange, queue.
        let mut argument = [0; 80];
        let mut out = abi::Out::new(&mut argument);
        out.u64(0);
        out.u64(commit_id);
        out.bytes(&self.queue.to_ne_bytes());
        let mut entry = UringCmd80::new(Fd(self.device.as_raw_fd()), command)
            .cmd(argument)
            .addr(Some(self.vectors.start.as_ptr() as u64))
            .build();
        // Place of `len` in `struct io_uring_sqe`: the library sets it for other commands only.
        const LEN_AT: usize = 24;
        // SAFETY: an entry has 128 bytes, those of the kernel's structure first (`repr(C)` of `Entry128`, and
        // of `Entry` in it). `len` is a word of four bytes, of which any value is valid.
        unsafe { (&raw mut entry).cast::<u8>().add(LEN_AT).cast::<u32>().write_unaligned(2) };
        // SAFETY: descriptor and memory live until the command has ended: `Drop` keeps them where it has not.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|_| io::Error::from(Errno::BUSY))?;
        self.is_armed = true;
        Ok(())
    }

    /// Takes the completion of the command, if there is one. Returns whether a request has come.
    fn take_completion(&mut self) -> io::Result<bool> {
        let Some(completion) = self.ring.completion().next() else { return Ok(false) };
        self.is_armed = false;
        match completion.result() {
            result if result < 0 => Err(io::Error::from_raw_os_error(-result)),
            _ => Ok(true),
        }
    }

    /// Returns the bytes of the request's payload.
    pub(super) fn payload_bytes(header: &[u8]) -> usize {
        u32_at(header, abi::PAYLOAD_BYTES_AT) as usize
    }
}

impl Drop for Exchange {
    /// Frees the memory, unless the kernel has it: then nobody knows when it has ended with it.
    fn drop(&mut self) {
        if !self.is_armed {
            [&mut self.header, &mut self.payload, &mut self.vectors].into_iter().for_each(Shared::free);
        }
    }
}
