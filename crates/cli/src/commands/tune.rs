//! `lanefs tune`.

use crate::session::command::Command;
use crate::session::context::Context;
use crate::terminal::failure::{Failure, Outcome};
use crate::text::escape::escape;
use crate::text::identity::{self, MAX_LABEL, parse_label, parse_uuid};
use clap::Args;
use std::io::Write;

/// Change the UUID or the label of a volume
///
/// Writes the superblock only. A copy of a volume needs a UUID of its own where programs tell volumes apart
/// by it. Prints the new values. The volume must not be mounted.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
#[command(after_help = "Examples:
  lanefs tune copy.lane --uuid random
  lanefs tune v.lane --label photos
  lanefs tune v.lane --uuid clear --label ''")]
pub struct Tune {
    /// New identity: a UUID, `random`, or `clear` for none
    #[arg(long, value_name = "random|clear|UUID", value_parser = parse)]
    uuid: Option<[u8; 16]>,
    #[arg(long, value_name = "TEXT", help = format!("New label, at most {MAX_LABEL} bytes; empty for none"), value_parser = parse_label)]
    label: Option<String>,
}

fn parse(text: &str) -> Result<[u8; 16], String> {
    match text {
        "random" => Ok(uuid::Uuid::new_v4().into_bytes()),
        "clear" => Ok([0; 16]),
        _ => parse_uuid(text).map_err(|how| format!("give random, clear or a UUID; {how}")),
    }
}

impl Command for Tune {
    fn changes(&self) -> bool {
        true
    }

    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        let (volume, out) = (context.volume, &mut context.out);
        volume.set_identity(self.uuid, self.label.as_deref()).map_err(|e| Failure::volume("volume", &e))?;
        let superblock = volume.superblock();
        let or_none = |text: String| if text.is_empty() { "-".to_string() } else { escape(text.as_bytes()) };
        if self.uuid.is_some() {
            writeln!(out, "uuid  {}", or_none(identity::uuid(&superblock).unwrap_or_default()))?;
        }
        if self.label.is_some() {
            writeln!(out, "label {}", or_none(identity::label(&superblock)))?;
        }
        Ok(())
    }
}
