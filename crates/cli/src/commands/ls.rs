//! `lanefs ls`.

use crate::ahead::Ahead;
use crate::cli::Run;
use crate::context::{Context, join, json_name};
use crate::engine::EngineArgs;
use crate::exit::{Failure, Outcome};
use crate::size::human;
use crate::walk::list;
use crate::{bytes, mode, time, users};
use clap::Args;
use lanefs::{Attr, FileKind, Ino};
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::Write;

/// List directories
///
/// Sorted by name, byte by byte. Times are in UTC.
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
    /// Show attributes, one entry a line
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
    /// Show directories themselves, not what is in them
    #[arg(short, long)]
    directory: bool,
    /// One name a line, as always where the output is no terminal
    #[arg(short = '1')]
    one: bool,
    /// With -l: sizes like 1.5K and 8.0G
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// With -l: numbers for owner and group
    #[arg(short, long)]
    numeric: bool,
    /// Show the inode number first
    #[arg(short, long)]
    inode: bool,
    /// Escape names as on a terminal: control characters and invalid UTF-8 as \xNN, a backslash as \\
    #[arg(short = 'b', long)]
    escape: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// One JSON object a line, with all attributes
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    engine: EngineArgs,
    /// What to list; the root directory (in a shell: the working directory) without it
    #[arg(value_name = "PATH")]
    paths: Vec<OsString>,
}

/// An entry to be printed.
struct Row {
    name: Vec<u8>,
    path: Vec<u8>,
    attr: Attr,
    target: Option<Vec<u8>>,
}

impl Run for Ls {
    fn run(&self, context: &mut Context<'_>) -> Outcome {
        let terminal = context.terminal;
        context.terminal |= self.escape;
        let outcome = self.list_all(context);
        context.terminal = terminal;
        outcome
    }
}

