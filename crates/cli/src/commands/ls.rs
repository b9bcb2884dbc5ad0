//! `lanefs ls`.

mod print;

use crate::common::engine::{EngineArgs, Prefetched};
use crate::common::walk::list;
use crate::session::command::Command;
use crate::session::context::Context;
use crate::terminal::failure::{Failure, Outcome};
use crate::text::bytes;
use crate::text::size::human;
use clap::Args;
use lanefs::format::BLOCK;
use lanefs::{Attr, DirEntry, FileKind, Ino, path};
use print::{ListingFormat, ListingRow};
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::Write;

/// List directories
///
/// Sorts by name, byte by byte. Times are in UTC.
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:
  lanefs ls v.lane
  lanefs ls v.lane -la /etc
  lanefs ls v.lane -R --json / | jq -r .path
  lanefs ls v.lane -lR --engine gpu /data

Columns of -l: type and permissions, links, owner, group, size (major, minor for a device), time
of the last change of content, name -> target of a symbolic link."
)]
pub struct Ls {
    /// Show attributes, one entry per line
    #[arg(short, long)]
    long: bool,
    /// Show names that begin with a dot, `.` and `..` too
    #[arg(short, long)]
    all: bool,
    /// Show names that begin with a dot, but neither `.` nor `..`
    #[arg(short = 'A', long)]
    almost_all: bool,
    /// Enter directories, to any depth
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Show directories themselves, not their entries
    #[arg(short, long)]
    directory: bool,
    /// Print one name per line, as always if the output is not a terminal
    #[arg(short = '1')]
    one: bool,
    /// With -l: print sizes like 1.5K and 8.0G
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// With -l: print numbers for owner and group
    #[arg(short, long)]
    numeric: bool,
    /// Print the inode number first
    #[arg(short, long)]
    inode: bool,
    /// Escape names as on a terminal: control characters and invalid UTF-8 as \xNN, a backslash as \\
    #[arg(short = 'b', long)]
    escape: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Print one JSON object per line, with all attributes
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    engine: EngineArgs,
    /// Files and directories to list [default: the root directory; in a shell the working directory]
    #[arg(value_name = "PATH")]
    paths: Vec<OsString>,
}

impl Command for Ls {
    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        let terminal = context.terminal;
        context.terminal |= self.escape;
        let outcome = self.list_all(context);
        context.terminal = terminal;
        outcome
    }
}

impl Ls {
    fn list_all(&self, context: &mut Context<'_>) -> Outcome {
        let mut files = Vec::new();
        let mut dirs = Vec::new();
        for path in bytes::or_here(&self.paths) {
            let outcome = self.resolve(context, path).and_then(|attr| match attr.kind {
                FileKind::Directory if !self.directory => {
                    dirs.push((path.to_vec(), attr.ino));
                    Ok(())
                }
                _ => {
                    files.push(self.row(context, path.to_vec(), path.to_vec(), attr)?);
                    Ok(())
                }
            });
            context.go_on(outcome)?;
        }
        if !files.is_empty() {
            self.format().print(context, &files)?;
        }
        let has_headings = (self.paths.len() > 1 || self.recursive) && !self.json;
        self.list_directories(context, dirs, has_headings, files.is_empty())
    }

    /// Resolves a path of the command line. As in ls(1), a link to a directory is followed unless its own
    /// attributes are wanted.
    fn resolve(&self, context: &Context<'_>, path: &[u8]) -> Result<Attr, Failure> {
        let follow = !(self.long || self.directory || self.json) || path.ends_with(b"/");
        context.resolve(path, follow).or_else(|failure| context.resolve(path, false).map_err(|_| failure))
    }

