//! `lanefs write`, and how a stream becomes a file's content.

use crate::bytes;
use crate::cli::Run;
use crate::context::{Context, OWNER};
use crate::exit::{self, Failure, Outcome};
use crate::input::Input;
use clap::Args;
use lanefs::{Attr, Code, FileKind, Ino, SetAttr};
use std::ffi::OsString;
use std::io::{self, Read};

/// Bytes written at once.
pub const CHUNK: usize = 1 << 20;

/// Write standard input to a file
///
/// The file is made, or its content replaced. Where that fails a file that was made is removed again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  date | lanefs write v.lane /stamp
  tar c . | lanefs write v.lane /backup.tar
  echo more | lanefs write v.lane --append /log")]
pub struct Write {
    /// Keep the content and write behind it
    #[arg(short, long)]
    append: bool,
    /// The file
    #[arg(value_name = "PATH")]
    path: OsString,
}

impl Run for Write {
    fn changes(&self) -> bool {
        true
    }

    fn run(&self, context: &mut Context<'_>) -> Outcome {
        let path = bytes::of(&self.path);
        let target = Target::open(context, path, 0o644)?;
        let offset = if self.append { target.attr.size } else { 0 };
        let outcome =
            target.prepare(context, path, offset).and_then(|()| fill(context, path, target.attr.ino, offset));
        if outcome.is_err() {
            target.abandon(context);
        }
        outcome
    }
}

/// Copies standard input into a file.
fn fill(context: &Context<'_>, path: &[u8], ino: Ino, mut offset: u64) -> Outcome {
    let mut buffer = vec![0; CHUNK];
    let mut input = Input::default();
    loop {
        // Pipes give little at a time; whole chunks let the volume use large blocks.
        let mut filled = 0;
        while filled < buffer.len() {
            match input.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) => return Err(input_failure(&error)),
            }
        }
        let Some(data) = buffer.get(..filled).filter(|data| !data.is_empty()) else { return Ok(()) };
        context.volume.write(&OWNER, ino, offset, data).map_err(|e| Failure::volume(path, &e))?;
        offset += filled as u64;
    }
}

/// What a failure to read standard input becomes.
pub fn input_failure(error: &io::Error) -> Failure {
    match crate::interrupt::raised() {
        true => Failure::Interrupted,
        false => Failure::new(exit::HOST, "standard input", &exit::host_text(error), ""),
    }
}

/// A regular file of the volume that is about to get content.
pub struct Target {
    /// Its attributes before.
    pub attr: Attr,
    /// Directory and name, where the file was made for this.
    made: Option<(Ino, Vec<u8>)>,
}

impl Target {
    /// Finds the file, or makes it with the permissions `perm`.
    ///
    /// # Errors
    /// Name the path: no such directory, not a regular file, no space.
    pub fn open(context: &Context<'_>, path: &[u8], perm: u16) -> Result<Self, Failure> {
        match context.try_resolve(path, true)? {
            Ok(attr) => match attr.kind {
                FileKind::File => Ok(Target { attr, made: None }),
                FileKind::Directory => Err(Failure::code(path, Code::IsDirectory)),
                kind => {
                    let what = format!("is a {} in the way", kind.word());
                    Err(Failure::new(exit::PARTIAL, path, &what, "remove it first or choose another name"))
                }
            },
            Err(Code::NotFound) if path.ends_with(b"/") => Err(Failure::code(path, Code::NotDirectory)),
            Err(Code::NotFound) => {
                let (dir, name) = context.parent(path)?;
                let attr =
                    context.volume.create_file(&OWNER, dir, name, perm).map_err(|error| {
                        match error.code() {
                            Code::Exists => Failure::new(
                                exit::PARTIAL,
                                path,
                                "is a symbolic link that leads nowhere",
                                "remove it first or choose another name",
                            ),
                            _ => Failure::volume(path, &error),
                        }
                    })?;
                Ok(Target { attr, made: Some((dir, name.to_vec())) })
            }
            Err(code) => Err(Failure::code(path, code)),
        }
    }

    /// Cuts the file off at `size`.
    ///
    /// # Errors
    /// Name the path.
    pub fn prepare(&self, context: &Context<'_>, path: &[u8], size: u64) -> Outcome {
        if self.attr.size == size {
            return Ok(());
        }
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        context.volume.setattr(&OWNER, self.attr.ino, &set).map(drop).map_err(|e| Failure::volume(path, &e))
    }

    /// After a failure: removes a file that was made, so that nothing half done stays.
    pub fn abandon(&self, context: &Context<'_>) {
        if let Some((dir, name)) = &self.made {
            // The failure before this one is the one to tell.
            let _ = context.volume.unlink(&OWNER, *dir, name);
        }
    }
}
