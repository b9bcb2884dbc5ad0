//! Changes of a volume that follow from a seed and a number, for tests that crash or break the layers below a
//! volume. The model can compute the state after each of them, long after the volume is gone.
//!
//! Content is written once, into an empty file, and truncated as a whole: a crash leaves content that was
//! overwritten in place undefined, so it cannot be compared.

mod tree;

pub use tree::{StepEntry, StepTree, tree_of_model, tree_of_volume};

use crate::engine::{Engine, EngineError, EngineResult, Handle};
use crate::model::{Model, ROOT};
use crate::ops::Data;
use crate::seeded::Seeded;
use lanefs::{Caller, Code, Ino, RenameMode, SetAttr, Volume, XattrMode};

const CALLER: Caller = Caller::OWNER;
/// Number of directories that steps work in: [`prepare`] creates them, and they stay.
const DIRECTORIES: u64 = 4;
/// Number of names of files and of directories in each.
const NAMES: u64 = 60;
const SUBDIRECTORIES: u64 = 4;
/// The extended attribute that steps set.
pub(crate) const XATTR: &[u8] = b"user.step";

/// A name in one of the directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At {
    /// Path of the directory.
    dir: String,
    /// The name.
    name: String,
}

/// One change. It fails where its names are not as it needs them, in the model as on the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the call of lanefs::Volume that bears its name, or near it")]
pub enum Step {
    Create(At),
    /// Creates a file with its content and permissions in one step.
    Whole(At, Data, u16),
    /// Writes the content of an empty file.
    Fill(At, Data),
    /// Truncates a file to zero.
    Empty(At),
    Unlink(At),
    Link(At, At),
    Symlink(At, String),
    Mkdir(At),
    Rmdir(At),
    Rename(At, At, RenameMode),
    Chmod(At, u16),
    Xattr(At, Data),
}

/// Creates the directories that steps work in.
///
/// # Errors
/// Those of the volume.
pub fn prepare(volume: &Volume) -> lanefs::Result<()> {
    (0..DIRECTORIES).try_for_each(|dir| volume.mkdir_all(format!("/d{dir}"), 0o755).map(|_| ()))
}

/// Returns the model of a prepared volume.
///
/// # Errors
/// None on a sound model.
pub fn prepared_model() -> EngineResult<Model> {
    let mut model = Model::default();
    for dir in 0..DIRECTORIES {
        model.mkdir_all(format!("/d{dir}").as_bytes(), 0o755)?;
    }
    Ok(model)
}

impl At {
    fn random(random: &mut Seeded, names: u64) -> Self {
        let dir = format!("/d{}", random.below(DIRECTORIES));
        let number = random.below(names);
        // Long names, so that a directory has several blocks.
        let name = if names == SUBDIRECTORIES {
            format!("sub{number}")
        } else if number.is_multiple_of(2) {
            format!("{number:0120}")
        } else {
            number.to_string()
        };
        At { dir, name }
    }
}

impl Step {
    /// Returns step `number` of the sequence `seed`.
    pub fn new(seed: u64, number: u64) -> Self {
        let mut random = Seeded::new(seed.wrapping_mul(0x9e37_79b9) ^ number << 20);
        let at = At::random(&mut random, NAMES);
        let data =
            |random: &mut Seeded, lengths: &[usize]| Data { len: *random.pick(lengths), seed: random.bits() };
        match random.below(100) {
            0..20 => Step::Create(at),
            20..28 => {
                let data = data(&mut random, &[0, 10, 90, 500, 4096, 5000, 12_000]);
                Step::Whole(at, data, 0o600 | random.below(64) as u16)
            }
            28..50 => Step::Fill(at, data(&mut random, &[10, 90, 500, 4096, 5000, 12_000])),
            50..55 => Step::Empty(at),
            55..68 => Step::Unlink(at),
            68..73 => Step::Link(at, At::random(&mut random, NAMES)),
            73..76 => Step::Symlink(at, format!("../d0/{}", random.below(NAMES))),
            76..80 => Step::Mkdir(At::random(&mut random, SUBDIRECTORIES)),
            80..83 => Step::Rmdir(At::random(&mut random, SUBDIRECTORIES)),
            83..94 => {
                let mode = *random.pick(&RenameMode::ALL);
                if random.chance(20) {
                    let [from, to] = [(); 2].map(|()| At::random(&mut random, SUBDIRECTORIES));
                    return Step::Rename(from, to, mode);
                }
                Step::Rename(at, At::random(&mut random, NAMES), mode)
            }
            94..97 => Step::Chmod(at, 0o600 | random.below(64) as u16),
            _ => Step::Xattr(at, data(&mut random, &[0, 20, 300])),
        }
    }

