//! `lanefs rm`.

use crate::bytes;
use crate::cli::Run;
use crate::context::{Context, OWNER, join};
use crate::exit::{self, Failure, Outcome};
use crate::progress::Progress;
use clap::Args;
use lanefs::{Code, DirEntry, FileKind, Ino};
use std::ffi::OsString;

/// Entries read at once.
const PAGE: usize = 4096;

/// Remove files, and with -r directories with all that they hold
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs rm v.lane /tmp/a /tmp/b
  lanefs rm v.lane -r /tmp
  lanefs find v.lane / --name '*.o' --print0 | xargs -0 lanefs rm v.lane")]
pub struct Rm {
    /// Remove directories with all that they hold
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,
    /// What does not exist is no error
    #[arg(short, long)]
    force: bool,
    /// What to remove
    #[arg(value_name = "PATH", required_unless_present = "force")]
    paths: Vec<OsString>,
}

impl Run for Rm {
    fn changes(&self) -> bool {
        true
    }

    fn run(&self, context: &mut Context<'_>) -> Outcome {
        let mut progress = Progress::new("removed");
        for path in &self.paths {
            let outcome = self.remove(context, bytes::of(path), &mut progress);
            context.go_on(outcome)?;
        }
        Ok(())
    }
}

impl Rm {
    fn remove(&self, context: &mut Context<'_>, path: &[u8], progress: &mut Progress) -> Outcome {
        let kind = match context.try_resolve(path, false)? {
            Ok(attr) => attr.kind,
            Err(Code::NotFound | Code::ComponentNotFound) if self.force => return Ok(()),
            Err(code) => return Err(Failure::code(path, code)),
        };
        let (dir, name) = context.parent(path)?;
        if kind != FileKind::Directory {
            if path.ends_with(b"/") {
                return Err(Failure::code(path, Code::NotDirectory));
            }
            return context.volume.unlink(&OWNER, dir, name).map_err(|e| Failure::volume(path, &e));
        }
        if !self.recursive {
            return Err(Failure::new(
                exit::PARTIAL,
                path,
                "is a directory",
                "use -r to remove it with all it holds",
            ));
        }
        let (ino, _) = context.volume.lookup(&OWNER, dir, name).map_err(|e| Failure::volume(path, &e))?;
        empty(context, path, ino, progress)?;
        context.volume.rmdir(&OWNER, dir, name).map_err(|e| Failure::volume(path, &e))
    }
}

/// A directory that is being emptied.
struct Frame {
    dir: Ino,
    name: Vec<u8>,
    cookie: u64,
    subdirectories: Vec<DirEntry>,
    path_len: usize,
}

impl Frame {
    fn new(dir: Ino, name: Vec<u8>, path_len: usize) -> Self {
        Frame { dir, name, cookie: 0, subdirectories: Vec::new(), path_len }
    }
}

/// Removes all that a directory holds. What cannot be removed is reported and left, with the directories above it.
fn empty(context: &mut Context<'_>, path: &[u8], dir: Ino, progress: &mut Progress) -> Outcome {
    let mut path = path.to_vec();
    let mut frames = vec![Frame::new(dir, Vec::new(), path.len())];
    let mut failed = false;
    while let Some(frame) = frames.last_mut() {
        crate::interrupt::check()?;
        path.truncate(frame.path_len);
        if let Some(entry) = frame.subdirectories.pop() {
            // A directory that contains itself: only a damaged volume has one.
            if frames.iter().any(|frame| frame.dir == entry.ino) {
                let what = "the directory contains itself";
                context.go_on(Err(Failure::new(
                    exit::IMAGE,
                    &path,
                    what,
                    "run `lanefs fsck` on the image",
                )))?;
                failed = true;
                continue;
            }
            path = join(&path, &entry.name);
            frames.push(Frame::new(entry.ino, entry.name, path.len()));
            continue;
        }
        let page = context.volume.readdir(&OWNER, frame.dir, frame.cookie, PAGE);
        let page = page.map_err(|e| Failure::volume(&path, &e))?;
        let Some(last) = page.last() else {
            let done = frames.pop();
            if let (Some(done), Some(above)) = (done, frames.last()) {
                match context.volume.rmdir(&OWNER, above.dir, &done.name) {
                    Ok(()) => progress.tick(),
                    // Its entries that are left were reported already.
                    Err(error) if failed && error.code() == Code::NotEmpty => {}
                    Err(error) => {
                        failed = true;
                        left(context, Failure::volume(&path, &error))?;
                    }
                }
            }
            continue;
        };
        frame.cookie = last.cookie;
        let dir = frame.dir;
        for entry in page {
            if entry.kind == FileKind::Directory {
                frame.subdirectories.push(entry);
                continue;
            }
            match context.volume.unlink(&OWNER, dir, &entry.name) {
                Ok(()) => progress.tick(),
                Err(error) => {
                    failed = true;
                    left(context, Failure::volume(join(&path, &entry.name), &error))?;
                }
            }
        }
    }
    Ok(())
}

/// Tells of what could not be removed. In a damaged volume nothing more is removed: what is left may be needed.
fn left(context: &mut Context<'_>, failure: Failure) -> Outcome {
    if failure.exit() == exit::IMAGE {
        return Err(failure);
    }
    context.go_on(Err(failure))
}
