//! `lanefs tree`.

use crate::bytes;
use crate::cli::Run;
use crate::context::{Context, json_name};
use crate::exit::{Failure, Outcome};
use crate::walk::{Visit, Walk, WalkOptions};
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
    /// Levels to show
    #[arg(short = 'L', long = "level", value_name = "DEPTH")]
    level: Option<usize>,
    /// Directories only
    #[arg(short, long)]
    directories: bool,
    /// Show names that begin with a dot
    #[arg(short, long)]
    all: bool,
    /// One JSON object a line instead: path, type, inode, depth
    #[arg(long)]
    json: bool,
    /// Where to start; the root directory (in a shell: the working directory) without it
    #[arg(value_name = "PATH")]
    paths: Vec<OsString>,
}

impl Run for Tree {
    fn run(&self, context: &mut Context<'_>) -> Outcome {
        let here = [OsString::from(".")];
        let paths = if self.paths.is_empty() { &here[..] } else { &self.paths };
        let mut count = (0u64, 0u64);
        for path in paths {
            let outcome = self.show(context, bytes::of(path), &mut count);
            context.go_on(outcome)?;
        }
        if self.json {
            return Ok(());
        }
        let (directories, files) = count;
        let plural = |n: u64, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
        write!(context.out, "\n{}", plural(directories, "directory", "directories"))?;
        if !self.directories {
            write!(context.out, ", {}", plural(files, "file", "files"))?;
        }
        Ok(writeln!(context.out)?)
    }
}

impl Tree {
    fn show(&self, context: &mut Context<'_>, path: &[u8], count: &mut (u64, u64)) -> Outcome {
        let start = context.resolve(path, true)?;
        let options = WalkOptions {
            sorted: true,
            skip_hidden: !self.all,
            only_directories: self.directories,
            max_depth: self.level,
        };
        let mut walk = Walk::new(context.volume, path, start.ino, start.kind, options);
        // One element for each level above the current one: does a line go on there?
        let mut open: Vec<bool> = Vec::new();
        while let Some(step) = walk.next() {
            let step = match step {
                Ok(step) => step,
                Err(failure) => {
                    context.go_on(Err(failure))?;
                    continue;
                }
            };
            crate::interrupt::check()?;
            if step.visit == Visit::Leave {
                continue;
            }
            if step.depth > 0 {
                match step.kind {
                    FileKind::Directory => count.0 += 1,
                    _ => count.1 += 1,
                }
            }
            if self.json {
                let mut object = serde_json::Map::new();
                json_name(&mut object, "path", walk.path());
                object.insert("type".to_string(), step.kind.word().into());
                object.insert("inode".to_string(), step.ino.0.into());
                object.insert("depth".to_string(), step.depth.into());
                writeln!(context.out, "{}", serde_json::Value::Object(object))?;
                continue;
            }
            let mut line = Vec::new();
            open.truncate(step.depth.saturating_sub(1));
            for goes_on in &open {
                line.extend_from_slice(if *goes_on { "│   ".as_bytes() } else { b"    " });
            }
            if step.depth > 0 {
                line.extend_from_slice(if step.last { "└── " } else { "├── " }.as_bytes());
                open.push(!step.last);
            }
            context.push_name(&mut line, if step.depth == 0 { path } else { walk.name() });
            if step.kind == FileKind::Symlink {
                match context.volume.readlink(step.ino) {
                    Ok(target) => {
                        line.extend_from_slice(b" -> ");
                        context.push_name(&mut line, &target);
                    }
                    Err(error) => context.go_on(Err(Failure::volume(walk.path(), &error)))?,
                }
            }
            line.push(b'\n');
            context.out.write_all(&line)?;
        }
        Ok(())
    }
}
