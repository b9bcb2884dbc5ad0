//! Planted bugs: an engine that is right except for one thing.
//!
//! A tester that never failed proves nothing. File systems have had each of these bugs. The runner must find
//! every one of them (`tests/it/canaries.rs`), and shrink the sequence that shows it.

use crate::engine::{Engine, EngineResult, Handle, Page, Stamp, Stat};
use crate::one_hash;
use lanefs::{Allocate, Caller, RenameMode, Seek, SetAttr, Time, XattrMode};
use lanefs_format::{Code, FileKind};
use std::collections::{HashMap, HashSet};

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A rename over an existing name does not take that name off the replaced inode's link count.
    ReplacedKeepsLink,
    /// readdir leaves out one entry of a long page.
    ListSkips,
    /// readdir returns one entry twice.
    ListRepeats,
    /// A listing that is resumed after a change starts at the wrong entry.
    CookieSlips,
    /// Bytes that a truncation cut off are back when the file grows again.
    TruncateKeepsBytes,
    /// Every hard link counts twice.
    LinksOffByOne,
    /// unlink takes another name of the directory.
    UnlinkWrongName,
    /// The last byte of a long write is lost.
    WriteLosesByte,
    /// A punched hole is a byte too long.
    HoleTooLong,
    /// A no-replace rename replaces.
    NoReplaceReplaces,
    /// An exchange does nothing.
    ExchangeForgets,
    /// A rename leaves nothing where it should leave a whiteout.
    WhiteoutForgotten,
    /// chmod drops the sticky bit.
    ChmodDropsSticky,
    /// Times lose their nanoseconds.
    TimesInSeconds,
    /// A symbolic link as the last component is followed although it should not be.
    FollowsLastLink,
    /// `XATTR_CREATE` replaces an attribute that exists.
    CreateReplacesXattr,
    /// Long targets of links lose their last byte.
    LongTargetCut,
    /// Names of 255 bytes are not found.
    LongestNameLost,
    /// Permissions are not checked.
    PermissionsIgnored,
    /// Set-id bits survive a write by a user.
    SetIdsSurvive,
    /// The file created last is gone after a reopen.
    ReopenForgets,
    /// A file's size does not grow with a write at its end that ends within the same block.
    SizeLags,
    /// seek finds data only where a block starts.
    SeekSkipsData,
    /// rmdir removes a directory that is not empty.
    RemovesFullDirectory,
    /// Names with one hash are taken for the first of them.
    HashTrusted,
    /// A file that cannot have its attributes stays without them.
    WholeInSteps,
}

impl Bug {
    /// All planted bugs.
    pub const ALL: [Bug; 26] = [
        Bug::ReplacedKeepsLink,
        Bug::ListSkips,
        Bug::ListRepeats,
        Bug::CookieSlips,
        Bug::TruncateKeepsBytes,
        Bug::LinksOffByOne,
        Bug::UnlinkWrongName,
        Bug::WriteLosesByte,
        Bug::HoleTooLong,
        Bug::NoReplaceReplaces,
        Bug::ExchangeForgets,
        Bug::WhiteoutForgotten,
        Bug::ChmodDropsSticky,
        Bug::TimesInSeconds,
        Bug::FollowsLastLink,
        Bug::CreateReplacesXattr,
        Bug::LongTargetCut,
        Bug::LongestNameLost,
        Bug::PermissionsIgnored,
        Bug::SetIdsSurvive,
        Bug::ReopenForgets,
        Bug::SizeLags,
        Bug::SeekSkipsData,
        Bug::RemovesFullDirectory,
        Bug::HashTrusted,
        Bug::WholeInSteps,
    ];
}

/// An engine with a planted bug.
pub struct Buggy {
    inner: Box<dyn Engine>,
    bug: Bug,
    extra_links: HashMap<u64, u32>,
    cut: HashMap<u64, (u64, Vec<u8>)>,
    last_made: Option<(Handle, Vec<u8>)>,
    lagging: HashSet<u64>,
}

impl Buggy {
    /// Wraps `inner` with `bug`.
    pub fn new(inner: Box<dyn Engine>, bug: Bug) -> Self {
        Buggy {
            inner,
            bug,
            extra_links: HashMap::new(),
            cut: HashMap::new(),
            last_made: None,
            lagging: HashSet::new(),
        }
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == bug
    }

