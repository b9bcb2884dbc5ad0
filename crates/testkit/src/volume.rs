//! A LaneFS volume as the engine under test, in memory or in a file.

use crate::engine::{Engine, EngineError, EngineResult, Handle, Page, Stat};
use crate::naive::Naive;
use crate::one_hash;
use lanefs::{
    Allocate, Caller, CheckReport, CreateOptions, Error, Ino, InodeSize, OpenOptions, RenameMode,
    ResolveOptions, Seek, SetAttr, Volume, XattrMode,
};
use lanefs_format::{Code, FileKind};
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

impl From<Error> for EngineError {
    fn from(error: Error) -> Self {
        match error {
            Error::Code(code) => EngineError { broken: breaks(code), ..EngineError::from(code) },
            other => {
                let code = other.code();
                let broken = breaks(code) || matches!(other, Error::Damaged { .. } | Error::Io { .. });
                EngineError { code, text: other.to_string(), broken }
            }
        }
    }
}

/// Returns true for codes that a sound volume never returns.
fn breaks(code: Code) -> bool {
    code.is_damage() || matches!(code, Code::Io | Code::NotResident | Code::StaleEpoch)
}

/// UUID of every volume that tests make, so that images are the same each time.
const TEST_UUID: [u8; 16] = *b"lanefs-testkit-1";

/// Options for a volume of `size` bytes whose names hash the same each time, many of them to the same:
/// [`one_hash`].
pub fn options(size: u64, inode_size: InodeSize) -> CreateOptions {
    CreateOptions {
        size,
        inode_size,
        force: true,
        label: "testkit".to_owned(),
        uuid: Some(TEST_UUID),
        seed: Some(one_hash::SEED),
        data_checksums: true,
        mode: None,
    }
}

/// Returns a line for each finding of a check.
pub fn findings(report: &CheckReport) -> Vec<String> {
    report.findings.iter().map(|f| format!("{} at {:#x}: {}", f.invariant, f.at, f.text)).collect()
}

/// A difference between the engine and the second reader.
fn contradiction(text: String) -> EngineError {
    let text = format!("the second reader: {text}");
    EngineError { code: Code::InvariantViolated, text, broken: true }
}

/// The backing of the volume's bytes.
#[derive(Clone, Debug)]
enum Backing {
    Memory,
    File(PathBuf),
}

/// A volume under test.
pub struct VolumeEngine {
    volume: Option<Volume>,
    backing: Backing,
}

impl VolumeEngine {
    /// Creates a volume in memory.
    ///
    /// # Errors
    /// Those of [`Volume::create_memory`].
    pub fn memory(options: &CreateOptions) -> EngineResult<Self> {
        Ok(VolumeEngine { volume: Some(Volume::create_memory(options)?), backing: Backing::Memory })
    }

    /// Creates a volume in the file `path`.
    ///
    /// # Errors
    /// Those of [`Volume::create`].
    pub fn file(path: PathBuf, options: &CreateOptions) -> EngineResult<Self> {
        Ok(VolumeEngine { volume: Some(Volume::create(&path, options)?), backing: Backing::File(path) })
    }

    /// Returns the volume, unless a failed reopen lost it.
    ///
    /// # Errors
    /// `StaleInode` where it was lost.
    pub fn volume(&self) -> EngineResult<&Volume> {
        self.volume.as_ref().ok_or_else(|| Code::StaleInode.into())
    }
}

impl Engine for VolumeEngine {
    fn root(&mut self) -> Handle {
        self.volume.as_ref().map_or(0, |volume| volume.root().0)
    }

    fn resolve(
        &mut self,
        caller: &Caller,
        base: Option<Handle>,
        path: &[u8],
        follow: bool,
    ) -> EngineResult<Handle> {
        let options =
            ResolveOptions { base: base.map(Ino), follow, attributes: false, caller: caller.clone() };
        let answers = self.volume()?.resolve_batch(&options, &[path])?;
        let answer = answers.first().ok_or(Code::InvariantViolated)?;
        match (answer.code, answer.ino) {
            (Code::Success, Some(ino)) => Ok(ino.0),
            (Code::Success, None) => Err(Code::InvariantViolated.into()),
            (code, _) => Err(code.into()),
        }
    }

