//! `lanefs find`.

use crate::bytes;
use crate::cli::Run;
use crate::context::{Context, OWNER};
use crate::exit::{Failure, Outcome};
use crate::progress::Progress;
use crate::size::parse_size;
use crate::walk::{Step, Visit, Walk, WalkOptions};
use clap::{Args, ValueEnum};
use globset::{GlobBuilder, GlobMatcher};
use lanefs::{Attr, FileKind, Time};
use std::cmp::Ordering;
use std::ffi::OsString;
use std::io::Write;

/// Find files by name, type, size and time
///
/// Prints every path below PATH for which all conditions hold, one a line, in the order of the directories. The
/// conditions are those of find(1), with two dashes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs find v.lane / --name '*.jpg' --size +1M
  lanefs find v.lane --type d --empty
  lanefs find v.lane /logs --mtime +30 -0 | xargs -0 lanefs rm v.lane
  lanefs find v.lane --print0 | lanefs lookup v.lane -0 --paths -

GLOB: * stands for any bytes (slashes too, with --path), ? for one byte, [a-z] for one of a set,
{a,b} for one of several; a backslash takes the next character as it is. Put it in quotes.")]
pub struct Find {
    /// The name matches GLOB
    #[arg(long, value_name = "GLOB")]
    name: Option<String>,
    /// The name matches GLOB, upper and lower case alike
    #[arg(long, value_name = "GLOB")]
    iname: Option<String>,
    /// The whole path matches GLOB
    #[arg(long, value_name = "GLOB")]
    path: Option<String>,
    /// The type is one of these, separated by commas
    #[arg(long = "type", short = 't', value_name = "TYPE", value_delimiter = ',')]
    kinds: Vec<Kind>,
    /// Larger (+SIZE), smaller (-SIZE) than so many bytes, or just so large: +10M, -4k, 0
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, value_parser = parse_bound)]
    size: Option<Bound>,
    /// Content changed more (+N), less (-N) than N days ago, or N days ago
    #[arg(long, value_name = "DAYS", allow_hyphen_values = true, value_parser = parse_days)]
    mtime: Option<Bound>,
    /// Content changed later than that of this file of the volume
    #[arg(long, value_name = "PATH")]
    newer: Option<OsString>,
    /// An empty file or directory
    #[arg(long)]
    empty: bool,
    /// Descend at most this many levels
    #[arg(long, value_name = "DEPTH")]
    maxdepth: Option<usize>,
    /// Show nothing above this level
    #[arg(long, value_name = "DEPTH", default_value_t = 0, hide_default_value = true)]
    mindepth: usize,
    /// End each path with NUL instead of a newline, and never escape
    #[arg(short = '0', long)]
    print0: bool,
    /// One JSON object a line, with all attributes
    #[arg(long)]
    json: bool,
    /// Where to start; the root directory (in a shell: the working directory) without it
    #[arg(value_name = "PATH")]
    paths: Vec<OsString>,
}

/// Letters of find(1) for types.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// Regular file
    #[value(name = "f")]
    File,
    /// Directory
    #[value(name = "d")]
    Directory,
    /// Symbolic link
    #[value(name = "l")]
    Symlink,
    /// Named pipe
    #[value(name = "p")]
    Fifo,
    /// Socket
    #[value(name = "s")]
    Socket,
    /// Character device
    #[value(name = "c")]
    CharDevice,
    /// Block device
    #[value(name = "b")]
    BlockDevice,
}

impl Kind {
    fn kind(self) -> FileKind {
        match self {
            Kind::File => FileKind::File,
            Kind::Directory => FileKind::Directory,
            Kind::Symlink => FileKind::Symlink,
            Kind::Fifo => FileKind::Fifo,
            Kind::Socket => FileKind::Socket,
            Kind::CharDevice => FileKind::CharDevice,
            Kind::BlockDevice => FileKind::BlockDevice,
        }
    }
}

/// A number, and on which side of it a value must lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bound {
    side: Ordering,
    value: u64,
}

impl Bound {
    fn holds(self, value: u64) -> bool {
        value.cmp(&self.value) == self.side
    }
}

fn side(text: &str) -> (Ordering, &str) {
    match text.as_bytes().first() {
        Some(b'+') => (Ordering::Greater, &text[1..]),
        Some(b'-') => (Ordering::Less, &text[1..]),
        _ => (Ordering::Equal, text),
    }
}

fn parse_bound(text: &str) -> Result<Bound, String> {
    let (side, number) = side(text);
    // find(1) writes bytes as `c`.
    let value = parse_size(number.strip_suffix('c').unwrap_or(number))?;
    Ok(Bound { side, value })
}

fn parse_days(text: &str) -> Result<Bound, String> {
    let (side, number) = side(text);
    let value = number
        .parse()
        .map_err(|_| format!("`{text}` is not a number of days; write it like 7, +30 or -1"))?;
    Ok(Bound { side, value })
}

/// The conditions, ready to be asked.
struct Conditions<'a> {
    args: &'a Find,
    names: Vec<GlobMatcher>,
    path: Option<GlobMatcher>,
    newer: Option<Time>,
    now: Time,
}

fn glob(pattern: &str, ignore_case: bool) -> Result<GlobMatcher, Failure> {
    GlobBuilder::new(pattern)
        .case_insensitive(ignore_case)
        .backslash_escape(true)
        .literal_separator(false)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| {
            Failure::usage(pattern, &error.kind().to_string(), "see --help for what a GLOB may hold")
        })
}