    /// Lists directories in order, each followed by those below it if the listing is recursive.
    fn list_directories(
        &self,
        context: &mut Context<'_>,
        mut dirs: Vec<(Vec<u8>, Ino)>,
        has_headings: bool,
        mut is_first: bool,
    ) -> Outcome {
        let tops: Vec<Ino> = dirs.iter().map(|(_, ino)| *ino).collect();
        let depth = if self.recursive { None } else { Some(0) };
        let mut prefetched = Prefetched::load(&self.engine, context, &tops, depth, self.needs_attributes())?;
        let mut listed = HashSet::new();
        dirs.reverse();
        while let Some((path, ino)) = dirs.pop() {
            if self.recursive && !listed.insert(ino) {
                // The command line may name one below another.
                if !tops.contains(&ino) {
                    context.go_on(Err(Failure::damage(&path, "the directory has more than one name")))?;
                }
                continue;
            }
            if has_headings {
                let mut line = if is_first { Vec::new() } else { b"\n".to_vec() };
                context.push_name(&mut line, &path);
                line.extend_from_slice(b":\n");
                context.out.write_all(&line)?;
            }
            is_first = false;
            let listed = self.list_directory(context, &path, ino, &mut prefetched);
            let outcome = listed.map(|below| dirs.extend(below.into_iter().rev()));
            context.go_on(outcome)?;
        }
        Ok(())
    }

    /// Lists one directory and returns the directories in it, if the listing is recursive.
    fn list_directory(
        &self,
        context: &mut Context<'_>,
        path: &[u8],
        dir: Ino,
        prefetched: &mut Prefetched,
    ) -> Result<Vec<(Vec<u8>, Ino)>, Failure> {
        let entries = self.entries(context, path, dir, prefetched)?;
        let mut rows = Vec::with_capacity(entries.len());
        let mut below = Vec::new();
        if self.all {
            for name in [&b"."[..], b".."] {
                let whole = path::join(path, name);
                let attr = context.resolve(&whole, true)?;
                rows.push(self.row(context, name.to_vec(), whole, attr)?);
            }
        }
        for entry in entries {
            let whole = path::join(path, &entry.name);
            if self.recursive && entry.kind == FileKind::Directory {
                below.push((whole.clone(), entry.ino));
            }
            let attr = if self.needs_attributes() {
                prefetched.attr(entry.ino).map_or_else(|| context.attr(&whole, entry.ino), Ok)
            } else {
                Ok(attributes_of_entry(entry.ino, entry.kind))
            };
            match attr.and_then(|attr| self.row(context, entry.name, whole, attr)) {
                Ok(row) => rows.push(row),
                Err(failure) => context.go_on(Err(failure))?,
            }
        }
        if self.long && !self.json {
            self.print_total(context, &rows)?;
        }
        self.format().print(context, &rows)?;
        Ok(below)
    }

    /// Entries of a directory, sorted by name.
    fn entries(
        &self,
        context: &Context<'_>,
        path: &[u8],
        dir: Ino,
        prefetched: &mut Prefetched,
    ) -> Result<Vec<DirEntry>, Failure> {
        let mut entries = match prefetched.take(dir) {
            Some(mut entries) => {
                entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
                entries
            }
            None => list(context.volume, path, dir)?,
        };
        if !self.all && !self.almost_all {
            entries.retain(|entry| !entry.name.starts_with(b"."));
        }
        Ok(entries)
    }

    fn print_total(&self, context: &mut Context<'_>, rows: &[ListingRow]) -> Outcome {
        let blocks: u64 = rows.iter().map(|row| row.attr.blocks).fold(0, u64::saturating_add);
        let bytes = blocks.saturating_mul(BLOCK);
        let total = if self.human_readable { human(bytes) } else { (bytes / 1024).to_string() };
        Ok(writeln!(context.out, "total {total}")?)
    }

    fn needs_attributes(&self) -> bool {
        self.long || self.json
    }

    fn row(
        &self,
        context: &Context<'_>,
        name: Vec<u8>,
        path: Vec<u8>,
        attr: Attr,
    ) -> Result<ListingRow, Failure> {
        let target = if self.needs_attributes() { context.link_target(&path, &attr)? } else { None };
        Ok(ListingRow { name, path, attr, target })
    }

    fn format(&self) -> ListingFormat {
        ListingFormat {
            json: self.json,
            long: self.long,
            one_per_line: self.one || self.escape,
            inode: self.inode,
            numeric: self.numeric,
            human_readable: self.human_readable,
        }
    }
}

/// The attributes in a directory entry, for listings that show no others.
fn attributes_of_entry(ino: Ino, kind: FileKind) -> Attr {
    let time = lanefs::Time(0);
    Attr {
        ino,
        kind,
        perm: 0,
        links: 0,
        uid: 0,
        gid: 0,
        size: 0,
        blocks: 0,
        rdev: 0,
        mtime: time,
        ctime: time,
        atime: time,
        btime: time,
        generation: 0,
    }
}
