//! What a file system under test can do: one trait, implemented by the model, by a volume, by a directory of the host
//! and by the canaries' faulty wrappers. Everything else in this crate is written against it.

use lanefs::{Allocate, Attr, Caller, RenameMode, Seek, SetAttr, Time, XattrMode};
use lanefs_format::{Code, FileKind};

/// Names an inode to one engine, from one call of [`Engine::begin`] to the next. It means nothing to another engine.
pub type Handle = u64;

/// The failure of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The code, where the engine has codes; the host's errno as the nearest code.
    pub code: Code,
    /// What the engine said, empty for an ordinary outcome.
    pub text: String,
    /// True where the engine reports damage or a failed device, which no test of a sound volume may see.
    pub broken: bool,
}

impl From<Code> for Fault {
    fn from(code: Code) -> Self {
        Fault { code, text: String::new(), broken: false }
    }
}

/// Result of a call.
pub type Answer<T> = Result<T, Fault>;

/// What is known of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// This very time.
    Exactly(Time),
    /// This time or a later one: the engine's own clock set it.
    AtLeast(Time),
}

impl Stamp {
    /// Nothing is known.
    pub const UNKNOWN: Stamp = Stamp::AtLeast(Time(i64::MIN));

    /// True where `seen` agrees with what is known.
    pub fn allows(self, seen: Stamp) -> bool {
        match (self, seen) {
            (Stamp::Exactly(known), Stamp::Exactly(seen)) => known == seen,
            (Stamp::AtLeast(known), Stamp::Exactly(seen)) => known <= seen,
            (_, Stamp::AtLeast(_)) => true,
        }
    }
}

/// Attributes as far as engines agree on them.
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
    /// Size in bytes; 0 for directories, whose size is each file system's own affair.
    pub size: u64,
    /// Device number.
    pub rdev: u64,
    /// Times of access, modification, change and creation. The host has no creation time to compare.
    pub times: [Stamp; 4],
    /// The same for two names of one inode, different for two inodes.
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

/// A page of a directory: entries as (name, kind, cookie behind it).
pub type Page = Vec<(Vec<u8>, FileKind, u64)>;

/// A file system under test. Names are single components; the calls mean what those of [`lanefs::Volume`] mean.
#[expect(missing_docs, reason = "each call is the one of lanefs::Volume that bears its name")]
pub trait Engine {
    /// Forgets the handles of earlier operations.
    fn begin(&mut self) {}
    /// Handles that a walk no longer needs.
    fn forget(&mut self, _handle: Handle) {}
    fn root(&mut self) -> Handle;
    /// One path from `base` (the root directory where it is `None`).
    fn resolve(&mut self, who: &Caller, base: Option<Handle>, path: &[u8], follow: bool) -> Answer<Handle>;
    /// Many paths in one call, with attributes.
    fn resolve_many(
        &mut self,
        who: &Caller,
        base: Option<Handle>,
        paths: &[Vec<u8>],
        follow: bool,
    ) -> Vec<Answer<Stat>> {
        let mut answers = Vec::with_capacity(paths.len());
        for path in paths {
            let answer = self.resolve(who, base, path, follow).and_then(|handle| self.stat(handle));
            answers.push(answer);
        }
        answers
    }
    fn lookup(&mut self, who: &Caller, dir: Handle, name: &[u8]) -> Answer<Handle>;
    fn stat(&mut self, handle: Handle) -> Answer<Stat>;
    fn set(&mut self, who: &Caller, handle: Handle, set: &SetAttr) -> Answer<Stat>;
    fn create(&mut self, who: &Caller, dir: Handle, name: &[u8], perm: u16) -> Answer<Stat>;
    fn mknod(
        &mut self,
        who: &Caller,
        dir: Handle,
        name: &[u8],
        kind: FileKind,
        perm: u16,
        rdev: u64,
    ) -> Answer<Stat>;
    fn mkdir(&mut self, who: &Caller, dir: Handle, name: &[u8], perm: u16) -> Answer<Stat>;
    fn symlink(&mut self, who: &Caller, dir: Handle, name: &[u8], target: &[u8]) -> Answer<Stat>;
    fn readlink(&mut self, handle: Handle) -> Answer<Vec<u8>>;
    fn link(&mut self, who: &Caller, handle: Handle, dir: Handle, name: &[u8]) -> Answer<Stat>;
    fn unlink(&mut self, who: &Caller, dir: Handle, name: &[u8]) -> Answer<()>;
    fn rmdir(&mut self, who: &Caller, dir: Handle, name: &[u8]) -> Answer<()>;
    fn rename(
        &mut self,
        who: &Caller,
        from: (Handle, &[u8]),
        to: (Handle, &[u8]),
        mode: RenameMode,
    ) -> Answer<()>;
    /// Up to `max` entries behind `cookie`, 0 for the start. An empty page is the end.
    fn list(&mut self, who: &Caller, dir: Handle, cookie: u64, max: usize) -> Answer<Page>;
    fn read(&mut self, who: &Caller, handle: Handle, offset: u64, buffer: &mut [u8]) -> Answer<usize>;
    fn write(&mut self, who: &Caller, handle: Handle, offset: u64, data: &[u8]) -> Answer<usize>;
    fn fallocate(
        &mut self,
        who: &Caller,
        handle: Handle,
        mode: Allocate,
        offset: u64,
        len: u64,
    ) -> Answer<()>;
    fn seek(&mut self, handle: Handle, offset: u64, what: Seek) -> Answer<u64>;
    fn getxattr(&mut self, who: &Caller, handle: Handle, name: &[u8]) -> Answer<Vec<u8>>;
    fn setxattr(
        &mut self,
        who: &Caller,
        handle: Handle,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Answer<()>;
    fn listxattr(&mut self, handle: Handle) -> Answer<Vec<Vec<u8>>>;
    fn removexattr(&mut self, who: &Caller, handle: Handle, name: &[u8]) -> Answer<()>;
    fn mkdir_all(&mut self, path: &[u8], perm: u16) -> Answer<Stat>;
    fn remove_all(&mut self, who: &Caller, dir: Handle, name: &[u8]) -> Answer<()>;
    /// Makes everything durable.
    fn sync(&mut self) -> Answer<()> {
        Ok(())
    }
    /// Closes and opens again, where that means something.
    fn reopen(&mut self) -> Answer<()> {
        Ok(())
    }
    /// What the engine's own check of its invariants finds, one line each.
    fn check(&mut self) -> Answer<Vec<String>> {
        Ok(Vec::new())
    }
    /// Free space in bytes, where the engine can run out of it.
    fn free_bytes(&mut self) -> Option<u64> {
        None
    }
}
