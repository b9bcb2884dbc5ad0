//! `lanefs cat`.

use crate::session::command::Command;
use crate::session::context::{Context, OWNER, Place};
use crate::session::expansion::ExpansionArgs;
use crate::terminal::failure::{Failure, Outcome, check_interrupt};
use crate::text::bytes;
use clap::Args;
use lanefs::{Code, FileKind, Ino, ResolveOptions};
use std::ffi::OsString;
use std::io::Write;

/// Bytes in one read.
const CHUNK_BYTES: usize = 1 << 20;
/// Paths that are looked up together at most.
const BROUGHT_PATHS: usize = 512;

/// Print files to standard output
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs cat v.lane /etc/hosts
  lanefs cat v.lane part1 part2 > whole")]
pub struct Cat {
    #[command(flatten)]
    expansion: ExpansionArgs,
    /// Files to print
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
}

impl Command for Cat {
    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut brought = if self.paths.len() > 1 { 0 } else { usize::MAX };
        for (number, path) in self.paths.iter().enumerate() {
            if number == brought {
                brought += bring(context, &self.paths[number..])?;
            }
            let outcome = self.print(context, bytes::of(path), &mut buffer);
            context.go_on(outcome)?;
        }
        Ok(())
    }

    fn max_expansion(&self) -> u64 {
        self.expansion.max_expansion
    }
}

/// Fetches the content of the next files together. Returns their number, one at least.
fn bring(context: &Context<'_>, paths: &[OsString]) -> Result<usize, Failure> {
    check_interrupt()?;
    let places: Vec<Place<'_>> =
        paths.iter().take(BROUGHT_PATHS).map(|path| context.place(bytes::of(path))).collect();
    let Some(first) = places.first() else { return Ok(1) };
    let options = ResolveOptions { base: Some(first.base), follow: true, ..ResolveOptions::default() };
    let names: Vec<&[u8]> = places.iter().map(|place| place.path).collect();
    // A name that cannot be looked up here fails when it is read.
    let Ok(found) = context.volume.resolve_batch(&options, &names) else { return Ok(names.len()) };
    let files = found.iter().enumerate().filter(|(_, found)| found.kind == Some(FileKind::File));
    let (numbers, inodes): (Vec<usize>, Vec<Ino>) =
        files.filter_map(|(number, found)| Some((number, found.ino?))).unzip();
    let count = context.volume.bring_files(&inodes);
    Ok(numbers.get(count).copied().unwrap_or(names.len()).max(1))
}

impl Cat {
    fn print(&self, context: &mut Context<'_>, path: &[u8], buffer: &mut [u8]) -> Outcome {
        let attr = context.resolve(path, true)?;
        match attr.kind {
            FileKind::File => {}
            FileKind::Directory => return Err(Failure::code(path, Code::IsDirectory)),
            kind => {
                let what = format!("is a {} and has no content", kind.word());
                return Err(Failure::partial(path, &what, "name a regular file"));
            }
        }
        let advice = "copy it with `lanefs cp`, which keeps holes, or use --max-expansion";
        let volume_bytes = context.volume.superblock().volume_bytes;
        self.expansion.check(volume_bytes, path, attr.size, advice)?;
        let mut offset = 0;
        loop {
            check_interrupt()?;
            let read = context.volume.read(&OWNER, attr.ino, offset, buffer);
            let count = read.map_err(|e| Failure::volume(path, &e))?;
            let Some(data) = buffer.get(..count).filter(|data| !data.is_empty()) else { return Ok(()) };
            context.out.write_all(data)?;
            offset += count as u64;
        }
    }
}
