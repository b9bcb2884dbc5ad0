//! A file system under test: one trait, implemented by the model, a volume, a directory of the host and the
//! canaries' wrappers. Everything else in this crate is written against it.

use lanefs::{Allocate, Attr, Caller, RenameMode, Seek, SetAttr, Time, XattrMode};
use lanefs_format::{Code, FileKind};
use rustix::io::Errno;

/// An inode of one engine, valid from one call of [`Engine::begin`] to the next. It means nothing to another
/// engine.
pub type Handle = u64;

/// The failure of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineError {
    /// The code, where the engine has codes; else the nearest code to the host's errno.
    pub code: Code,
    /// The engine's message, empty for an ordinary outcome.
    pub text: String,
    /// True where the engine reports damage or a failed device, which no test of a sound volume may see.
    pub broken: bool,
}

impl From<Code> for EngineError {
    fn from(code: Code) -> Self {
        EngineError { code, text: String::new(), broken: false }
    }
}

/// The nearest code to an error number of Linux.
impl From<Errno> for EngineError {
    fn from(errno: Errno) -> Self {
        let code = match errno {
            Errno::NOENT => Code::NotFound,
            Errno::NOSPC => Code::NoSpace,
            Errno::FBIG => Code::FileTooLarge,
            Errno::NAMETOOLONG => Code::NameTooLong,
            Errno::NXIO => Code::NoSuchRange,
            other => {
                let known = Code::ALL.iter().find(|code| code.errno() == other.raw_os_error());
                let Some(code) = known else {
                    let text = format!("{other:?}");
                    return EngineError { text, broken: true, ..EngineError::from(Code::Unsupported) };
                };
                *code
            }
        };
        EngineError { text: "errno".to_owned(), ..EngineError::from(code) }
    }
}

/// Result of a call.
pub type EngineResult<T> = Result<T, EngineError>;

/// Knowledge about a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// Exactly this time.
    Exactly(Time),
    /// This time or a later one: the engine's own clock set it.
    AtLeast(Time),
}

impl Stamp {
    /// No knowledge.
    pub const UNKNOWN: Stamp = Stamp::AtLeast(Time(i64::MIN));

    /// Returns true where `seen` agrees with this knowledge.
    pub fn allows(self, seen: Stamp) -> bool {
        match (self, seen) {
            (Stamp::Exactly(known), Stamp::Exactly(seen)) => known == seen,
            (Stamp::AtLeast(known), Stamp::Exactly(seen)) => known <= seen,
            (_, Stamp::AtLeast(_)) => true,
        }
    }
}

/// The attributes that all engines have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Type.
    pub kind: FileKind,
    /// Low 12 bits of the mode.
    pub perm: u16,
    /// Number of names.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes; 0 for directories, whose size each file system defines for itself.
    pub size: u64,
    /// Device number.
    pub rdev: u64,
    /// Times of access, modification, change and creation. The host has no creation time to compare.
    pub times: [Stamp; 4],
    /// Identity: equal for two names of one inode, different for two inodes.
    pub id: u64,
}

impl From<&Attr> for Stat {
    fn from(a: &Attr) -> Self {
        Stat {
            kind: a.kind,
            perm: a.perm,
            links: a.links,
            uid: a.uid,
            gid: a.gid,
            size: if a.kind == FileKind::Directory { 0 } else { a.size },
            rdev: a.rdev,
            times: [a.atime, a.mtime, a.ctime, a.btime].map(Stamp::Exactly),
            id: a.ino.0,
        }
    }
}

impl Stat {
    /// Reads the attributes that a system call returned; `None` for a type that LaneFS does not have.
    pub fn of_host(s: &rustix::fs::Stat) -> Option<Stat> {
        let kind = FileKind::from_mode(s.st_mode as u16)?;
        let time =
            |seconds: i64, nanoseconds: u64| Stamp::Exactly(Time::from_parts(seconds, nanoseconds as u32));
        Some(Stat {
            kind,
            perm: s.st_mode as u16 & 0o7777,
            links: s.st_nlink as u32,
            uid: s.st_uid,
            gid: s.st_gid,
            size: if kind == FileKind::Directory { 0 } else { s.st_size as u64 },
            rdev: s.st_rdev,
            times: [
                time(s.st_atime, s.st_atime_nsec as u64),
                time(s.st_mtime, s.st_mtime_nsec as u64),
                time(s.st_ctime, s.st_ctime_nsec as u64),
                Stamp::UNKNOWN,
            ],
            id: s.st_ino,
        })
    }
}

/// A page of a directory: entries as (name, kind, cookie after the entry).
pub type Page = Vec<(Vec<u8>, FileKind, u64)>;