    fn resolve_many(
        &mut self,
        caller: &Caller,
        base: Option<Handle>,
        paths: &[Vec<u8>],
        follow: bool,
    ) -> Vec<EngineResult<Stat>> {
        let options =
            ResolveOptions { base: base.map(Ino), follow, attributes: true, caller: caller.clone() };
        let answers = match self.volume().and_then(|v| Ok(v.resolve_batch(&options, paths)?)) {
            Ok(answers) => answers,
            Err(error) => return vec![Err(error); paths.len()],
        };
        let one = |answer: &lanefs::Resolution| match (answer.code, &answer.attr) {
            (Code::Success, Some(attr)) if answer.ino == Some(attr.ino) && answer.kind == Some(attr.kind) => {
                Ok(Stat::from(attr))
            }
            (Code::Success, _) => Err(Code::InvariantViolated.into()),
            (code, _) => Err(code.into()),
        };
        answers.iter().map(one).collect()
    }

    fn lookup(&mut self, caller: &Caller, dir: Handle, name: &[u8]) -> EngineResult<Handle> {
        let (ino, kind) = self.volume()?.lookup(caller, Ino(dir), name)?;
        if self.volume()?.getattr(ino)?.kind != kind {
            return Err(Code::InvariantViolated.into());
        }
        Ok(ino.0)
    }

    fn stat(&mut self, handle: Handle) -> EngineResult<Stat> {
        Ok(Stat::from(&self.volume()?.getattr(Ino(handle))?))
    }

    fn set(&mut self, caller: &Caller, handle: Handle, set: &SetAttr) -> EngineResult<Stat> {
        Ok(Stat::from(&self.volume()?.setattr(caller, Ino(handle), set)?))
    }

    fn create(&mut self, caller: &Caller, dir: Handle, name: &[u8], perm: u16) -> EngineResult<Stat> {
        Ok(Stat::from(&self.volume()?.create_file(caller, Ino(dir), name, perm)?))
    }

    fn create_whole(
        &mut self,
        caller: &Caller,
        dir: Handle,
        name: &[u8],
        content: &[u8],
        set: &SetAttr,
    ) -> EngineResult<Stat> {
        let made = self.volume()?.create_whole(caller, Ino(dir), name, content, set)?;
        // Operations have no content that takes more than a transaction.
        let made = made.ok_or_else(|| EngineError {
            code: Code::InvariantViolated,
            text: format!("a file of {} bytes does not come in one step", content.len()),
            broken: true,
        })?;
        Ok(Stat::from(&made))
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
        Ok(Stat::from(&self.volume()?.mknod(caller, Ino(dir), name, kind, perm, rdev)?))
    }

    fn mkdir(&mut self, caller: &Caller, dir: Handle, name: &[u8], perm: u16) -> EngineResult<Stat> {
        Ok(Stat::from(&self.volume()?.mkdir(caller, Ino(dir), name, perm)?))
    }

    fn symlink(&mut self, caller: &Caller, dir: Handle, name: &[u8], target: &[u8]) -> EngineResult<Stat> {
        Ok(Stat::from(&self.volume()?.symlink_at(caller, Ino(dir), name, target)?))
    }

    fn readlink(&mut self, handle: Handle) -> EngineResult<Vec<u8>> {
        Ok(self.volume()?.readlink(Ino(handle))?)
    }

    fn link(&mut self, caller: &Caller, handle: Handle, dir: Handle, name: &[u8]) -> EngineResult<Stat> {
        Ok(Stat::from(&self.volume()?.link(caller, Ino(handle), Ino(dir), name)?))
    }

    fn unlink(&mut self, caller: &Caller, dir: Handle, name: &[u8]) -> EngineResult<()> {
        Ok(self.volume()?.unlink(caller, Ino(dir), name)?)
    }

    fn rmdir(&mut self, caller: &Caller, dir: Handle, name: &[u8]) -> EngineResult<()> {
        Ok(self.volume()?.rmdir(caller, Ino(dir), name)?)
    }

    fn rename(
        &mut self,
        caller: &Caller,
        from: (Handle, &[u8]),
        to: (Handle, &[u8]),
        mode: RenameMode,
    ) -> EngineResult<()> {
        Ok(self.volume()?.rename_at(caller, Ino(from.0), from.1, Ino(to.0), to.1, mode)?)
    }

