//! `lanefs inspect`.

use crate::session::command::Command;
use crate::session::context::Context;
use crate::terminal::failure::{Failure, Outcome};
use clap::Args;
use lanefs::{Error, ErrorKind};
use std::io::Write;

/// Decode the block at a position of the volume
///
/// Prints the fields of the structure there, which the tables of the volume name: a superblock, a group, the
/// journal, inodes, pointers, a block of a directory, of attributes or of checksums. Says where the block
/// contradicts the tables. inode:N prints that inode only.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs inspect v.lane 0             the superblock
  lanefs inspect v.lane 0x200000      the block at 2 MiB
  lanefs inspect v.lane inode:8736    an inode, as `lanefs stat` numbers it")]
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
        .map_err(|_| format!("`{text}` is not a position; write it like 4096, 0x200000 or inode:8736"))
}

impl Command for Inspect {
    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        let volume = context.volume;
        let superblock = volume.superblock();
        let (name, byte) = match self.position {
            Position::Byte(byte) => (format!("position {byte:#x}"), Some(byte)),
            Position::Inode(n) => (format!("inode {n}"), n.checked_mul(superblock.inode_size.bytes())),
        };
        if byte.is_none_or(|byte| byte >= superblock.volume_bytes) {
            let advice = format!("the volume ends at {:#x}", superblock.volume_bytes);
            return Err(Failure::partial(name, "is after the end of the volume", &advice));
        }
        let text = match self.position {
            Position::Byte(byte) => volume.inspect(byte),
            Position::Inode(number) => volume.inspect_inode(number),
        };
        let text = text.map_err(|error| match &error {
            Error::Image { kind: ErrorKind::InvalidInput, why, .. } => Failure::partial(name, why, ""),
            error => Failure::volume(name, error),
        })?;
        context.out.write_all(text.as_bytes())?;
        if !text.ends_with('\n') {
            context.out.write_all(b"\n")?;
        }
        Ok(())
    }
}
