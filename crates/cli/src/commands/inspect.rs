//! `lanefs inspect`.

use crate::command::Command;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use clap::Args;
use std::io::Write;

/// Decode the block at a position of the volume
///
/// Prints the fields of the structure there: a superblock, a group, inodes, pointers, or a block of a
/// directory.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs inspect v.lane 0             the superblock
  lanefs inspect v.lane 0x200000      the block at 2 MiB
  lanefs inspect v.lane inode:9216    an inode, as `lanefs stat` numbers it")]
pub struct Inspect {
    /// Byte address, decimal or 0x hexadecimal, or inode:N
    #[arg(value_name = "POSITION", value_parser = parse)]
    position: Position,
}

/// Structure to decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Byte(u64),
    Inode(u64),
}

fn parse(text: &str) -> Result<Position, String> {
    let (number, make): (_, fn(u64) -> Position) = match text.strip_prefix("inode:") {
        Some(number) => (number, Position::Inode),
        None => (text, Position::Byte),
    };
    let value = match number.strip_prefix("0x").or_else(|| number.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => number.parse(),
    };
    value
        .map(make)
        .map_err(|_| format!("`{text}` is not a position; write it like 4096, 0x200000 or inode:9216"))
}

impl Command for Inspect {
    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        let superblock = context.volume.superblock();
        let (name, byte) = match self.position {
            Position::Byte(byte) => (format!("position {byte:#x}"), Some(byte)),
            Position::Inode(n) => (format!("inode {n}"), n.checked_mul(superblock.inode_size.bytes())),
        };
        let Some(byte) = byte.filter(|byte| *byte < superblock.volume_bytes) else {
            let advice = format!("the volume ends at {:#x}", superblock.volume_bytes);
            return Err(Failure::partial(name, "is after the end of the volume", &advice));
        };
        let text = context.volume.inspect(byte).map_err(|e| Failure::volume(name, &e))?;
        context.out.write_all(text.as_bytes())?;
        if !text.ends_with('\n') {
            context.out.write_all(b"\n")?;
        }
        Ok(())
    }
}
