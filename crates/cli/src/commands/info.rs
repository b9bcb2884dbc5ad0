//! `lanefs info`.

use crate::command::Command;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::size::human;
use crate::time;
use clap::Args;
use lanefs::Time;
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
        let superblock = context.volume.superblock();
        let space = context.volume.statfs().map_err(|e| Failure::volume("volume", &e))?;
        let uuid = uuid::Uuid::from_bytes(superblock.uuid).to_string();
        let label_end = superblock.label.iter().position(|b| *b == 0).unwrap_or(superblock.label.len());
        let label = String::from_utf8_lossy(&superblock.label[..label_end]).into_owned();
        let free = space.free_blocks.saturating_mul(space.block_size);
        let journal = superblock.journal_blocks.saturating_mul(lanefs::format::BLOCK);
        let version = lanefs::format::superblock::VERSION;
        if self.json {
            let object = serde_json::json!({
                "format": version,
                "uuid": uuid,
                "label": label,
                "bytes": superblock.volume_bytes,
                "free_bytes": free,
                "inodes": space.inodes,
                "free_inodes": space.free_inodes,
                "inode_bytes": superblock.inode_size.bytes(),
                "block_bytes": space.block_size,
                "groups": superblock.group_count,
                "journal_bytes": journal,
                "root": superblock.root,
                "created": time::decimal(Time(superblock.created)),
                "max_name_bytes": space.max_name,
                "device": context.volume.engine(),
            });
            return Ok(writeln!(context.out, "{object}")?);
        }
        let used = superblock.volume_bytes.saturating_sub(free);
        let lines = [
            ("format", format!("LaneFS, version {version}")),
            ("uuid", uuid),
            (
                "label",
                if label.is_empty() { "-".to_string() } else { crate::escape::escape(label.as_bytes()) },
            ),
            ("size", format!("{} ({} bytes)", human(superblock.volume_bytes), superblock.volume_bytes)),
            ("used", format!("{} ({used} bytes)", human(used))),
            ("free", format!("{} ({free} bytes)", human(free))),
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
}
