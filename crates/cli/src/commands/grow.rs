//! `lanefs grow`.

use crate::session::command::Command;
use crate::session::context::Context;
use crate::terminal::exit;
use crate::terminal::failure::{Failure, Outcome};
use crate::text::size::{human, parse_size};
use clap::Args;
use lanefs::{Error, ErrorKind};
use std::io::Write;

/// Enlarge a volume
///
/// A file grows sparse; a device must have the room already. The content stays as it is.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs grow v.lane 16G
  lanefs grow v.lane +4G")]
pub struct Grow {
    /// New size, or +SIZE to add to the present one
    #[arg(value_name = "SIZE", value_parser = parse)]
    size: NewSize,
}

/// A size in bytes, absolute or relative.
#[derive(Clone, Copy, Debug)]
enum NewSize {
    To(u64),
    By(u64),
}

fn parse(text: &str) -> Result<NewSize, String> {
    match text.strip_prefix('+') {
        Some(more) => parse_size(more).map(NewSize::By),
        None => parse_size(text).map(NewSize::To),
    }
}

impl Command for Grow {
    fn changes(&self) -> bool {
        true
    }

    fn growth(&self) -> Option<u64> {
        let (NewSize::To(bytes) | NewSize::By(bytes)) = self.size;
        Some(bytes)
    }

    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        let now = context.volume.superblock().volume_bytes;
        let target = match self.size {
            NewSize::To(size) => Some(size),
            NewSize::By(more) => now.checked_add(more),
        };
        let name = target.map_or_else(|| "volume".to_string(), human);
        let Some(target) = target.filter(|t| *t <= lanefs::format::MAX_VOLUME) else {
            let advice = format!("give at most {}", human(lanefs::format::MAX_VOLUME));
            return Err(Failure::usage(name, "too large for a volume", &advice));
        };
        if target < now {
            let what = format!("the volume has {} already and cannot shrink", human(now));
            return Err(Failure::usage(name, &what, "give a larger size, or copy into a new volume"));
        }
        context.volume.grow(target).map_err(|error| refused(name, &error))?;
        let bytes = context.volume.superblock().volume_bytes;
        Ok(writeln!(context.out, "{} ({bytes} bytes)", human(bytes))?)
    }
}

fn refused(name: String, error: &Error) -> Failure {
    match error {
        Error::Image { kind: ErrorKind::Size, why, .. } => {
            // A single command opens the volume with the room that it needs.
            let advice =
                "leave the shell and use `lanefs grow`, or raise the limit of address space (ulimit -v)";
            Failure::new(exit::IMAGE, name, why, advice)
        }
        error => Failure::volume(name, error),
    }
}