    fn list(&mut self, caller: &Caller, dir: Handle, cookie: u64, max: usize) -> EngineResult<Page> {
        let entries = self.volume()?.readdir(caller, Ino(dir), cookie, max)?;
        if entries.len() > max {
            return Err(Code::BufferTooSmall.into());
        }
        Ok(entries.into_iter().map(|entry| (entry.name, entry.kind, entry.cookie)).collect())
    }

    fn read(
        &mut self,
        caller: &Caller,
        handle: Handle,
        offset: u64,
        buffer: &mut [u8],
    ) -> EngineResult<usize> {
        Ok(self.volume()?.read(caller, Ino(handle), offset, buffer)?)
    }

    fn write(&mut self, caller: &Caller, handle: Handle, offset: u64, data: &[u8]) -> EngineResult<usize> {
        Ok(self.volume()?.write(caller, Ino(handle), offset, data)?)
    }

    fn fallocate(
        &mut self,
        caller: &Caller,
        handle: Handle,
        mode: Allocate,
        offset: u64,
        len: u64,
    ) -> EngineResult<()> {
        Ok(self.volume()?.fallocate(caller, Ino(handle), mode, offset, len)?)
    }

    fn seek(&mut self, handle: Handle, offset: u64, what: Seek) -> EngineResult<u64> {
        Ok(self.volume()?.seek(Ino(handle), offset, what)?)
    }

    fn getxattr(&mut self, caller: &Caller, handle: Handle, name: &[u8]) -> EngineResult<Vec<u8>> {
        Ok(self.volume()?.getxattr(caller, Ino(handle), name)?)
    }

    fn setxattr(
        &mut self,
        caller: &Caller,
        handle: Handle,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> EngineResult<()> {
        Ok(self.volume()?.setxattr(caller, Ino(handle), name, value, mode)?)
    }

    fn listxattr(&mut self, handle: Handle) -> EngineResult<Vec<Vec<u8>>> {
        Ok(self.volume()?.listxattr(Ino(handle))?)
    }

    fn removexattr(&mut self, caller: &Caller, handle: Handle, name: &[u8]) -> EngineResult<()> {
        Ok(self.volume()?.removexattr(caller, Ino(handle), name)?)
    }

    fn mkdir_all(&mut self, path: &[u8], perm: u16) -> EngineResult<Stat> {
        Ok(Stat::from(&self.volume()?.mkdir_all(path, perm)?))
    }

    fn remove_all(&mut self, caller: &Caller, dir: Handle, name: &[u8]) -> EngineResult<()> {
        Ok(self.volume()?.remove_all_with(caller, Ino(dir), name, |_, done| done)?)
    }

    fn sync(&mut self) -> EngineResult<()> {
        Ok(self.volume()?.sync()?)
    }

    fn reopen(&mut self) -> EngineResult<()> {
        let volume = self.volume.take().ok_or(Code::StaleInode)?;
        self.volume = Some(match &self.backing {
            Backing::Memory => {
                let bytes = volume.to_bytes()?;
                drop(volume);
                let tree =
                    Naive::open(&&bytes[..]).and_then(|reader| reader.tree()).map_err(contradiction)?;
                let volume = Volume::from_bytes(bytes)?;
                tree.compare(&volume).map_err(contradiction)?;
                volume
            }
            Backing::File(path) => {
                volume.close()?;
                let file = File::open(path).map_err(|error| contradiction(error.to_string()))?;
                let tree = Naive::open(&file).and_then(|reader| reader.tree()).map_err(contradiction)?;
                // Commits run beside the operations, so that operations meet commits at any point.
                let options = OpenOptions {
                    commit_every: Duration::from_millis(3),
                    cache: Some(1 << 20),
                    ..OpenOptions::default()
                };
                let volume = Volume::open(path, options)?;
                tree.compare(&volume).map_err(contradiction)?;
                volume
            }
        });
        Ok(())
    }

    fn check(&mut self) -> EngineResult<Vec<String>> {
        Ok(findings(&self.volume()?.check(false, &|_, _| {})?))
    }

    fn free_bytes(&mut self) -> Option<u64> {
        let statfs = self.volume.as_ref()?.statfs().ok()?;
        Some(statfs.free_blocks * statfs.block_size)
    }
}