impl Ls {
    fn list_all(&self, context: &mut Context<'_>) -> Outcome {
        let here = [OsString::from(".")];
        let paths = if self.paths.is_empty() { &here[..] } else { &self.paths };
        let mut files = Vec::new();
        let mut dirs = Vec::new();
        for path in paths {
            let path = bytes::of(path);
            // As in ls(1), a link to a directory given by name is listed unless its own attributes are asked for.
            let outcome = context
                .resolve(path, !(self.long || self.directory || self.json) || path.ends_with(b"/"))
                .or_else(|failure| context.resolve(path, false).map_err(|_| failure))
                .and_then(|attr| match attr.kind {
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
        let headings = paths.len() > 1 || self.recursive;
        let mut first = files.is_empty();
        if !files.is_empty() {
            self.print(context, &files)?;
        }
        let tops: Vec<Ino> = dirs.iter().map(|(_, ino)| *ino).collect();
        let depth = if self.recursive { None } else { Some(0) };
        let mut ahead = Ahead::load(&self.engine, context, &tops, depth, self.long || self.json)?;
        let mut seen = HashSet::new();
        dirs.reverse();
        while let Some((path, ino)) = dirs.pop() {
            if self.recursive && !seen.insert(ino) {
                // Named twice on the command line, or by a damaged volume.
                continue;
            }
            if headings && !self.json {
                let mut line = if first { Vec::new() } else { b"\n".to_vec() };
                context.push_name(&mut line, &path);
                line.extend_from_slice(b":\n");
                context.out.write_all(&line)?;
            }
            first = false;
            let outcome = self
                .directory(context, &path, ino, &mut ahead)
                .map(|below| dirs.extend(below.into_iter().rev()));
            context.go_on(outcome)?;
        }
        Ok(())
    }

    /// Lists one directory; returns those below it that are to be listed.
    fn directory(
        &self,
        context: &mut Context<'_>,
        path: &[u8],
        dir: Ino,
        ahead: &mut Ahead,
    ) -> Result<Vec<(Vec<u8>, Ino)>, Failure> {
        let mut entries = match ahead.take(dir) {
            Some(mut listed) => {
                listed.sort_unstable_by(|a, b| a.name.cmp(&b.name));
                listed
            }
            None => list(context.volume, path, dir)?,
        };
        if !self.all && !self.almost_all {
            entries.retain(|entry| !entry.name.starts_with(b"."));
        }
        let mut rows = Vec::with_capacity(entries.len());
        let mut below = Vec::new();
        if self.all {
            for name in [&b"."[..], b".."] {
                let whole = join(path, name);
                let attr = context.resolve(&whole, true)?;
                rows.push(self.row(context, name.to_vec(), whole, attr)?);
            }
        }
        let needs_attributes = self.long || self.json;
        for entry in entries {
            let whole = join(path, &entry.name);
            if self.recursive && entry.kind == FileKind::Directory {
                below.push((whole.clone(), entry.ino));
            }
            let attr = if needs_attributes {
                ahead.attr(entry.ino).map_or_else(|| context.attr(&whole, entry.ino), Ok)
            } else {
                Ok(bare(entry.ino, entry.kind))
            };
            match attr.and_then(|attr| self.row(context, entry.name, whole, attr)) {
                Ok(row) => rows.push(row),
                Err(failure) => context.go_on(Err(failure))?,
            }
        }
        if self.long && !self.json {
            let blocks: u64 = rows.iter().map(|row| row.attr.blocks).fold(0, u64::saturating_add);
            let kib = blocks.saturating_mul(4);
            let total = if self.human_readable { human(kib.saturating_mul(1024)) } else { kib.to_string() };
            writeln!(context.out, "total {total}")?;
        }
        self.print(context, &rows)?;
        Ok(below)
    }

    fn row(&self, context: &Context<'_>, name: Vec<u8>, path: Vec<u8>, attr: Attr) -> Result<Row, Failure> {
        let wants_target = self.long || self.json;
        let target = if wants_target { super::stat::target(context, &path, &attr)? } else { None };
        Ok(Row { name, path, attr, target })
    }

    fn print(&self, context: &mut Context<'_>, rows: &[Row]) -> Outcome {
        match () {
            () if self.json => rows.iter().try_for_each(|row| json(context, row)),
            () if self.long => self.print_long(context, rows),
            () if self.one || !context.terminal || self.escape => rows.iter().try_for_each(|row| {
                let mut line = self.inode_column(row);
                context.push_name(&mut line, &row.name);
                line.push(b'\n');
                Ok(context.out.write_all(&line)?)
            }),
            () => self.print_columns(context, rows),
        }
    }

    fn inode_column(&self, row: &Row) -> Vec<u8> {
        if self.inode { format!("{} ", row.attr.ino).into_bytes() } else { Vec::new() }
    }

    fn print_long(&self, context: &mut Context<'_>, rows: &[Row]) -> Outcome {
        let cells: Vec<[String; 4]> = rows.iter().map(|row| self.cells(&row.attr)).collect();
        let width = |column: usize| cells.iter().map(|c| c[column].chars().count()).max().unwrap_or(0);
        let (links, owner, group, size) = (width(0), width(1), width(2), width(3));
        for (row, cell) in rows.iter().zip(&cells) {
            let mut line = self.inode_column(row);
            let fixed = format!(
                "{} {:>links$} {:<owner$} {:<group$} {:>size$} {} ",
                mode::text(row.attr.kind, row.attr.perm),
                cell[0],
                cell[1],
                cell[2],
                cell[3],
                time::short(row.attr.mtime),
            );
            line.extend_from_slice(fixed.as_bytes());
            context.push_name(&mut line, &row.name);
            if let Some(target) = &row.target {
                line.extend_from_slice(b" -> ");
                context.push_name(&mut line, target);
            }
            line.push(b'\n');
            context.out.write_all(&line)?;
        }
        Ok(())
    }

    /// Links, owner, group and size as text.
    fn cells(&self, attr: &Attr) -> [String; 4] {
        let (owner, group) = match self.numeric {
            true => (attr.uid.to_string(), attr.gid.to_string()),
            false => (users::user(attr.uid), users::group(attr.gid)),
        };
        let size = match attr.kind {
            FileKind::CharDevice | FileKind::BlockDevice => {
                let (major, minor) = super::stat::device_numbers(attr.rdev);
                format!("{major}, {minor}")
            }
            _ if self.human_readable => human(attr.size),
            _ => attr.size.to_string(),
        };
        [attr.links.to_string(), owner, group, size]
    }

    /// Names in columns, as many as the terminal is wide.
    fn print_columns(&self, context: &mut Context<'_>, rows: &[Row]) -> Outcome {
        let names: Vec<String> = rows
            .iter()
            .map(|row| {
                String::from_utf8_lossy(&self.inode_column(row)).into_owned()
                    + &crate::escape::escape(&row.name)
            })
            .collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0) + 2;
        let columns = (terminal_columns() / width).max(1);
        let height = names.len().div_ceil(columns);
        for line in 0..height {
            let mut text = String::new();
            for name in names.iter().skip(line).step_by(height) {
                text.push_str(&format!("{name:<width$}"));
            }
            writeln!(context.out, "{}", text.trim_end())?;
        }
        Ok(())
    }
}

fn terminal_columns() -> usize {
    let set = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    set.or_else(crate::console::columns).filter(|columns| *columns > 0).unwrap_or(80)
}

fn json(context: &mut Context<'_>, row: &Row) -> Outcome {
    let mut object = serde_json::Map::new();
    json_name(&mut object, "name", &row.name);
    json_name(&mut object, "path", &row.path);
    super::stat::json_attr(&mut object, &row.attr);
    if let Some(target) = &row.target {
        json_name(&mut object, "target", target);
    }
    Ok(writeln!(context.out, "{}", serde_json::Value::Object(object))?)
}

/// What a directory entry alone tells; for listings that show no more.
fn bare(ino: Ino, kind: FileKind) -> Attr {
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
