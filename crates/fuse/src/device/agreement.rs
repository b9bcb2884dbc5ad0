//! The agreement of the kernel and the server at the start of their connection (`FUSE_INIT`).

use super::message::{Message, Received};
use crate::kernel::MAX_WRITE_BYTES;
use crate::requests::abi::{Out, opcode};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::io;

/// Version of the protocol, and the oldest kernel's: that of Linux 5.4, whose `fuse_init_out` has as many
/// bytes as today's. Linux 5.10, the oldest that is promised, has 7.32.
const MAJOR: u32 = 7;
const MINOR: u32 = 42;
const OLDEST_MINOR: u32 = 31;

/// Most requests in progress for which no process waits, mostly readahead; and from how many on the kernel
/// sees congestion.
const MAX_BACKGROUND: u16 = 64;
const CONGESTION: u16 = MAX_BACKGROUND / 4 * 3;

macro_rules! abilities {
    ($($name:ident = $bit:literal,)*) => { $(const $name: u64 = 1 << $bit;)* };
}

abilities! {
    ASYNC_READ = 0, EXPORT_SUPPORT = 4, BIG_WRITES = 5, DONT_MASK = 6, DO_READDIRPLUS = 13,
    READDIRPLUS_AUTO = 14, NO_OPEN_SUPPORT = 17, PARALLEL_DIROPS = 18, POSIX_ACL = 20, ABORT_ERROR = 21, MAX_PAGES = 22,
    CACHE_SYMLINKS = 23, NO_OPENDIR_SUPPORT = 24, EXPLICIT_INVAL_DATA = 25, HANDLE_KILLPRIV_V2 = 28,
    SETXATTR_EXT = 29, INIT_EXT = 30, OVER_IO_URING = 41,
}

/// Abilities that are requested of the kernel. `FUSE_ASYNC_DIO` is not among them: with it the kernel does
/// not drop cached pages after an asynchronous direct write, and a page that was read meanwhile would keep
/// its old bytes (docs/mount.md, "Direct writes").
const WANTED: [(u64, &str); 14] = [
    (ASYNC_READ, "asynchronous reads"),
    (BIG_WRITES, "writes of more than a page"),
    // The kernel does not say how many pages a request has otherwise.
    (MAX_PAGES, "requests of 1 MiB"),
    // Lookups and listings of one directory run in parallel.
    (PARALLEL_DIROPS, "parallel lookups"),
    (DO_READDIRPLUS, "listings with attributes"),
    // Listings have attributes as long as processes read them.
    (READDIRPLUS_AUTO, "listings with attributes where they are used"),
    (CACHE_SYMLINKS, "caching of symbolic links"),
    // Cached pages stay valid whatever the times are: the kernel is notified of all changes.
    (EXPLICIT_INVAL_DATA, "pages that stay valid"),
    // Without it the kernel requests an extended attribute before each write.
    (HANDLE_KILLPRIV_V2, "removal of privileges by the server"),
    (EXPORT_SUPPORT, "network file systems"),
    // The kernel checks access control lists, and leaves the umask to the server.
    (POSIX_ACL, "access control lists"),
    (DONT_MASK, "umasks in requests"),
    // The kernel knows all groups and capabilities of whoever sets a list.
    (SETXATTR_EXT, "the fate of set-group-id bits with access control lists"),
    // Without it a connection that was aborted ends as one that was unmounted.
    (ABORT_ERROR, "aborts of the connection"),
];

/// The agreement of the kernel and a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Agreement {
    /// True where the kernel opens and closes files and directories without a request.
    pub(crate) no_open: bool,
    /// True where requests come through rings.
    pub(crate) rings: bool,
    /// True where a change of a file's size says whether it takes privileges away.
    pub(crate) says_kills: bool,
    /// True where the argument of `SETXATTR` has the words that say this of an access control list.
    pub(crate) has_long_setxattr: bool,
}

/// The wishes of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    /// True for a server that hears of each open: the kernel never does that again once one is refused.
    pub(crate) opens: bool,
    /// True to use rings where the kernel has them.
    pub(crate) rings: bool,
}