    fn seen(&self, mut stat: Stat) -> Stat {
        stat.links += self.extra_links.get(&stat.id).copied().unwrap_or(0);
        if self.has(Bug::TimesInSeconds) {
            for time in &mut stat.times[..2] {
                if let Stamp::Exactly(exact) = time {
                    *time = Stamp::Exactly(Time::from_parts(exact.seconds(), 0));
                }
            }
        }
        if self.lagging.contains(&stat.id) {
            stat.size = stat.size.saturating_sub(1);
        }
        stat
    }

    fn believed(&self, caller: &Caller) -> Caller {
        if self.has(Bug::PermissionsIgnored) { Caller { user: None } } else { caller.clone() }
    }

    /// Remembers the bytes that a truncation cuts off; `bring_back` restores them when the file grows over
    /// them.
    fn cut_or_grow(&mut self, handle: Handle, before: &Stat, size: u64) -> EngineResult<()> {
        if size < before.size {
            let mut tail = vec![0; (before.size - size).min(4096) as usize];
            let n = self.inner.read(&Caller::OWNER, handle, size, &mut tail)?;
            tail.truncate(n);
            self.cut.insert(before.id, (size, tail));
        }
        Ok(())
    }

    fn bring_back(&mut self, handle: Handle, before: &Stat, size: u64) -> EngineResult<()> {
        if size > before.size
            && let Some((at, bytes)) = self.cut.remove(&before.id)
        {
            let room = size.saturating_sub(at).min(bytes.len() as u64) as usize;
            self.inner.write(&Caller::OWNER, handle, at, &bytes[..room])?;
        }
        Ok(())
    }
}

impl Engine for Buggy {
    fn begin(&mut self) {
        self.inner.begin();
    }

    fn forget(&mut self, handle: Handle) {
        self.inner.forget(handle);
    }

    fn root(&mut self) -> Handle {
        self.inner.root()
    }

    fn resolve(
        &mut self,
        caller: &Caller,
        base: Option<Handle>,
        path: &[u8],
        follow: bool,
    ) -> EngineResult<Handle> {
        let (caller, follow) = (self.believed(caller), follow || self.has(Bug::FollowsLastLink));
        self.inner.resolve(&caller, base, path, follow)
    }

    fn resolve_many(
        &mut self,
        caller: &Caller,
        base: Option<Handle>,
        paths: &[Vec<u8>],
        follow: bool,
    ) -> Vec<EngineResult<Stat>> {
        let (caller, follow) = (self.believed(caller), follow || self.has(Bug::FollowsLastLink));
        let answers = self.inner.resolve_many(&caller, base, paths, follow);
        answers.into_iter().map(|answer| answer.map(|stat| self.seen(stat))).collect()
    }

    fn lookup(&mut self, caller: &Caller, dir: Handle, name: &[u8]) -> EngineResult<Handle> {
        if self.has(Bug::LongestNameLost) && name.len() == 255 {
            return Err(Code::NotFound.into());
        }
        let caller = self.believed(caller);
        if self.has(Bug::HashTrusted) {
            let [first, others @ ..] = one_hash::names() else { return Err(Code::NotFound.into()) };
            if others.iter().any(|other| other == name)
                && let Ok(found) = self.inner.lookup(&caller, dir, first)
            {
                return Ok(found);
            }
        }
        self.inner.lookup(&caller, dir, name)
    }

    fn stat(&mut self, handle: Handle) -> EngineResult<Stat> {
        let stat = self.inner.stat(handle)?;
        Ok(self.seen(stat))
    }

    fn set(&mut self, caller: &Caller, handle: Handle, set: &SetAttr) -> EngineResult<Stat> {
        let (caller, mut set) = (self.believed(caller), *set);
        if self.has(Bug::ChmodDropsSticky) {
            set.perm = set.perm.map(|perm| perm & !0o1000);
        }
        if self.has(Bug::TruncateKeepsBytes)
            && let Some(size) = set.size
        {
            let before = self.inner.stat(handle)?;
            if before.kind == FileKind::File {
                self.cut_or_grow(handle, &before, size)?;
                self.inner.set(&caller, handle, &set)?;
                self.bring_back(handle, &before, size)?;
                return self.inner.stat(handle);
            }
        }
        let stat = self.inner.set(&caller, handle, &set)?;
        Ok(self.seen(stat))
    }

    fn create(&mut self, caller: &Caller, dir: Handle, name: &[u8], perm: u16) -> EngineResult<Stat> {
        let caller = self.believed(caller);
        let made = self.inner.create(&caller, dir, name, perm)?;
        if self.has(Bug::ReopenForgets) {
            self.last_made = Some((self.inner.stat(dir)?.id, name.to_vec()));
        }
        Ok(made)
    }

