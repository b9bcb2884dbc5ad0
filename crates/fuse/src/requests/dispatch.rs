//! Requests of the kernel and their replies, by whichever way they come. Each request is one line or two.

use super::abi::{self, Out, opcode, u32_at, u64_at, valid};
use super::state::MountState;
use lanefs::{FileKind, SetAttr, Time};
use lanefs_serve::{
    Entry, EntrySink, Errno, Groups, Lookup, NameSink, NewMode, NodeId, OpenFlags, Reply, Requester, Room,
    Served,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The service of the requests of one mount.
pub(crate) struct RequestService {
    pub(crate) served: Arc<Served>,
    pub(crate) state: Arc<MountState>,
    /// True where the kernel opens and closes files without a request: a handle has no state.
    pub(crate) no_open: bool,
    /// True where a change of a file's size says whether it takes privileges away.
    pub(crate) says_kills: bool,
    /// True where setting an access control list says that.
    pub(crate) has_long_setxattr: bool,
}

/// A request: its header, its first argument, and the bytes of its payload. The rest of its arguments is at
/// the start of the payload; the reply takes their place.
pub(crate) struct Request<'h> {
    pub(crate) header: &'h [u8],
    pub(crate) payload_bytes: usize,
}

impl Request<'_> {
    /// Number that the reply repeats.
    pub(crate) fn unique(&self) -> u64 {
        u64_at(self.header, 8)
    }

    /// The kind of the request.
    pub(crate) fn opcode(&self) -> u32 {
        u32_at(self.header, 4)
    }

    fn node(&self) -> NodeId {
        NodeId(u64_at(self.header, 16))
    }

    /// The process that has made the request. The request has only its first group.
    fn requester(&self) -> Requester<'static> {
        let [uid, gid, pid] = [24, 28, 32].map(|at| u32_at(self.header, at));
        Requester { uid, gid, groups: Groups::OfProcess(pid) }
    }

    /// A word of the first argument.
    pub(crate) fn u32(&self, at: usize) -> u32 {
        u32_at(self.header, abi::ARGUMENT_AT + at)
    }

    fn u64(&self, at: usize) -> u64 {
        u64_at(self.header, abi::ARGUMENT_AT + at)
    }

    /// The other arguments.
    fn payload<'p>(&self, payload: &'p [u8]) -> &'p [u8] {
        payload.get(..self.payload_bytes).unwrap_or_default()
    }

    /// The name in the payload.
    fn name<'p>(&self, payload: &'p [u8]) -> &'p [u8] {
        split_name(self.payload(payload)).0
    }

    /// Both names in the payload.
    fn names<'p>(&self, payload: &'p [u8]) -> (&'p [u8], &'p [u8]) {
        let (first, rest) = split_name(self.payload(payload));
        (first, split_name(rest).0)
    }
}

/// Divides bytes after the first NUL, which belongs to neither part.
fn split_name(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    (&bytes[..end], bytes.get(end + 1..).unwrap_or_default())
}

/// Writes a reply by a function, and returns its length.
fn write(payload: &mut [u8], write: impl FnOnce(&mut Out<'_>)) -> Reply<usize> {
    let room = payload.len();
    let mut out = Out::new(payload);
    write(&mut out);
    let len = out.len();
    if len <= room { Ok(len) } else { Err(Errno::ERANGE) }
}

fn none(answer: Reply<()>) -> Reply<usize> {
    answer.map(|()| 0)
}

fn entry(payload: &mut [u8], entry: &Entry) -> Reply<usize> {
    write(payload, |out| out.entry(entry))
}

/// Writes a file that was made and is open.
fn created(payload: &mut [u8], made: &Entry) -> Reply<usize> {
    write(payload, |out| {
        out.entry(made);
        out.opened(abi::KEEP_CACHE);
    })
}

/// Writes a value, or its length where the requester asks only for that by a `size` of 0.
fn sized(payload: &mut [u8], size: u32, value: &[u8]) -> Reply<usize> {
    match size as usize {
        0 => write(payload, |out| out.u32s(&[value.len() as u32, 0])),
        size if value.len() > size => Err(Errno::ERANGE),
        _ => write(payload, |out| out.bytes(value)),
    }
}

/// Does the work of a request. A panic is logged, and is the error `EIO`.
fn guarded<T>(work: impl FnOnce() -> Reply<T>) -> Reply<T> {
    // The state that the work shares is behind locks, which a panic frees and does not poison: other threads
    // go on with it whether or not this one ends. After a panic in a commit the journal takes no more of
    // them. The payload is this thread's: a reply with an error has none of it.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let why = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        log::error!("a request has failed by an error in this program: {why}");
        Err(Errno::EIO)
    })
}

