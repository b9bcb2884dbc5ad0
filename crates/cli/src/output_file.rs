//! A regular file of the volume that a command writes.

use crate::context::Context;
use crate::failure::{Failure, Outcome, REMOVE_OR_RENAME};
use lanefs::{Attr, Code, FileKind, FileSystem, Ino, SetAttr};

/// A regular file of the volume that a command is about to write.
pub struct OutputFile {
    /// Its attributes before the command.
    pub attr: Attr,
    /// Directory and name, if the command created the file.
    created: Option<(Ino, Vec<u8>)>,
}

impl OutputFile {
    /// Opens the file, or creates it with the permissions `perm`.
    ///
    /// # Errors
    /// Names the path: no such directory, not a regular file, no space.
    pub fn open(context: &Context<'_, impl FileSystem>, path: &[u8], perm: u16) -> Result<Self, Failure> {
        match context.try_resolve(path, true)? {
            Ok(attr) => match attr.kind {
                FileKind::File => Ok(OutputFile { attr, created: None }),
                FileKind::Directory => Err(Failure::code(path, Code::IsDirectory)),
                kind => {
                    let what = format!("a {} of this name exists", kind.word());
                    Err(Failure::partial(path, &what, REMOVE_OR_RENAME))
                }
            },
            Err(Code::NotFound) if path.ends_with(b"/") => Err(Failure::code(path, Code::NotDirectory)),
            Err(Code::NotFound) => {
                let (dir, name) = context.parent(path)?;
                let created = context.volume.create_file(dir, name, perm);
                let attr = created.map_err(|error| match error.code() {
                    Code::Exists => {
                        Failure::partial(path, "is a symbolic link without a target", REMOVE_OR_RENAME)
                    }
                    _ => Failure::volume(path, &error),
                })?;
                Ok(OutputFile { attr, created: Some((dir, name.to_vec())) })
            }
            Err(code) => Err(Failure::code(path, code)),
        }
    }

    /// Truncates the file to `size`.
    ///
    /// # Errors
    /// Names the path.
    pub fn truncate(&self, context: &Context<'_, impl FileSystem>, path: &[u8], size: u64) -> Outcome {
        if self.attr.size == size {
            return Ok(());
        }
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        context.volume.setattr(self.attr.ino, set).map(drop).map_err(|e| Failure::volume(path, &e))
    }

    /// Removes the file after a failure, if the command created it.
    pub fn abandon(&self, context: &Context<'_, impl FileSystem>) {
        if let Some((dir, name)) = &self.created {
            // The user needs the first failure, not one of this call.
            let _ = context.volume.unlink(*dir, name);
        }
    }
}
