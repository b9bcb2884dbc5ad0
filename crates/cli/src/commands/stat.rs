//! `lanefs stat`.

use crate::session::command::Command;
use crate::session::context::Context;
use crate::session::users;
use crate::terminal::failure::{Failure, Outcome};
use crate::text::escape::escape;
use crate::text::{bytes, json, mode, time};
use clap::Args;
use lanefs::{Attr, FileExtent, FileKind};
use serde_json::{Map, Value};
use std::ffi::OsString;
use std::io::Write;

/// Extents that the text shows.
const LISTED: usize = 16;

/// Show all attributes of files, and where their content lies
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs stat v.lane /etc/passwd
  lanefs stat v.lane -L --json /link /dir")]
pub struct Stat {
    /// Follow a symbolic link in the last component
    #[arg(long, short = 'L')]
    dereference: bool,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    /// Files to show
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
}

impl Command for Stat {
    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        for path in &self.paths {
            let outcome = self.show(context, bytes::of(path));
            context.go_on(outcome)?;
        }
        Ok(())
    }
}

impl Stat {
    fn show(&self, context: &mut Context<'_>, path: &[u8]) -> Outcome {
        let attr = context.resolve(path, self.dereference)?;
        let target = context.link_target(path, &attr)?;
        let extents = match attr.kind {
            FileKind::File => context.volume.extents(attr.ino).map_err(|e| Failure::volume(path, &e))?,
            _ => Vec::new(),
        };
        if !self.json {
            return show_text(context, path, &attr, target.as_deref(), &extents);
        }
        let mut object = Map::new();
        json::add_name(&mut object, "path", path);
        json::add_attributes(&mut object, &attr);
        if let Some(target) = &target {
            json::add_name(&mut object, "target", target);
        }
        if attr.kind == FileKind::File {
            object.insert("extents".into(), extents.iter().map(extent_object).collect());
        }
        Ok(writeln!(context.out, "{}", json::text(&object))?)
    }
}

fn extent_object(extent: &FileExtent) -> Value {
    serde_json::json!({
        "offset": extent.offset,
        "bytes": extent.bytes,
        "position": extent.position,
        "unwritten": extent.unwritten,
    })
}

fn show_text(
    context: &mut Context<'_>,
    path: &[u8],
    attr: &Attr,
    target: Option<&[u8]>,
    extents: &[FileExtent],
) -> Outcome {
    let arrow = target.map_or_else(String::new, |target| format!(" -> {}", escape(target)));
    let device = match attr.kind {
        FileKind::CharDevice | FileKind::BlockDevice => {
            let (major, minor) = mode::device_numbers(attr.rdev);
            format!("  device {major},{minor}")
        }
        _ => String::new(),
    };
    let perm = format!("{:04o}/{}", attr.perm, mode::text(attr.kind, attr.perm));
    let (user, group) = (users::user(attr.uid), users::group(attr.gid));
    let out = &mut context.out;
    writeln!(out, "  path  {}{arrow}", escape(path))?;
    writeln!(out, "  type  {}  size {}  blocks {}{device}", attr.kind.word(), attr.size, attr.blocks)?;
    writeln!(out, " inode  {}  links {}  generation {}", attr.ino, attr.links, attr.generation)?;
    writeln!(out, "  mode  {perm}  uid {} ({user})  gid {} ({group})", attr.uid, attr.gid)?;
    for (name, value) in
        [("access", attr.atime), ("modify", attr.mtime), ("change", attr.ctime), (" birth", attr.btime)]
    {
        writeln!(out, "{name}  {}", time::long(value))?;
    }
    for extent in extents.iter().take(LISTED) {
        let FileExtent { offset, bytes, position, unwritten } = extent;
        let note = if *unwritten { ", unwritten" } else { "" };
        writeln!(out, "extent  from {offset}, {bytes} bytes at {position:#x}{note}")?;
    }
    if let Some(more) = extents.len().checked_sub(LISTED).filter(|more| *more > 0) {
        writeln!(out, "extent  and {more} more; --json shows all")?;
    }
    Ok(())
}