impl RequestService {
    /// Answers a request, by whichever way it came. Returns the length of the reply at the start of
    /// `payload`, or the number of the error. A panic is the error `EIO`: the process waits for a reply.
    pub(crate) fn answer(&self, request: &Request<'_>, payload: &mut [u8]) -> Result<usize, i32> {
        guarded(|| self.serve(request, payload)).map_err(Errno::code)
    }

    /// Takes back references to one inode, or to many. These requests have no reply; the log has errors.
    pub(crate) fn forget(&self, request: &Request<'_>, payload: &[u8]) {
        let _ = guarded(|| {
            self.take_back(request, payload);
            Ok(())
        });
    }

    /// Serves a request. Returns the length of the reply at the start of `payload`, or the error.
    fn serve(&self, request: &Request<'_>, payload: &mut [u8]) -> Reply<usize> {
        match request.opcode() {
            opcode::LOOKUP..=opcode::LINK | opcode::CREATE | opcode::RENAME2 | opcode::TMPFILE => {
                self.name(request, payload)
            }
            opcode::READ | opcode::WRITE | opcode::FSYNC | opcode::FSYNCDIR => self.content(request, payload),
            opcode::FALLOCATE | opcode::LSEEK | opcode::COPY_FILE_RANGE => self.content(request, payload),
            opcode::READDIR | opcode::READDIRPLUS => self.list(request, payload),
            opcode::SETXATTR..=opcode::REMOVEXATTR => self.attribute(request, payload),
            opcode::OPEN => {
                self.served.file_opened(request.node(), OpenFlags(request.u32(0) as i32));
                self.opened(payload, abi::KEEP_CACHE)
            }
            opcode::OPENDIR => {
                self.served.directory_opened(request.node(), OpenFlags(request.u32(0) as i32));
                self.opened(payload, abi::KEEP_CACHE | abi::CACHE_DIR)
            }
            opcode::RELEASE | opcode::RELEASEDIR => Ok(0),
            opcode::STATFS => {
                // `remount` waits with statfs(2) for the state of the mount.
                self.state.adopt();
                let counts = self.served.statfs()?;
                write(payload, |out| out.counts(&counts))
            }
            opcode::IOCTL => {
                let (control, room) = (request.u32(12), request.u32(28) as usize);
                let answer = self.served.control(request.node(), control, request.payload(payload))?;
                write(payload, |out| {
                    out.u32s(&[0; 4]);
                    out.bytes(answer.get(..room).unwrap_or(&answer));
                })
            }
            // Of these, flush has nothing to write, and files are always ready: the kernel asks once.
            _ => Err(Errno::ENOSYS),
        }
    }

    /// Takes back the references of a request.
    fn take_back(&self, request: &Request<'_>, payload: &[u8]) {
        /// Bytes of `struct fuse_forget_one`.
        const ONE_BYTES: usize = 16;
        if request.opcode() == opcode::FORGET {
            let _ = self.served.forget(request.node(), request.u64(0));
            return;
        }
        let all = request.payload(payload).chunks_exact(ONE_BYTES);
        for one in all.take(request.u32(0) as usize) {
            let _ = self.served.forget(NodeId(u64_at(one, 0)), u64_at(one, 8));
        }
    }

    /// Replies to an open. "Not implemented" makes the kernel open files without a request from now on, and
    /// keep its caches.
    fn opened(&self, payload: &mut [u8], flags: u32) -> Reply<usize> {
        if self.no_open { Err(Errno::ENOSYS) } else { write(payload, |out| out.opened(flags)) }
    }