    fn create_whole(
        &mut self,
        caller: &Caller,
        dir: Handle,
        name: &[u8],
        content: &[u8],
        set: &SetAttr,
    ) -> EngineResult<Stat> {
        let caller = self.believed(caller);
        if self.has(Bug::WholeInSteps) {
            self.inner.create(&caller, dir, name, 0o600)?;
            let made = self.inner.lookup(&Caller::OWNER, dir, name)?;
            self.inner.write(&caller, made, 0, content)?;
            return self.inner.set(&caller, made, set);
        }
        self.inner.create_whole(&caller, dir, name, content, set)
    }

    fn mknod(
        &mut self,
        caller: &Caller,
        dir: Handle,
        name: &[u8],
        kind: FileKind,
        perm: u16,
        rdev: u64,
    ) -> EngineResult<Stat> {
        let caller = self.believed(caller);
        self.inner.mknod(&caller, dir, name, kind, perm, rdev)
    }

    fn mkdir(&mut self, caller: &Caller, dir: Handle, name: &[u8], perm: u16) -> EngineResult<Stat> {
        let caller = self.believed(caller);
        self.inner.mkdir(&caller, dir, name, perm)
    }

    fn symlink(&mut self, caller: &Caller, dir: Handle, name: &[u8], target: &[u8]) -> EngineResult<Stat> {
        let caller = self.believed(caller);
        self.inner.symlink(&caller, dir, name, target)
    }

    fn readlink(&mut self, handle: Handle) -> EngineResult<Vec<u8>> {
        let mut target = self.inner.readlink(handle)?;
        if self.has(Bug::LongTargetCut) && target.len() > 160 {
            target.pop();
        }
        Ok(target)
    }

    fn link(&mut self, caller: &Caller, handle: Handle, dir: Handle, name: &[u8]) -> EngineResult<Stat> {
        let caller = self.believed(caller);
        let stat = self.inner.link(&caller, handle, dir, name)?;
        if self.has(Bug::LinksOffByOne) {
            *self.extra_links.entry(stat.id).or_default() += 1;
        }
        Ok(self.seen(stat))
    }

    fn unlink(&mut self, caller: &Caller, dir: Handle, name: &[u8]) -> EngineResult<()> {
        let caller = self.believed(caller);
        if self.has(Bug::UnlinkWrongName) && self.inner.lookup(&caller, dir, name).is_ok() {
            let page = self.inner.list(&caller, dir, 0, 50)?;
            if let Some((other, _, _)) =
                page.iter().find(|(other, kind, _)| other != name && *kind == FileKind::File)
            {
                return self.inner.unlink(&caller, dir, &other.clone());
            }
        }
        self.inner.unlink(&caller, dir, name)
    }

    fn rmdir(&mut self, caller: &Caller, dir: Handle, name: &[u8]) -> EngineResult<()> {
        let caller = self.believed(caller);
        match self.inner.rmdir(&caller, dir, name) {
            Err(error)
                if error.code == Code::NotEmpty && name != b".." && self.has(Bug::RemovesFullDirectory) =>
            {
                self.inner.remove_all(&caller, dir, name)
            }
            other => other,
        }
    }

    fn rename(
        &mut self,
        caller: &Caller,
        from: (Handle, &[u8]),
        to: (Handle, &[u8]),
        mode: RenameMode,
    ) -> EngineResult<()> {
        let caller = self.believed(caller);
        let replaced = match self.inner.lookup(&caller, to.0, to.1) {
            Ok(found) if self.has(Bug::ReplacedKeepsLink) => self.inner.stat(found).ok(),
            _ => None,
        };
        let mode = match mode {
            RenameMode::NoReplace if self.has(Bug::NoReplaceReplaces) => RenameMode::Replace,
            RenameMode::Whiteout if self.has(Bug::WhiteoutForgotten) => RenameMode::Replace,
            RenameMode::Exchange
                if self.has(Bug::ExchangeForgets)
                    && self.inner.lookup(&caller, from.0, from.1).is_ok()
                    && self.inner.lookup(&caller, to.0, to.1).is_ok() =>
            {
                return Ok(());
            }
            mode => mode,
        };
        let source = self.inner.lookup(&caller, from.0, from.1).and_then(|found| self.inner.stat(found));
        self.inner.rename(&caller, from, to, mode)?;
        if let Some(stat) = replaced
            && mode == RenameMode::Replace
            && stat.kind != FileKind::Directory
            && source.is_ok_and(|source| source.id != stat.id)
        {
            *self.extra_links.entry(stat.id).or_default() += 1;
        }
        Ok(())
    }

