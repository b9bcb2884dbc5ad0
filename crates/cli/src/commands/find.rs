//! `lanefs find`.

use crate::bytes;
use crate::cli::Run;
use crate::context::{Context, OWNER};
use crate::engine::EngineArgs;
use crate::exit::{Failure, Outcome};
use crate::progress::Progress;
use crate::size::parse_size;
use crate::walk::{self, Step, Visit, Walk, WalkOptions};
use clap::{Args, ValueEnum};
use globset::{GlobBuilder, GlobMatcher};
use lanefs::{Attr, FileKind, Time};
use lanefs_gpu::{Below, Filter, Mirrored};
use std::cmp::Ordering;
use std::ffi::OsString;
use std::io::Write;
use std::ops::RangeInclusive;

/// Nanoseconds of a day.
const DAY: i64 = 86_400_000_000_000;

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
  lanefs find v.lane --name '*.rs' --engine gpu

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
    #[command(flatten)]
    engine: EngineArgs,
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

impl Bound {
    /// All values for which it holds.
    fn range(self) -> RangeInclusive<u64> {
        const NONE: RangeInclusive<u64> = RangeInclusive::new(1, 0);
        match self.side {
            Ordering::Less => self.value.checked_sub(1).map_or(NONE, |most| 0..=most),
            Ordering::Equal => self.value..=self.value,
            Ordering::Greater => self.value.checked_add(1).map_or(NONE, |least| least..=u64::MAX),
        }
    }

    /// All times for which it holds, as a number of days before `now`.
    fn times(self, now: Time) -> RangeInclusive<i64> {
        let (now, day) = (i128::from(now.0), i128::from(DAY));
        // The youngest and the oldest of that many days.
        let (young, old) = (i128::from(self.value) * day, (i128::from(self.value) + 1) * day - 1);
        let time =
            |age: i128| i64::try_from(now - age).unwrap_or(if age < now { i64::MAX } else { i64::MIN });
        // No age is more than 292 years: what is older counts as that.
        let oldest = |age: i128| if age >= i128::from(i64::MAX) { i64::MIN } else { time(age) };
        match self.side {
            Ordering::Less => oldest(young - 1)..=i64::MAX,
            Ordering::Equal => oldest(old)..=time(young),
            Ordering::Greater => i64::MIN..=time(old + 1),
        }
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
    /// What a device is asked: all that these conditions let through, and as little else as it can be.
    filter: Filter,
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
        let now = Time::now();
        let filter = self.filter(newer, now);
        let conditions = Conditions { args: self, names, path, newer, now, filter };
        // One search does not pay for a mirror, so only who asks for it gets a device.
        let gpu = if self.engine.is_gpu() { self.engine.open()? } else { None };
        let mirrored = gpu.as_ref().map(|gpu| EngineArgs::mirror(gpu, context)).transpose()?;
        let here = [OsString::from(".")];
        let paths = if self.paths.is_empty() { &here[..] } else { &self.paths };
        let mut progress = Progress::beside_output("searched");
        for start in paths {
            let start = bytes::of(start);
            let outcome = match &mirrored {
                Some(mirrored) => conditions.search_on(mirrored, context, start, &mut progress),
                None => conditions.search(context, start, &mut progress),
            };
            context.go_on(outcome)?;
        }
        if let Some(error) = mirrored.and_then(|mirrored| mirrored.failure()) {
            crate::context::say(&format!("{error}; the CPU engine went on"));
        }
        Ok(())
    }
}

impl Find {
    /// What a device can do of it. Patterns that it cannot do are asked later.
    fn filter(&self, newer: Option<Time>, now: Time) -> Filter {
        let mut filter = Filter::default();
        for (pattern, ignore_case) in [(&self.name, false), (&self.iname, true)] {
            let _ = pattern.as_ref().is_some_and(|pattern| filter.names.and(pattern, ignore_case));
        }
        filter.kinds = self.kinds.iter().map(|kind| kind.kind()).collect();
        filter.size = self.size.map_or(filter.size, Bound::range);
        let after = newer.map_or(i64::MIN, |time| time.0.saturating_add(1));
        let (from, to) = self.mtime.map_or(filter.mtime, |days| days.times(now)).into_inner();
        filter.mtime = from.max(after)..=to;
        filter
    }
}