    /// Requests about names and attributes.
    fn name(&self, request: &Request<'_>, payload: &mut [u8]) -> Reply<usize> {
        let (served, node, by) = (&self.served, request.node(), request.requester());
        let new_mode = |mode, umask| NewMode { mode: request.u32(mode), umask: request.u32(umask) };
        match request.opcode() {
            opcode::LOOKUP => match served.lookup(node, request.name(payload))? {
                Lookup::Found(found) => entry(payload, &found),
                Lookup::Missing(validity) => write(payload, |out| out.missing(validity)),
            },
            opcode::GETATTR => {
                let found = served.getattr(node)?;
                write(payload, |out| out.attribute_reply(&found))
            }
            opcode::SETATTR => {
                let kills = request.u32(0) & valid::KILL_PRIVILEGES != 0;
                let kills = self.says_kills.then_some(kills);
                let found = served.setattr(&by, node, &attributes(request), kills)?;
                write(payload, |out| out.attribute_reply(&found))
            }
            opcode::READLINK => {
                let target = served.readlink(node)?;
                write(payload, |out| out.bytes(&target))
            }
            opcode::SYMLINK => {
                let (name, target) = request.names(payload);
                let made = served.symlink(&by, node, name, target)?;
                entry(payload, &made)
            }
            opcode::MKNOD => {
                let made = served.mknod(&by, node, request.name(payload), new_mode(0, 8), request.u32(4))?;
                entry(payload, &made)
            }
            opcode::MKDIR => {
                let made = served.mkdir(&by, node, request.name(payload), new_mode(0, 4))?;
                entry(payload, &made)
            }
            opcode::CREATE => {
                let flags = request.u32(0) as i32;
                let made = served.create(&by, node, request.name(payload), new_mode(4, 8), flags)?;
                created(payload, &made)
            }
            opcode::TMPFILE => {
                let made = served.create_unnamed(&by, node, new_mode(4, 8))?;
                created(payload, &made)
            }
            opcode::LINK => {
                let made = served.link(NodeId(request.u64(0)), node, request.name(payload))?;
                entry(payload, &made)
            }
            opcode::UNLINK => none(served.unlink(node, request.name(payload))),
            opcode::RMDIR => none(served.rmdir(node, request.name(payload))),
            opcode::RENAME | opcode::RENAME2 => {
                let (name, new_name) = request.names(payload);
                let flags = if request.opcode() == opcode::RENAME2 { request.u32(8) } else { 0 };
                none(served.rename(&by, (node, name), (NodeId(request.u64(0)), new_name), flags))
            }
            _ => Err(Errno::ENOSYS),
        }
    }

    /// Requests about the content of files.
    fn content(&self, request: &Request<'_>, payload: &mut [u8]) -> Reply<usize> {
        let (served, node, by) = (&self.served, request.node(), request.requester());
        let written = |payload, bytes: usize| write(payload, |out| out.u32s(&[bytes as u32, 0]));
        match request.opcode() {
            opcode::READ => {
                let (offset, size) = (request.u64(8), (request.u32(16) as usize).min(payload.len()));
                served.read(node, offset, &mut payload[..size], OpenFlags(request.u32(32) as i32))
            }
            opcode::WRITE => {
                let (offset, kills) = (request.u64(8), request.u32(20) & abi::WRITE_KILL_SUIDGID != 0);
                let bytes = served.write(&by, node, offset, request.payload(payload), kills)?;
                written(payload, bytes)
            }
            opcode::FSYNC | opcode::FSYNCDIR => {
                none(served.fsync(node, request.u32(8) & abi::FSYNC_DATA != 0))
            }
            opcode::FALLOCATE => {
                let range = (request.u64(8), request.u64(16));
                none(served.fallocate(&by, node, range, request.u32(24) as i32))
            }
            opcode::LSEEK => {
                let offset = served.seek(node, request.u64(8) as i64, request.u32(16) as i32)?;
                write(payload, |out| out.u64(offset as u64))
            }
            _ => {
                let to = (NodeId(request.u64(16)), request.u64(32));
                let bytes = served.copy_range(&by, (node, request.u64(8)), to, request.u64(40))?;
                written(payload, bytes)
            }
        }
    }