    fn list(&mut self, caller: &Caller, dir: Handle, cookie: u64, max: usize) -> EngineResult<Page> {
        let caller = self.believed(caller);
        let mut page = self.inner.list(&caller, dir, cookie, max)?;
        match self.bug {
            Bug::ListSkips if page.len() > 5 => drop(page.remove(3)),
            Bug::ListRepeats if page.len() > 5 => page[3] = page[2].clone(),
            Bug::CookieSlips if cookie != 0 && page.len() > 1 => drop(page.remove(0)),
            _ => {}
        }
        Ok(page)
    }

    fn read(
        &mut self,
        caller: &Caller,
        handle: Handle,
        offset: u64,
        buffer: &mut [u8],
    ) -> EngineResult<usize> {
        let caller = self.believed(caller);
        self.inner.read(&caller, handle, offset, buffer)
    }

    fn write(&mut self, caller: &Caller, handle: Handle, offset: u64, data: &[u8]) -> EngineResult<usize> {
        let caller = self.believed(caller);
        let before = self.inner.stat(handle)?;
        if self.has(Bug::WriteLosesByte) && data.len() > 4096 {
            return Ok(self.inner.write(&caller, handle, offset, &data[..data.len() - 1])? + 1);
        }
        let n = self.inner.write(&caller, handle, offset, data)?;
        if self.has(Bug::SetIdsSurvive) && n > 0 && before.perm & 0o6000 != 0 {
            let set = SetAttr { perm: Some(before.perm), ..SetAttr::default() };
            self.inner.set(&Caller::OWNER, handle, &set)?;
        }
        if self.has(Bug::SizeLags) && n > 0 && offset == before.size && offset % 4096 + (n as u64) < 4096 {
            self.lagging.insert(before.id);
        }
        Ok(n)
    }

    fn fallocate(
        &mut self,
        caller: &Caller,
        handle: Handle,
        mode: Allocate,
        offset: u64,
        len: u64,
    ) -> EngineResult<()> {
        let caller = self.believed(caller);
        let longer = self.has(Bug::HoleTooLong) && mode == Allocate::PunchHole && len > 0;
        self.inner.fallocate(&caller, handle, mode, offset, len + u64::from(longer))
    }

    fn seek(&mut self, handle: Handle, offset: u64, what: Seek) -> EngineResult<u64> {
        let found = self.inner.seek(handle, offset, what)?;
        if self.has(Bug::SeekSkipsData) && what == Seek::Data && !found.is_multiple_of(4096) {
            let size = self.inner.stat(handle)?.size;
            return Ok(found.next_multiple_of(4096).min(size - 1));
        }
        Ok(found)
    }

    fn getxattr(&mut self, caller: &Caller, handle: Handle, name: &[u8]) -> EngineResult<Vec<u8>> {
        let caller = self.believed(caller);
        self.inner.getxattr(&caller, handle, name)
    }

    fn setxattr(
        &mut self,
        caller: &Caller,
        handle: Handle,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> EngineResult<()> {
        let caller = self.believed(caller);
        let mode = match mode {
            XattrMode::Create if self.has(Bug::CreateReplacesXattr) => XattrMode::Set,
            mode => mode,
        };
        self.inner.setxattr(&caller, handle, name, value, mode)
    }

    fn listxattr(&mut self, handle: Handle) -> EngineResult<Vec<Vec<u8>>> {
        self.inner.listxattr(handle)
    }

    fn removexattr(&mut self, caller: &Caller, handle: Handle, name: &[u8]) -> EngineResult<()> {
        let caller = self.believed(caller);
        self.inner.removexattr(&caller, handle, name)
    }

    fn mkdir_all(&mut self, path: &[u8], perm: u16) -> EngineResult<Stat> {
        self.inner.mkdir_all(path, perm)
    }

    fn remove_all(&mut self, caller: &Caller, dir: Handle, name: &[u8]) -> EngineResult<()> {
        let caller = self.believed(caller);
        self.inner.remove_all(&caller, dir, name)
    }

    fn sync(&mut self) -> EngineResult<()> {
        self.inner.sync()
    }

    fn reopen(&mut self) -> EngineResult<()> {
        self.inner.reopen()?;
        if let Some((dir, name)) = self.last_made.take() {
            // The directory may have been removed meanwhile; then there is nothing to forget.
            let _ = self.inner.unlink(&Caller::OWNER, dir, &name);
        }
        Ok(())
    }

    fn check(&mut self) -> EngineResult<Vec<String>> {
        self.inner.check()
    }

    fn free_bytes(&mut self) -> Option<u64> {
        self.inner.free_bytes()
    }
}