impl Conditions<'_> {
    /// As [`search`](Self::search): the device finds, and of what it finds the rest of the conditions is asked.
    fn search_on(
        &self,
        mirrored: &Mirrored<'_, '_>,
        context: &mut Context<'_>,
        start: &[u8],
        progress: &mut Progress,
    ) -> Outcome {
        let attr = context.resolve(start, false)?;
        let step = |ino, kind, depth| Step { visit: Visit::Enter, ino, kind, depth, last: true };
        self.visit(context, step(attr.ino, attr.kind, 0), start, crate::context::split(start).1)?;
        let mut outcome = Ok(());
        let mut each = |found: Below<'_>| {
            progress.tick();
            let entry = found.entry;
            let visited = if walk::is_possible(&entry.name) {
                self.visit(context, step(entry.ino, entry.kind, found.depth), found.path, &entry.name)
            } else {
                Err(walk::impossible(found.path))
            };
            outcome = context.go_on(visited).and_then(|()| crate::interrupt::check());
            outcome.is_ok()
        };
        if attr.kind == FileKind::Directory {
            let depth = self.args.maxdepth;
            let searched = mirrored.find_below(&self.filter, attr.ino, start, depth, &mut each);
            searched.map_err(|error| Failure::volume(start, &error))?;
        }
        outcome
    }

    fn search(&self, context: &mut Context<'_>, start: &[u8], progress: &mut Progress) -> Outcome {
        let attr = context.resolve(start, false)?;
        let options = WalkOptions { max_depth: self.args.maxdepth, ..WalkOptions::default() };
        let mut walk = Walk::new(context.volume, start, attr.ino, attr.kind, options);
        while let Some(step) = walk.next() {
            crate::interrupt::check()?;
            let outcome = match step {
                Ok(step) if step.visit == Visit::Enter => {
                    progress.tick();
                    self.visit(context, step, walk.path(), walk.name())
                }
                Ok(_) => Ok(()),
                Err(failure) => Err(failure),
            };
            context.go_on(outcome)?;
        }
        Ok(())
    }

    fn visit(&self, context: &mut Context<'_>, step: Step, path: &[u8], name: &[u8]) -> Outcome {
        if step.depth < self.args.mindepth || !self.by_name(step.kind, path, name) {
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
    fn a_device_is_asked_for_the_values_for_which_a_bound_holds() {
        let now = Time(20_000 * DAY + 17);
        for side in [Ordering::Less, Ordering::Equal, Ordering::Greater] {
            for value in [0, 1, 2, 20_000, 106_750, 106_751, 106_752, u64::MAX - 1, u64::MAX] {
                let bound = Bound { side, value };
                for size in [0, 1, 2, 3, u64::MAX - 1, u64::MAX] {
                    assert_eq!(bound.range().contains(&size), bound.holds(size), "{bound:?}, {size}");
                }
                for days in [0, 1, 2, 3, 20_000, 20_001] {
                    for time in [-1, 0, 1].map(|more| now.0 - days * DAY + more) {
                        let age = now.0.saturating_sub(time).div_euclid(DAY);
                        let holds = u64::try_from(age).map_or(side == Ordering::Less, |age| bound.holds(age));
                        assert_eq!(bound.times(now).contains(&time), holds, "{bound:?}, {time}");
                    }
                }
                // What is too old to be told is at least not left out.
                let holds = bound.holds((i64::MAX / DAY) as u64);
                assert!(!holds || bound.times(now).contains(&i64::MIN), "{bound:?}");
            }
        }
    }

    #[test]
    fn a_device_takes_patterns_as_they_are_taken_here() {
        let mut state = 1u64;
        let mut below = |count: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % count
        };
        let parts = [
            "*", "?", "a", "B", "-", "]", "[ab]", "[!a-b]", "[^b-]", "[]a]", r"\*", r"\]", "{a,b}", "**",
            "é", ",", "!",
        ];
        let names = ["", "a", "b", "B", "*", "-", "]", "é", "\u{ff}", ",", "!"];
        let (mut compared, mut matched) = (0, 0);
        for _ in 0..20_000 {
            let ignore_case = below(2) == 0;
            let mut some = |of: &[&str]| -> String { (0..below(5)).map(|_| of[below(of.len())]).collect() };
            let pattern = some(&parts);
            let mut ours = lanefs_gpu::Names::default();
            if !ours.and(&pattern, ignore_case) {
                continue;
            }
            let here = glob(&pattern, ignore_case).unwrap();
            for _ in 0..10 {
                let name = some(&names);
                let (found, wanted) = (ours.matches(name.as_bytes()), here.is_match(&name));
                assert_eq!(found, wanted, "{pattern} {ignore_case} {name}");
                (compared, matched) = (compared + 1, matched + u32::from(wanted));
            }
        }
        assert!(compared > 50_000 && matched > 5_000, "{compared}, {matched}");
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