    fn list(&self, request: &Request<'_>, payload: &mut [u8]) -> Reply<usize> {
        let (node, offset) = (request.node(), request.u64(8));
        let size = (request.u32(16) as usize).min(payload.len());
        let mut listing = Listing(Out::new(&mut payload[..size]));
        match request.opcode() {
            opcode::READDIR => self.served.list(node, offset, &mut listing)?,
            _ => self.served.list_entries(node, offset, &mut listing)?,
        }
        Ok(listing.0.len())
    }

    /// Requests about extended attributes.
    fn attribute(&self, request: &Request<'_>, payload: &mut [u8]) -> Reply<usize> {
        let (served, node, by) = (&self.served, request.node(), request.requester());
        match request.opcode() {
            opcode::SETXATTR => {
                let (name, value) = split_name(request.payload(payload));
                let value = value.get(..request.u32(0) as usize).ok_or(Errno::EINVAL)?;
                let kills = request.u32(8) & abi::SETXATTR_KILL_SETGID != 0;
                let kills = self.has_long_setxattr.then_some(kills);
                none(served.setxattr(&by, node, name, value, request.u32(4) as i32, kills))
            }
            opcode::GETXATTR => {
                let value = served.getxattr(&by, node, request.name(payload))?;
                sized(payload, request.u32(0), &value)
            }
            opcode::LISTXATTR => {
                let names = served.listxattr(&by, node)?;
                sized(payload, request.u32(0), &names)
            }
            opcode::REMOVEXATTR => none(served.removexattr(node, request.name(payload))),
            // Flush and INIT have numbers between these.
            _ => Err(Errno::ENOSYS),
        }
    }
}

/// The attributes that a request sets.
fn attributes(request: &Request<'_>) -> SetAttr {
    let set = request.u32(0);
    let word = |bit: u32, at: usize| (set & bit != 0).then(|| request.u32(at));
    // One for both times, which are equal after `touch`.
    let now = Time::now();
    let time = |bit: u32, is_now: u32, seconds: usize, nanoseconds: usize| match set {
        _ if set & is_now != 0 => Some(now),
        _ if set & bit != 0 => Some(Time::from_parts(request.u64(seconds) as i64, request.u32(nanoseconds))),
        _ => None,
    };
    SetAttr {
        perm: word(valid::MODE, 68).map(|mode| (mode & 0o7777) as u16),
        uid: word(valid::UID, 76),
        gid: word(valid::GID, 80),
        size: (set & valid::SIZE != 0).then(|| request.u64(16)),
        atime: time(valid::ATIME, valid::ATIME_NOW, 32, 56),
        mtime: time(valid::MTIME, valid::MTIME_NOW, 40, 60),
    }
}

/// A listing that is being written.
struct Listing<'b>(Out<'b>);

fn room(took: bool) -> Room {
    if took { Room::Taken } else { Room::Full }
}

impl NameSink for Listing<'_> {
    fn add(&mut self, name: &[u8], next: u64, node: NodeId, kind: FileKind) -> Room {
        room(self.0.name(name, next, node.0, kind))
    }
}

impl EntrySink for Listing<'_> {
    fn add(&mut self, name: &[u8], next: u64, entry: &Entry) -> Room {
        room(self.0.name_with_attributes(name, next, entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_whose_work_panics_is_answered_with_an_error() {
        let number = 7;
        assert_eq!(guarded::<usize>(|| panic!("as planned")), Err(Errno::EIO));
        assert_eq!(guarded::<usize>(|| panic!("as planned: {number}")), Err(Errno::EIO));
        assert_eq!(guarded(|| Ok(7)), Ok(7));
        assert_eq!(guarded::<usize>(|| Err(Errno::ENOSYS)), Err(Errno::ENOSYS));
    }

    #[test]
    fn both_times_of_a_touch_are_equal() {
        let mut header = [0; abi::HEADER_BYTES];
        let set = valid::ATIME | valid::ATIME_NOW | valid::MTIME | valid::MTIME_NOW;
        header[abi::ARGUMENT_AT..][..4].copy_from_slice(&set.to_ne_bytes());
        // Two readings of the clock may be equal by chance, and not so often.
        for _ in 0..1000 {
            let set = attributes(&Request { header: &header, payload_bytes: 0 });
            assert!(set.atime.is_some());
            assert_eq!(set.atime, set.mtime);
        }
    }
}
