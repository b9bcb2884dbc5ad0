//! `lanefs info`.

use crate::session::command::Command;
use crate::session::context::Context;
use crate::terminal::failure::{Failure, Outcome};
use crate::text::escape::escape;
use crate::text::identity::{label, uuid};
use crate::text::size::human;
use crate::text::{json, time};
use clap::Args;
use lanefs::format::BLOCK;
use lanefs::format::superblock::{Superblock, VERSION};
use lanefs::{Error, Time, Volume, host_text};
use std::io::Write;

/// Show a volume's identity, size and use
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs info v.lane
  lanefs info v.lane --json | jq .free_bytes")]
pub struct Info {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Command for Info {
    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        if self.json { print_json(context) } else { print_text(context) }
    }
}

fn print_json(context: &mut Context<'_>) -> Outcome {
    let superblock = context.volume.superblock();
    let space = context.volume.statfs().map_err(|e| Failure::volume("volume", &e))?;
    let object = serde_json::json!({
        "format": VERSION,
        "uuid": uuid(&superblock),
        "label": label(&superblock),
        "bytes": superblock.volume_bytes,
        "free_bytes": space.free_blocks.saturating_mul(space.block_size),
        "inodes": space.inodes,
        "free_inodes": space.free_inodes,
        "inode_bytes": superblock.inode_size.bytes(),
        "block_bytes": space.block_size,
        "groups": superblock.group_count,
        "journal_bytes": journal_bytes(&superblock),
        "clean": superblock.clean,
        "errors": superblock.errors,
        "write_failure": write_failure(context.volume),
        "features": {
            "compat": superblock.compat,
            "ro_compat": superblock.ro_compat,
            "incompat": superblock.incompat,
        },
        "root": superblock.root,
        "created": time::decimal(Time(superblock.created)),
        "max_name_bytes": space.max_name,
        "device": context.volume.engine(),
    });
    Ok(writeln!(context.out, "{}", json::text(&object))?)
}

fn print_text(context: &mut Context<'_>) -> Outcome {
    let superblock = context.volume.superblock();
    let space = context.volume.statfs().map_err(|e| Failure::volume("volume", &e))?;
    let bytes = |bytes: u64| format!("{} ({bytes} bytes)", human(bytes));
    let free = space.free_blocks.saturating_mul(space.block_size);
    let (label, journal) = (label(&superblock), journal_bytes(&superblock));
    let lines = [
        ("format", format!("LaneFS, version {VERSION}")),
        ("state", state(&superblock, context.volume)),
        ("uuid", uuid(&superblock).unwrap_or_else(|| "-".to_string())),
        ("label", if label.is_empty() { "-".to_string() } else { escape(label.as_bytes()) }),
        ("size", bytes(superblock.volume_bytes)),
        ("used", bytes(superblock.volume_bytes.saturating_sub(free))),
        ("free", bytes(free)),
        ("inodes", format!("{} in use, room for {} more", space.inodes, space.free_inodes)),
        ("inode size", format!("{} bytes", superblock.inode_size.bytes())),
        ("groups", superblock.group_count.to_string()),
        ("journal", if journal == 0 { "none".to_string() } else { human(journal) }),
        ("device", context.volume.engine()),
        ("root", format!("inode {}", superblock.root)),
        ("created", time::long(Time(superblock.created))),
    ];
    for (name, value) in lines {
        writeln!(context.out, "{name:<12}{value}")?;
    }
    Ok(())
}

fn state(superblock: &Superblock, volume: &Volume) -> String {
    if let Some(failure) = write_failure(volume) {
        return format!("takes no changes: a write failed, {failure}; unmount it and mount it again");
    }
    let state = match (superblock.errors, superblock.clean) {
        (true, _) => "damage was met; run `lanefs fsck --repair`",
        (false, true) => "clean",
        (false, false) => "in use, or not closed cleanly",
    };
    state.to_owned()
}

/// The failure of a write to the device, of a volume that is mounted and takes no changes since.
fn write_failure(volume: &Volume) -> Option<String> {
    match volume.write_failure()? {
        Error::WriteFailed { what, source } => Some(format!("{what}: {}", host_text(&source))),
        other => Some(other.to_string()),
    }
}

fn journal_bytes(superblock: &Superblock) -> u64 {
    superblock.journal_blocks.saturating_mul(BLOCK)
}