/// A file system under test. Names are single components; the calls mean what those of [`lanefs::Volume`]
/// mean.
#[expect(missing_docs, reason = "each call is the one of lanefs::Volume that bears its name")]
pub trait Engine {
    /// Forgets the handles of earlier operations.
    fn begin(&mut self) {}
    /// Drops a handle that a walk no longer needs.
    fn forget(&mut self, _handle: Handle) {}
    fn root(&mut self) -> Handle;
    /// Resolves one path from `base` (the root directory where it is `None`).
    fn resolve(
        &mut self,
        caller: &Caller,
        base: Option<Handle>,
        path: &[u8],
        follow: bool,
    ) -> EngineResult<Handle>;
    /// Resolves many paths in one call, with attributes.
    fn resolve_many(
        &mut self,
        caller: &Caller,
        base: Option<Handle>,
        paths: &[Vec<u8>],
        follow: bool,
    ) -> Vec<EngineResult<Stat>> {
        let mut answers = Vec::with_capacity(paths.len());
        for path in paths {
            let answer = self.resolve(caller, base, path, follow).and_then(|handle| self.stat(handle));
            answers.push(answer);
        }
        answers
    }
    fn lookup(&mut self, caller: &Caller, dir: Handle, name: &[u8]) -> EngineResult<Handle>;
    fn stat(&mut self, handle: Handle) -> EngineResult<Stat>;
    fn set(&mut self, caller: &Caller, handle: Handle, set: &SetAttr) -> EngineResult<Stat>;
    fn create(&mut self, caller: &Caller, dir: Handle, name: &[u8], perm: u16) -> EngineResult<Stat>;
    /// Creates a file with its content and attributes in one step.
    fn create_whole(
        &mut self,
        _caller: &Caller,
        _dir: Handle,
        _name: &[u8],
        _content: &[u8],
        _set: &SetAttr,
    ) -> EngineResult<Stat> {
        Err(Code::Unsupported.into())
    }
    fn mknod(
        &mut self,
        caller: &Caller,
        dir: Handle,
        name: &[u8],
        kind: FileKind,
        perm: u16,
        rdev: u64,
    ) -> EngineResult<Stat>;
    fn mkdir(&mut self, caller: &Caller, dir: Handle, name: &[u8], perm: u16) -> EngineResult<Stat>;
    fn symlink(&mut self, caller: &Caller, dir: Handle, name: &[u8], target: &[u8]) -> EngineResult<Stat>;
    fn readlink(&mut self, handle: Handle) -> EngineResult<Vec<u8>>;
    fn link(&mut self, caller: &Caller, handle: Handle, dir: Handle, name: &[u8]) -> EngineResult<Stat>;
    fn unlink(&mut self, caller: &Caller, dir: Handle, name: &[u8]) -> EngineResult<()>;
    fn rmdir(&mut self, caller: &Caller, dir: Handle, name: &[u8]) -> EngineResult<()>;
    fn rename(
        &mut self,
        caller: &Caller,
        from: (Handle, &[u8]),
        to: (Handle, &[u8]),
        mode: RenameMode,
    ) -> EngineResult<()>;
    /// Returns up to `max` entries after `cookie`, 0 for the start. An empty page is the end.
    fn list(&mut self, caller: &Caller, dir: Handle, cookie: u64, max: usize) -> EngineResult<Page>;
    fn read(
        &mut self,
        caller: &Caller,
        handle: Handle,
        offset: u64,
        buffer: &mut [u8],
    ) -> EngineResult<usize>;
    fn write(&mut self, caller: &Caller, handle: Handle, offset: u64, data: &[u8]) -> EngineResult<usize>;
    fn fallocate(
        &mut self,
        caller: &Caller,
        handle: Handle,
        mode: Allocate,
        offset: u64,
        len: u64,
    ) -> EngineResult<()>;
    fn seek(&mut self, handle: Handle, offset: u64, what: Seek) -> EngineResult<u64>;
    fn getxattr(&mut self, caller: &Caller, handle: Handle, name: &[u8]) -> EngineResult<Vec<u8>>;
    fn setxattr(
        &mut self,
        caller: &Caller,
        handle: Handle,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> EngineResult<()>;
    fn listxattr(&mut self, handle: Handle) -> EngineResult<Vec<Vec<u8>>>;
    fn removexattr(&mut self, caller: &Caller, handle: Handle, name: &[u8]) -> EngineResult<()>;
    fn mkdir_all(&mut self, path: &[u8], perm: u16) -> EngineResult<Stat>;
    fn remove_all(&mut self, caller: &Caller, dir: Handle, name: &[u8]) -> EngineResult<()>;
    /// Makes everything durable.
    fn sync(&mut self) -> EngineResult<()> {
        Ok(())
    }
    /// Closes the file system and opens it again, where that means something.
    fn reopen(&mut self) -> EngineResult<()> {
        Ok(())
    }
    /// Runs the engine's own check of its invariants; returns one line per finding.
    fn check(&mut self) -> EngineResult<Vec<String>> {
        Ok(Vec::new())
    }
    /// Returns the free space in bytes, where the engine can run out of it.
    fn free_bytes(&mut self) -> Option<u64> {
        None
    }
}