    /// Executes the step on a volume. Returns its inode, so that the caller can sync it alone.
    ///
    /// # Errors
    /// Those of the volume.
    pub fn on_volume(&self, volume: &Volume) -> lanefs::Result<Ino> {
        let dir = |at: &At| volume.resolve(&at.dir).map(|attr| attr.ino);
        let find = |at: &At| Ok::<_, lanefs::Error>(volume.lookup(&CALLER, dir(at)?, at.name.as_bytes())?.0);
        Ok(match self {
            Step::Create(at) => volume.create_file(&CALLER, dir(at)?, at.name.as_bytes(), 0o644)?.ino,
            Step::Whole(at, data, perm) => {
                let (dir, name) = (dir(at)?, at.name.as_bytes());
                let made = volume.create_whole(&CALLER, dir, name, &data.bytes(), &chmod(*perm))?;
                // All steps have room in one transaction.
                made.ok_or(Code::InvariantViolated)?.ino
            }
            Step::Fill(at, data) => {
                let ino = find(at)?;
                if volume.getattr(ino)?.size > 0 {
                    return Err(Code::Exists.into());
                }
                volume.write(&CALLER, ino, 0, &data.bytes())?;
                ino
            }
            Step::Empty(at) => volume.setattr(&CALLER, find(at)?, &EMPTY)?.ino,
            Step::Unlink(at) => {
                let dir = dir(at)?;
                volume.unlink(&CALLER, dir, at.name.as_bytes())?;
                dir
            }
            Step::Link(at, new) => volume.link(&CALLER, find(at)?, dir(new)?, new.name.as_bytes())?.ino,
            Step::Symlink(at, target) => {
                volume.symlink_at(&CALLER, dir(at)?, at.name.as_bytes(), target.as_bytes())?.ino
            }
            Step::Mkdir(at) => volume.mkdir(&CALLER, dir(at)?, at.name.as_bytes(), 0o755)?.ino,
            Step::Rmdir(at) => {
                let dir = dir(at)?;
                volume.rmdir(&CALLER, dir, at.name.as_bytes())?;
                dir
            }
            Step::Rename(at, new, mode) => {
                let (from, to) = (dir(at)?, dir(new)?);
                volume.rename_at(&CALLER, from, at.name.as_bytes(), to, new.name.as_bytes(), *mode)?;
                to
            }
            Step::Chmod(at, perm) => volume.setattr(&CALLER, find(at)?, &chmod(*perm))?.ino,
            Step::Xattr(at, data) => {
                let ino = find(at)?;
                volume.setxattr(&CALLER, ino, XATTR, &data.bytes(), XattrMode::Set)?;
                ino
            }
        })
    }

    /// Executes the step on the model.
    ///
    /// # Errors
    /// Ordinary failures, with the same codes as the volume's.
    pub fn on_model(&self, model: &mut Model) -> EngineResult<()> {
        match self {
            Step::Create(at) => {
                let dir = directory(model, at)?;
                model.create(&CALLER, dir, at.name.as_bytes(), 0o644)?;
            }
            Step::Whole(at, data, perm) => {
                let dir = directory(model, at)?;
                model.create_whole(&CALLER, dir, at.name.as_bytes(), &data.bytes(), &chmod(*perm))?;
            }
            Step::Fill(at, data) => {
                let node = find(model, at)?;
                if model.stat(node)?.size > 0 {
                    return Err(Code::Exists.into());
                }
                model.write(&CALLER, node, 0, &data.bytes())?;
            }
            Step::Empty(at) => {
                let node = find(model, at)?;
                model.set(&CALLER, node, &EMPTY)?;
            }
            Step::Unlink(at) => {
                let dir = directory(model, at)?;
                model.unlink(&CALLER, dir, at.name.as_bytes())?;
            }
            Step::Link(at, new) => {
                let (node, dir) = (find(model, at)?, directory(model, new)?);
                model.link(&CALLER, node, dir, new.name.as_bytes())?;
            }
            Step::Symlink(at, target) => {
                let dir = directory(model, at)?;
                model.symlink(&CALLER, dir, at.name.as_bytes(), target.as_bytes())?;
            }
            Step::Mkdir(at) => {
                let dir = directory(model, at)?;
                model.mkdir(&CALLER, dir, at.name.as_bytes(), 0o755)?;
            }
            Step::Rmdir(at) => {
                let dir = directory(model, at)?;
                model.rmdir(&CALLER, dir, at.name.as_bytes())?;
            }
            Step::Rename(at, new, mode) => {
                let (from, to) = (directory(model, at)?, directory(model, new)?);
                model.rename(&CALLER, (from, at.name.as_bytes()), (to, new.name.as_bytes()), *mode)?;
            }
            Step::Chmod(at, perm) => {
                let node = find(model, at)?;
                model.set(&CALLER, node, &chmod(*perm))?;
            }
            Step::Xattr(at, data) => {
                let node = find(model, at)?;
                model.setxattr(&CALLER, node, XATTR, &data.bytes(), XattrMode::Set)?;
            }
        }
        Ok(())
    }
}

const EMPTY: SetAttr = SetAttr { perm: None, uid: None, gid: None, size: Some(0), atime: None, mtime: None };

fn chmod(perm: u16) -> SetAttr {
    SetAttr { perm: Some(perm), ..SetAttr::default() }
}

fn directory(model: &mut Model, at: &At) -> Result<Handle, EngineError> {
    model.lookup(&CALLER, ROOT, at.dir.trim_start_matches('/').as_bytes())
}

fn find(model: &mut Model, at: &At) -> Result<Handle, EngineError> {
    let dir = directory(model, at)?;
    model.lookup(&CALLER, dir, at.name.as_bytes())
}
