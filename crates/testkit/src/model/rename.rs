//! renameat2(2) in its modes.

use super::permission::{WRITE, demand};
use super::{Body, Model, names::is_dots};
use crate::engine::{EngineResult, Handle};
use lanefs::{Caller, RenameMode};
use lanefs_format::{Code, FileKind};

impl Model {
    pub(super) fn move_name(
        &mut self,
        caller: &Caller,
        (old_dir, old_name): (Handle, &[u8]),
        (new_dir, new_name): (Handle, &[u8]),
        mode: RenameMode,
    ) -> EngineResult<()> {
        // The walks to both parents come before the lookup of either last name.
        self.searched(caller, old_dir, b"-")?;
        self.searched(caller, new_dir, b"-")?;
        if is_dots(old_name) {
            return Err(Code::Busy.into());
        }
        if is_dots(new_name) {
            return Err(if mode.needs_free_name() { Code::Exists } else { Code::Busy }.into());
        }
        let source = self.child(caller, old_dir, old_name)?;
        let target = match self.child(caller, new_dir, new_name) {
            Ok(found) => Some(found),
            Err(error) if error.code == Code::NotFound => None,
            Err(error) => return Err(error),
        };
        match target {
            Some(_) if mode.needs_free_name() => return Err(Code::Exists.into()),
            None if mode == RenameMode::Exchange => return Err(Code::NotFound.into()),
            _ => {}
        }
        self.refuse_loops(old_dir, new_dir, source, target, mode)?;
        if target == Some(source) {
            return Ok(());
        }
        self.may_move(caller, (old_dir, source), (new_dir, target), mode)?;
        match (mode, target) {
            (RenameMode::Exchange, Some(target)) => {
                self.detach(old_dir, old_name)?;
                self.detach(new_dir, new_name)?;
                self.insert(old_dir, old_name, target)?;
                self.insert(new_dir, new_name, source)?;
            }
            _ => {
                self.replace(new_dir, new_name, target)?;
                self.detach(old_dir, old_name)?;
                self.insert(new_dir, new_name, source)?;
                if mode.leaves_whiteout() {
                    let kind = FileKind::CharDevice;
                    self.make_unchecked(caller, old_dir, old_name, kind, 0, Body::Special)?;
                }
            }
        }
        Ok(())
    }

    /// A directory cannot move below itself, nor replace a directory that contains it.
    fn refuse_loops(
        &self,
        old_dir: Handle,
        new_dir: Handle,
        source: Handle,
        target: Option<Handle>,
        mode: RenameMode,
    ) -> EngineResult<()> {
        if self.is_above(source, new_dir) {
            return Err(Code::Invalid.into());
        }
        match target {
            Some(target) if self.is_above(target, old_dir) => {
                Err(if mode == RenameMode::Exchange { Code::Invalid } else { Code::NotEmpty }.into())
            }
            _ => Ok(()),
        }
    }

    fn may_move(
        &self,
        caller: &Caller,
        (old_dir, source): (Handle, Handle),
        (new_dir, target): (Handle, Option<Handle>),
        mode: RenameMode,
    ) -> EngineResult<()> {
        let source_is_dir = self.node(source)?.kind == FileKind::Directory;
        self.may_remove(caller, old_dir, source, source_is_dir)?;
        let mut target_is_dir = false;
        match target {
            None => demand(caller, self.node(new_dir)?, WRITE | super::permission::SEARCH)?,
            Some(target) => {
                target_is_dir = self.node(target)?.kind == FileKind::Directory;
                let as_directory = if mode == RenameMode::Exchange { target_is_dir } else { source_is_dir };
                self.may_remove(caller, new_dir, target, as_directory)?;
            }
        }
        // A directory that gets a new parent has its ".." changed, which is a write to it.
        if old_dir != new_dir {
            if source_is_dir {
                demand(caller, self.node(source)?, WRITE)?;
            }
            if let (RenameMode::Exchange, Some(target), true) = (mode, target, target_is_dir) {
                demand(caller, self.node(target)?, WRITE)?;
            }
        }
        Ok(())
    }

    fn replace(&mut self, dir: Handle, name: &[u8], target: Option<Handle>) -> EngineResult<()> {
        let Some(target) = target else { return Ok(()) };
        if self.entries(target).is_some_and(|entries| !entries.is_empty()) {
            return Err(Code::NotEmpty.into());
        }
        self.detach(dir, name)?;
        if self.node(target)?.kind == FileKind::Directory {
            self.nodes.remove(&target);
            return Ok(());
        }
        self.drop_link(target)
    }
}