/// Agrees with the kernel, whose first request waits on the connection.
///
/// # Errors
/// The host's. The kernel is too old, or speaks another protocol.
pub(crate) fn agree(connection: BorrowedFd<'_>, wishes: Wishes) -> io::Result<Agreement> {
    let mut message = Message::new(false);
    loop {
        if message.receive(connection)? == Received::End {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let (request, payload) = message.parts();
        let unique = request.unique();
        if request.opcode() != opcode::INIT {
            message.reply(connection, unique, Err(Errno::IO.raw_os_error()));
            return Err(io::ErrorKind::InvalidData.into());
        }
        let (major, minor) = (request.u32(0), request.u32(4));
        if major > MAJOR {
            // A newer kernel begins once more with this version.
            let len = write(payload, |out| out.u32s(&[MAJOR, MINOR]));
            message.reply(connection, unique, Ok(len));
            continue;
        }
        if major < MAJOR || minor < OLDEST_MINOR {
            message.reply(connection, unique, Err(Errno::PROTO.raw_os_error()));
            return Err(io::ErrorKind::Unsupported.into());
        }
        let offered = offered(request.u32(12), request.u32(16));
        let (abilities, agreement) = choose(offered, wishes);
        let readahead = request.u32(8).min(MAX_WRITE_BYTES);
        let len = write(payload, |out| reply(out, readahead, abilities));
        message.reply(connection, unique, Ok(len));
        return Ok(agreement);
    }
}

fn write(payload: &mut [u8], write: impl FnOnce(&mut Out<'_>)) -> usize {
    let mut out = Out::new(payload);
    write(&mut out);
    out.len()
}

/// The abilities that both words of a request offer; the second word counts only where the first says so.
fn offered(low: u32, high: u32) -> u64 {
    let high = if u64::from(low) & INIT_EXT != 0 { high } else { 0 };
    u64::from(low) | u64::from(high) << u32::BITS
}

/// Chooses among the abilities that the kernel offers.
fn choose(offered: u64, wishes: Wishes) -> (u64, Agreement) {
    let mut chosen = offered & INIT_EXT;
    for (ability, name) in WANTED {
        if offered & ability == 0 {
            log::info!("the kernel lacks {name}");
        }
        chosen |= offered & ability;
    }
    let no_open = NO_OPEN_SUPPORT | NO_OPENDIR_SUPPORT;
    let agreement = Agreement {
        no_open: offered & no_open == no_open && !wishes.opens,
        rings: offered & OVER_IO_URING != 0 && wishes.rings,
        says_kills: offered & HANDLE_KILLPRIV_V2 != 0,
        has_long_setxattr: offered & SETXATTR_EXT != 0,
    };
    (if agreement.rings { chosen | OVER_IO_URING } else { chosen }, agreement)
}

/// Pages of the largest request, of which the kernel has its own size.
fn max_pages() -> u16 {
    (MAX_WRITE_BYTES as usize / rustix::param::page_size()).max(1) as u16
}

/// `fuse_init_out`
fn reply(out: &mut Out<'_>, readahead: u32, abilities: u64) {
    out.u32s(&[MAJOR, MINOR, readahead, abilities as u32]);
    out.bytes(&MAX_BACKGROUND.to_ne_bytes());
    out.bytes(&CONGESTION.to_ne_bytes());
    // The largest write, and the granularity of times in nanoseconds.
    out.u32s(&[MAX_WRITE_BYTES, 1]);
    out.bytes(&max_pages().to_ne_bytes());
    // No alignment of mappings.
    out.bytes(&[0; 2]);
    out.u32((abilities >> u32::BITS) as u32);
    out.bytes(&[0; 28]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::abi::u32_at;

    #[test]
    fn only_what_the_kernel_offers_is_chosen() {
        let none = Wishes::default();
        assert_eq!(choose(0, none), (0, Agreement::default()));
        let (all, agreement) = choose(u64::MAX, none);
        assert_eq!(all, WANTED.iter().fold(INIT_EXT, |all, (one, _)| all | one));
        let wanted = Agreement { no_open: true, rings: false, says_kills: true, has_long_setxattr: true };
        assert_eq!(agreement, wanted);
        let (all, agreement) = choose(u64::MAX, Wishes { opens: true, rings: true });
        assert_eq!(agreement, Agreement { no_open: false, rings: true, ..wanted });
        assert_ne!(all & OVER_IO_URING, 0);
        assert_eq!(choose(NO_OPEN_SUPPORT, none).1, Agreement::default(), "not of directories");
        assert_eq!(offered(INIT_EXT as u32, 1 << 9) & OVER_IO_URING, OVER_IO_URING);
        assert_eq!(offered(0, 1 << 9), 0);
    }

    #[test]
    fn the_reply_has_the_bytes_of_the_kernels_structure() {
        let mut bytes = [0; 64];
        let mut out = Out::new(&mut bytes);
        reply(&mut out, 7, OVER_IO_URING | POSIX_ACL);
        assert_eq!(out.len(), 64);
        assert_eq!(
            [8, 12, 20, 32].map(|at| u32_at(&bytes, at)),
            [7, POSIX_ACL as u32, MAX_WRITE_BYTES, 1 << 9]
        );
        let pages = u32_at(&bytes, 28);
        assert_eq!(pages as usize * rustix::param::page_size(), MAX_WRITE_BYTES as usize);
    }
}
