//! `lanefs stat`, and an inode's attributes as JSON for every command that offers it.

use crate::cli::Run;
use crate::context::{Context, json_name};
use crate::escape::escape;
use crate::exit::Outcome;
use crate::{bytes, mode, time, users};
use clap::Args;
use lanefs::{Attr, FileKind};
use serde_json::{Map, Value};
use std::ffi::OsString;
use std::io::Write;

/// Show all attributes of files
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs stat v.lane /etc/passwd
  lanefs stat v.lane -L --json /link /dir")]
pub struct Stat {
    /// Follow a symbolic link in the last place
    #[arg(long, short = 'L')]
    dereference: bool,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
    /// What to show
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
}

impl Run for Stat {
    fn run(&self, context: &mut Context<'_>) -> Outcome {
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
        let target = target(context, path, &attr)?;
        if self.json {
            let mut object = Map::new();
            json_name(&mut object, "path", path);
            json_attr(&mut object, &attr);
            if let Some(target) = &target {
                json_name(&mut object, "target", target);
            }
            return Ok(writeln!(context.out, "{}", Value::Object(object))?);
        }
        let arrow = target.map_or_else(String::new, |target| format!(" -> {}", escape(&target)));
        let device = match attr.kind {
            FileKind::CharDevice | FileKind::BlockDevice => {
                let (major, minor) = device_numbers(attr.rdev);
                format!("  device {major},{minor}")
            }
            _ => String::new(),
        };
        let perm = format!("{:04o}/{}", attr.perm, mode::text(attr.kind, attr.perm));
        let owner = format!(
            "{} ({})  gid {} ({})",
            attr.uid,
            users::user(attr.uid),
            attr.gid,
            users::group(attr.gid)
        );
        let out = &mut context.out;
        writeln!(out, "  path  {}{arrow}", escape(path))?;
        writeln!(out, "  type  {}  size {}  blocks {}{device}", attr.kind.word(), attr.size, attr.blocks)?;
        writeln!(out, " inode  {}  links {}  generation {}", attr.ino, attr.links, attr.generation)?;
        writeln!(out, "  mode  {perm}  uid {owner}")?;
        for (name, value) in
            [("access", attr.atime), ("modify", attr.mtime), ("change", attr.ctime), (" birth", attr.btime)]
        {
            writeln!(out, "{name}  {}", time::long(value))?;
        }
        Ok(())
    }
}

/// The target of a symbolic link; `None` for anything else.
///
/// # Errors
/// Name the path.
pub fn target(
    context: &Context<'_>,
    path: &[u8],
    attr: &Attr,
) -> Result<Option<Vec<u8>>, crate::exit::Failure> {
    match attr.kind {
        FileKind::Symlink => {
            context.volume.readlink(attr.ino).map(Some).map_err(|e| crate::exit::Failure::volume(path, &e))
        }
        _ => Ok(None),
    }
}

/// Major and minor number of a device, as Linux packs them into `dev_t`.
pub fn device_numbers(rdev: u64) -> (u32, u32) {
    (rustix::fs::major(rdev), rustix::fs::minor(rdev))
}

/// Adds the attributes to a JSON object.
pub fn json_attr(object: &mut Map<String, Value>, attr: &Attr) {
    let mut put = |key: &str, value: Value| object.insert(key.to_string(), value);
    put("inode", attr.ino.0.into());
    put("type", attr.kind.word().into());
    put("mode", format!("{:04o}", attr.perm).into());
    put("links", attr.links.into());
    put("uid", attr.uid.into());
    put("gid", attr.gid.into());
    put("size", attr.size.into());
    put("blocks", attr.blocks.into());
    if matches!(attr.kind, FileKind::CharDevice | FileKind::BlockDevice) {
        let (major, minor) = device_numbers(attr.rdev);
        put("device", vec![major, minor].into());
    }
    put("mtime", time::decimal(attr.mtime).into());
    put("ctime", time::decimal(attr.ctime).into());
    put("atime", time::decimal(attr.atime).into());
    put("btime", time::decimal(attr.btime).into());
    put("generation", attr.generation.into());
}
