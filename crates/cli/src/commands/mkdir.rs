//! `lanefs mkdir`.

use crate::bytes;
use crate::cli::Run;
use crate::context::{Context, OWNER, split};
use crate::exit::{Failure, Outcome};
use crate::mode::ModeChange;
use clap::Args;
use lanefs::{Code, FileKind, SetAttr};
use std::ffi::OsString;

/// Make directories
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs mkdir v.lane /photos /music
  lanefs mkdir v.lane -p -m 700 /a/b/c")]
pub struct Mkdir {
    /// Make missing directories on the way too; what exists is no error
    #[arg(short, long)]
    parents: bool,
    /// Permissions of the new directories named, as of chmod; 755 without it
    #[arg(short, long, value_parser = ModeChange::parse)]
    mode: Option<ModeChange>,
    /// What to make
    #[arg(value_name = "DIR", required = true)]
    paths: Vec<OsString>,
}

impl Run for Mkdir {
    fn changes(&self) -> bool {
        true
    }

    fn run(&self, context: &mut Context<'_>) -> Outcome {
        for path in &self.paths {
            let path = bytes::of(path);
            let outcome = if self.parents { self.make_all(context, path) } else { self.make(context, path) };
            context.go_on(outcome)?;
        }
        Ok(())
    }
}

impl Mkdir {
    fn perm(&self) -> u16 {
        // Symbolic modes start from 777, as mkdir(1) has it.
        self.mode.as_ref().map_or(0o755, |mode| mode.apply(FileKind::Directory, 0o777))
    }

    fn make(&self, context: &Context<'_>, path: &[u8]) -> Outcome {
        let (dir, name) = match context.try_resolve(path, false)? {
            // `.`, `..` and the root have no entry that `parent` could name, but they do exist.
            Ok(_) => return Err(Failure::code(path, Code::Exists)),
            Err(_) => context.parent(path)?,
        };
        let made = context.volume.mkdir(&OWNER, dir, name, self.perm());
        made.map(drop).map_err(|e| Failure::volume(path, &e))
    }

    fn make_all(&self, context: &Context<'_>, path: &[u8]) -> Outcome {
        // Prefixes are resolved longest first, so that a deep path that exists costs one call.
        let mut missing = Vec::new();
        let mut head = path;
        let base = loop {
            if head.is_empty() {
                break context.cwd_ino;
            }
            match context.try_resolve(head, true)? {
                Ok(attr) if attr.kind == FileKind::Directory => break attr.ino,
                Ok(_) => return Err(Failure::code(head, Code::NotDirectory)),
                Err(Code::NotFound | Code::ComponentNotFound) => {
                    let (before, name) = split(head);
                    if name.is_empty() {
                        break context.cwd_ino;
                    }
                    missing.push(name);
                    head = before;
                }
                Err(code) => return Err(Failure::code(head, code)),
            }
        };
        let mut dir = base;
        while let Some(name) = missing.pop() {
            crate::interrupt::check()?;
            dir = match name {
                b"." => dir,
                b".." => context.volume.lookup(&OWNER, dir, name).map_err(|e| Failure::volume(path, &e))?.0,
                name => {
                    context.volume.mkdir(&OWNER, dir, name, 0o755).map_err(|e| Failure::volume(path, &e))?.ino
                }
            };
            if missing.is_empty() && self.mode.is_some() {
                let set = SetAttr { perm: Some(self.perm()), ..SetAttr::default() };
                context.volume.setattr(&OWNER, dir, &set).map_err(|e| Failure::volume(path, &e))?;
            }
        }
        Ok(())
    }
}
