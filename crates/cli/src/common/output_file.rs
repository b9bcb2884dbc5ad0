//! A regular file of the volume that a command writes.
//!
//! A file that was there keeps its old content until the new one is complete, and after any failure. Content
//! of [`AT_ONCE`] bytes at most without holes replaces the old one in one transaction, in the same inode.
//! More goes into a new inode, which takes over the name, and with it owner, mode and extended attributes.

use crate::session::context::{Context, Place};
use crate::terminal::failure::{Failure, Outcome, REMOVE_OR_RENAME};
use lanefs::{Attr, Code, FileKind, FileSystem, Ino, SetAttr, path};
use lanefs_transfer::Replacement;

/// Bytes of a content that is kept until it is complete.
pub const AT_ONCE: usize = 1 << 20;

/// Symbolic links that lead to a file at most.
const MAX_LINKS: usize = 40;

/// A regular file of the volume that a command is about to write.
pub struct OutputFile {
    /// Its attributes before the command.
    pub attr: Attr,
    /// The directory in which its path begins, and the path from there.
    from: (Ino, Vec<u8>),
    /// Its whole path, for messages.
    path: Vec<u8>,
    content: Content,
}

/// The place of new content.
enum Content {
    /// The file, which the command created: directory and name.
    Created(Ino, Vec<u8>),
    /// The file, to which the command appends.
    Appended,
    /// Memory, as yet.
    Held(Vec<u8>),
    /// A new file.
    New(Replacement),
}

impl OutputFile {
    /// Opens the file, or creates it with the permissions `perm`.
    ///
    /// # Errors
    /// Names the path: no such directory, not a regular file, no space.
    pub fn open(context: &Context<'_, impl FileSystem>, at: Place<'_>, perm: u16) -> Result<Self, Failure> {
        let path = at.shown;
        let from = (at.base, at.path.to_vec());
        let opened = |attr, content| Ok(OutputFile { attr, from, path: path.to_vec(), content });
        match context.try_resolve_place(at, true)? {
            Ok(attr) => match attr.kind {
                FileKind::File => opened(attr, Content::Held(Vec::new())),
                FileKind::Directory => Err(Failure::code(path, Code::IsDirectory)),
                kind => {
                    let what = format!("a {} of this name exists", kind.word());
                    Err(Failure::partial(path, &what, REMOVE_OR_RENAME))
                }
            },
            Err(Code::NotFound) if path.ends_with(b"/") => Err(Failure::code(path, Code::NotDirectory)),
            Err(Code::NotFound) => {
                let (dir, name) = context.parent_of_place(at)?;
                let created = context.volume.create_file(dir, name, perm);
                let attr = created.map_err(|error| match error.code() {
                    Code::Exists => {
                        Failure::partial(path, "is a symbolic link without a target", REMOVE_OR_RENAME)
                    }
                    _ => Failure::volume(path, &error),
                })?;
                opened(attr, Content::Created(dir, name.to_vec()))
            }
            Err(code) => Err(Failure::code(path, code)),
        }
    }

    /// The same file, whose content stays: all that is written follows it.
    pub fn appending(self) -> Self {
        let content = match self.content {
            Content::Held(_) => Content::Appended,
            content => content,
        };
        OutputFile { content, ..self }
    }

    /// Writes all of `data` at `offset`, which is at or after the end of all that was written.
    ///
    /// # Errors
    /// Names the path.
    pub fn write(&mut self, context: &Context<'_, impl FileSystem>, offset: u64, data: &[u8]) -> Outcome {
        if let Content::Held(held) = &mut self.content {
            if held.len() as u64 == offset && held.len() + data.len() <= AT_ONCE {
                held.extend_from_slice(data);
                return Ok(());
            }
            self.begin_new(context)?;
        }
        let written = context.volume.write(self.ino(), offset, data);
        written.map(drop).map_err(|e| Failure::volume(&self.path, &e))
    }

    /// Ends the file at `size`, which may be after a hole. From here on the file has the new content.
    ///
    /// # Errors
    /// Names the path.
    pub fn finish(&mut self, context: &Context<'_, impl FileSystem>, size: u64) -> Outcome {
        if let Content::Held(held) = &self.content {
            if held.len() as u64 == size {
                let replaced = context.volume.replace(self.attr.ino, held);
                if replaced.map_err(|e| Failure::volume(&self.path, &e))? {
                    return Ok(());
                }
            }
            self.begin_new(context)?;
        }
        self.set_size(context, size)?;
        let Content::New(new) = &self.content else { return Ok(()) };
        new.finish(context.volume).map_err(|e| Failure::volume(&self.path, &e))
    }

    /// Removes what the command created, after a failure.
    pub fn abandon(&self, context: &Context<'_, impl FileSystem>) {
        match &self.content {
            Content::Created(dir, name) => {
                // The user needs the first failure, not one of this call.
                let _ = context.volume.unlink(*dir, name);
            }
            Content::New(new) => new.abandon(context.volume),
            Content::Appended | Content::Held(_) => {}
        }
    }

    /// The inode that is written.
    fn ino(&self) -> Ino {
        if let Content::New(new) = &self.content { new.ino() } else { self.attr.ino }
    }

    fn set_size(&self, context: &Context<'_, impl FileSystem>, size: u64) -> Outcome {
        if context.attr(&self.path, self.ino())?.size == size {
            return Ok(());
        }
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        context.volume.setattr(self.ino(), set).map(drop).map_err(|e| Failure::volume(&self.path, &e))
    }

    /// Goes on in a new file.
    fn begin_new(&mut self, context: &Context<'_, impl FileSystem>) -> Outcome {
        let failed = |e: lanefs::Error| Failure::volume(&self.path, &e);
        let at = Place { base: self.from.0, path: &self.from.1, shown: &self.path };
        let (dir, name) = entry_of(context, at)?;
        let new = Replacement::begin(context.volume, dir, &name, self.attr.ino).map_err(failed)?;
        if let Content::Held(held) = &self.content
            && let Err(error) = context.volume.write(new.ino(), 0, held)
        {
            new.abandon(context.volume);
            return Err(failed(error));
        }
        self.content = Content::New(new);
        Ok(())
    }
}

/// Directory and name of the file to which a path leads, through symbolic links.
fn entry_of(context: &Context<'_, impl FileSystem>, at: Place<'_>) -> Result<(Ino, Vec<u8>), Failure> {
    let file = at.shown;
    let failed = |e: lanefs::Error| Failure::volume(file, &e);
    let (dir, name) = context.parent_of_place(at)?;
    let (mut dir, mut name) = (dir, name.to_vec());
    for _ in 0..MAX_LINKS {
        let (ino, kind) = context.volume.lookup(dir, &name).map_err(failed)?;
        if kind != FileKind::Symlink {
            return Ok((dir, name));
        }
        let target = context.volume.readlink(ino).map_err(failed)?;
        let (above, last) =
            path::split_last(&target).ok_or_else(|| Failure::code(file, Code::IsDirectory))?;
        if !above.is_empty() {
            let found = context.volume.resolve_at(dir, above, true).map_err(failed)?;
            dir = found.ino.ok_or_else(|| Failure::code(file, found.code))?;
        }
        name = last.to_vec();
    }
    Err(Failure::code(file, Code::SymlinkLoop))
}
