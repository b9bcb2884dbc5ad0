//! `lanefs tree`.

use crate::common::walk::{Visit, Walk, WalkOptions, WalkStep};
use crate::session::command::Command;
use crate::session::context::Context;
use crate::terminal::failure::{Failure, Outcome};
use crate::text::{bytes, json};
use clap::Args;
use lanefs::FileKind;
use std::ffi::OsString;
use std::io::Write;

/// Show directories as a tree
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs tree v.lane -L 2
  lanefs tree v.lane -d /usr /etc")]
pub struct Tree {
    /// Show at most this many levels
    #[arg(short = 'L', long = "level", value_name = "DEPTH")]
    level: Option<usize>,
    /// Show directories only
    #[arg(short, long)]
    directories: bool,
    /// Show names that begin with a dot
    #[arg(short, long)]
    all: bool,
    /// Print one JSON object per line instead: path, type, inode, depth
    #[arg(long)]
    json: bool,
    /// Directories to start at [default: the root directory; in a shell the working directory]
    #[arg(value_name = "PATH")]
    paths: Vec<OsString>,
}

impl Command for Tree {
    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        let mut totals = Totals::default();
        for path in bytes::or_here(&self.paths) {
            let outcome = self.show(context, path, &mut totals);
            context.go_on(outcome)?;
        }
        if self.json {
            return Ok(());
        }
        let Totals { directories, files } = totals;
        let plural = |n: u64, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
        write!(context.out, "\n{}", plural(directories, "directory", "directories"))?;
        if !self.directories {
            write!(context.out, ", {}", plural(files, "file", "files"))?;
        }
        Ok(writeln!(context.out)?)
    }
}

impl Tree {
    fn show(&self, context: &mut Context<'_>, path: &[u8], totals: &mut Totals) -> Outcome {
        let start = context.resolve(path, true)?;
        let options = WalkOptions {
            sorted: true,
            skip_hidden: !self.all,
            only_directories: self.directories,
            max_depth: self.level,
        };
        let mut walk = Walk::new(context.volume, path, start.ino, start.kind, options);
        let mut branches = Branches::default();
        while let Some(step) = walk.advance(context)? {
            if step.visit == Visit::Leave {
                continue;
            }
            match step.kind {
                _ if step.depth == 0 => {}
                FileKind::Directory => totals.directories += 1,
                _ => totals.files += 1,
            }
            if self.json {
                print_json(context, walk.path(), step)?;
            } else {
                let name = if step.depth == 0 { path } else { walk.name() };
                print_line(context, &mut branches, walk.path(), name, step)?;
            }
        }
        Ok(())
    }
}

/// Directories and files below the starts.
#[derive(Default)]
struct Totals {
    directories: u64,
    files: u64,
}

/// The lines of the drawing left of a name.
#[derive(Default)]
struct Branches {
    /// One element for each level above the current one: true if more entries follow there.
    continues: Vec<bool>,
}

impl Branches {
    /// Appends the drawing for a step.
    fn push(&mut self, line: &mut Vec<u8>, step: WalkStep) {
        self.continues.truncate(step.depth.saturating_sub(1));
        for continues in &self.continues {
            line.extend_from_slice(if *continues { "│   ".as_bytes() } else { b"    " });
        }
        if step.depth > 0 {
            line.extend_from_slice(if step.last { "└── " } else { "├── " }.as_bytes());
            self.continues.push(!step.last);
        }
    }
}

fn print_line(
    context: &mut Context<'_>,
    branches: &mut Branches,
    path: &[u8],
    name: &[u8],
    step: WalkStep,
) -> Outcome {
    let mut line = Vec::new();
    branches.push(&mut line, step);
    context.push_name(&mut line, name);
    if step.kind == FileKind::Symlink {
        match context.volume.readlink(step.ino) {
            Ok(target) => {
                line.extend_from_slice(b" -> ");
                context.push_name(&mut line, &target);
            }
            Err(error) => context.go_on(Err(Failure::volume(path, &error)))?,
        }
    }
    line.push(b'\n');
    Ok(context.out.write_all(&line)?)
}

fn print_json(context: &mut Context<'_>, path: &[u8], step: WalkStep) -> Outcome {
    let mut object = serde_json::Map::new();
    json::add_name(&mut object, "path", path);
    object.insert("type".to_string(), step.kind.word().into());
    object.insert("inode".to_string(), step.ino.0.into());
    object.insert("depth".to_string(), step.depth.into());
    Ok(writeln!(context.out, "{}", json::text(&object))?)
}