impl Run for Find {
    fn run(&self, context: &mut Context<'_>) -> Outcome {
        let mut names = Vec::new();
        for (pattern, ignore_case) in [(&self.name, false), (&self.iname, true)] {
            if let Some(pattern) = pattern {
                names.push(glob(pattern, ignore_case)?);
            }
        }
        let path = self.path.as_deref().map(|pattern| glob(pattern, false)).transpose()?;
        let newer = match &self.newer {
            Some(path) => Some(context.resolve(bytes::of(path), true)?.mtime),
            None => None,
        };
        let conditions = Conditions { args: self, names, path, newer, now: Time::now() };
        let here = [OsString::from(".")];
        let paths = if self.paths.is_empty() { &here[..] } else { &self.paths };
        let mut progress = Progress::beside_output("searched");
        for start in paths {
            let outcome = conditions.search(context, bytes::of(start), &mut progress);
            context.go_on(outcome)?;
        }
        Ok(())
    }
}

impl Conditions<'_> {
    fn search(&self, context: &mut Context<'_>, start: &[u8], progress: &mut Progress) -> Outcome {
        let attr = context.resolve(start, false)?;
        let options = WalkOptions { max_depth: self.args.maxdepth, ..WalkOptions::default() };
        let mut walk = Walk::new(context.volume, start, attr.ino, attr.kind, options);
        while let Some(step) = walk.next() {
            crate::interrupt::check()?;
            let outcome = match step {
                Ok(step) if step.visit == Visit::Enter => {
                    progress.tick();
                    self.visit(context, step, &walk)
                }
                Ok(_) => Ok(()),
                Err(failure) => Err(failure),
            };
            context.go_on(outcome)?;
        }
        Ok(())
    }

    fn visit(&self, context: &mut Context<'_>, step: Step, walk: &Walk<'_>) -> Outcome {
        let path = walk.path();
        if step.depth < self.args.mindepth || !self.by_name(step.kind, path, walk.name()) {
            return Ok(());
        }
        // Attributes cost another read, so they are fetched only for what the names let through.
        let wants = self.args.json
            || self.args.size.is_some()
            || self.args.mtime.is_some()
            || self.newer.is_some()
            || self.args.empty;
        let attr = if wants { Some(context.attr(path, step.ino)?) } else { None };
        match &attr {
            Some(attr) if !self.by_attributes(context, path, attr)? => return Ok(()),
            Some(attr) if self.args.json => {
                let mut object = serde_json::Map::new();
                crate::context::json_name(&mut object, "path", path);
                super::stat::json_attr(&mut object, attr);
                return Ok(writeln!(context.out, "{}", serde_json::Value::Object(object))?);
            }
            _ => {}
        }
        let mut line = Vec::with_capacity(path.len() + 1);
        if self.args.print0 {
            line.extend_from_slice(path);
            line.push(0);
        } else {
            context.push_name(&mut line, path);
            line.push(b'\n');
        }
        Ok(context.out.write_all(&line)?)
    }

    fn by_name(&self, kind: FileKind, path: &[u8], name: &[u8]) -> bool {
        (self.args.kinds.is_empty() || self.args.kinds.iter().any(|k| k.kind() == kind))
            && self.names.iter().all(|glob| glob.is_match(bytes::to_path(name)))
            && self.path.as_ref().is_none_or(|glob| glob.is_match(bytes::to_path(path)))
    }

    fn by_attributes(&self, context: &Context<'_>, path: &[u8], attr: &Attr) -> Result<bool, Failure> {
        const DAY: i64 = 86_400_000_000_000;
        let days = self.now.0.saturating_sub(attr.mtime.0).div_euclid(DAY);
        let plain = self.args.size.is_none_or(|bound| bound.holds(attr.size))
            // What lies in the future is less than any number of days old, and never so many.
            && self.args.mtime.is_none_or(|bound| match u64::try_from(days) {
                Ok(days) => bound.holds(days),
                Err(_) => bound.side == Ordering::Less,
            })
            && self.newer.is_none_or(|time| attr.mtime > time);
        if !plain || !self.args.empty {
            return Ok(plain);
        }
        match attr.kind {
            FileKind::File => Ok(attr.size == 0),
            FileKind::Directory => {
                let first = context.volume.readdir(&OWNER, attr.ino, 0, 1);
                first.map(|entries| entries.is_empty()).map_err(|e| Failure::volume(path, &e))
            }
            _ => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_parse() {
        let bound = |side, value| Ok(Bound { side, value });
        assert_eq!(parse_bound("+1M"), bound(Ordering::Greater, 1 << 20));
        assert_eq!(parse_bound("-4k"), bound(Ordering::Less, 4096));
        assert_eq!(parse_bound("10c"), bound(Ordering::Equal, 10));
        assert_eq!(parse_days("+30"), bound(Ordering::Greater, 30));
        assert!(parse_bound("+").is_err());
        assert!(parse_days("+x").is_err());
    }

    #[test]
    fn globs_take_any_bytes() {
        let matches =
            |pattern: &str, name: &[u8]| glob(pattern, false).unwrap().is_match(bytes::to_path(name));
        assert!(matches("*.jpg", b"\xff\n.jpg"));
        assert!(matches("a*b", b"a/x/b"));
        assert!(matches(r"\*", b"*"));
        assert!(!matches(r"\*", b"x"));
        assert!(matches("{a,b}?", b"bz"));
        assert!(glob("[", false).is_err());
        assert!(glob("ABC", true).unwrap().is_match("abc"));
    }
}
