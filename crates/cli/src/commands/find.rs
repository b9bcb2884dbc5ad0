//! `lanefs find`.

mod bound;
mod condition;
mod type_letter;

use crate::common::engine::{self, EngineArgs};
use crate::common::fuzzy_names;
use crate::common::walk::{self, Visit, Walk, WalkOptions};
use crate::session::command::Command;
use crate::session::context::{Context, OWNER};
use crate::terminal::failure::{Failure, Outcome, check_interrupt};
use crate::terminal::progress::Progress;
use crate::terminal::{exit, interrupt};
use crate::text::{bytes, json};
use bound::{Bound, times_after};
use clap::Args;
use condition::{Candidate, Condition, Pattern};
use lanefs::{FileKind, Time, path};
use lanefs_gpu::{Below, Filter, Mirrored};
use std::ffi::OsString;
use std::io::Write;
use type_letter::TypeLetter;

/// Find files by name, type, size and time
///
/// Prints every path below PATH that meets all conditions, one per line, in the order of the directories. The
/// conditions are those of find(1), with two dashes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs find v.lane / --name '*.jpg' --size +1M
  lanefs find v.lane --type d --empty
  lanefs find v.lane /logs --mtime +30 --delete
  lanefs find v.lane --print0 | lanefs lookup v.lane -0 --paths - --no-follow
  lanefs find v.lane --name '*.rs' --engine gpu
  lanefs find v.lane --fuzzy 'srmain .rs$' --limit 10

GLOB: * matches any bytes (with --path slashes too), ? one byte, [a-z] one of a set, {a,b} one of
several; a backslash takes the next character literally. Put it in quotes.")]
pub struct Find {
    /// The name matches GLOB
    #[arg(long, value_name = "GLOB")]
    name: Option<String>,
    /// The name matches GLOB, without regard to case
    #[arg(long, value_name = "GLOB")]
    iname: Option<String>,
    /// The whole path matches GLOB
    #[arg(long, value_name = "GLOB")]
    path: Option<String>,
    /// The type is one of these, separated by commas
    #[arg(long = "type", short = 't', value_name = "TYPE", value_delimiter = ',')]
    kinds: Vec<TypeLetter>,
    /// The size is more (+SIZE) or less (-SIZE) than SIZE, or exactly SIZE: +10M, -4k, 0
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, value_parser = Bound::parse_size)]
    size: Option<Bound>,
    /// The content changed more (+N) or less (-N) than N days ago, or N days ago
    #[arg(long, value_name = "DAYS", allow_hyphen_values = true, value_parser = Bound::parse_days)]
    mtime: Option<Bound>,
    /// The content changed later than that of this file of the volume
    #[arg(long, value_name = "PATH")]
    newer: Option<OsString>,
    /// The file or directory is empty
    #[arg(long)]
    empty: bool,
    /// The path matches QUERY, as in fzf; the best matches come first
    ///
    /// The letters of a word must be in the path in their order, with any others between them. 'WORD must be
    /// there as it is, ^WORD at the beginning, WORD$ at the end, !WORD nowhere. Of words with | between them
    /// one must match. Capitals and accents count only in words that have some.
    #[arg(long, value_name = "QUERY", allow_hyphen_values = true)]
    fuzzy: Option<String>,
    /// With --fuzzy, print this many paths at most
    #[arg(long, value_name = "COUNT", requires = "fuzzy")]
    limit: Option<usize>,
    /// Descend at most this many levels
    #[arg(long, value_name = "DEPTH")]
    maxdepth: Option<usize>,
    /// Print nothing above this level
    #[arg(long, value_name = "DEPTH", default_value_t = 0, hide_default_value = true)]
    mindepth: usize,
    /// End each path with NUL instead of a newline, and never escape
    #[arg(short = '0', long)]
    print0: bool,
    /// Print one JSON object per line, with all attributes
    #[arg(long)]
    json: bool,
    /// Remove what is found, instead of printing it: files, and directories that are empty by then
    #[arg(long, conflicts_with_all = ["fuzzy", "print0", "json"])]
    delete: bool,
    #[command(flatten)]
    engine: EngineArgs,
    /// Directories to start at [default: the root directory; in a shell the working directory]
    #[arg(value_name = "PATH")]
    paths: Vec<OsString>,
}

impl Command for Find {
    fn changes(&self) -> bool {
        self.delete
    }

    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        let conditions = self.conditions(context)?;
        let progress = Progress::beside_output("searched");
        let mut search = Search { args: self, conditions, progress, doomed: Vec::new() };
        if let Some(query) = &self.fuzzy {
            return search.fuzzy(context, query);
        }
        let engines = self.engine.open(context, 1)?;
        let mirrored = engines.chosen().map(|(_, mirrored)| mirrored);
        for start in bytes::or_here(&self.paths) {
            let outcome = match &mirrored {
                Some(mirrored) => search.on_device(mirrored, context, start),
                None => search.walk(context, start),
            };
            context.go_on(outcome)?;
        }
        engine::report(engines.take_failure());
        search.delete(context)
    }
}

impl Find {
    /// The conditions of the arguments; those on names come first, for they need no attributes.
    fn conditions(&self, context: &Context<'_>) -> Result<Vec<Condition>, Failure> {
        let mut conditions = vec![Condition::MinDepth(self.mindepth)];
        if !self.kinds.is_empty() {
            conditions.push(Condition::Kinds(self.kinds.iter().map(|letter| letter.kind()).collect()));
        }
        for (pattern, ignore_case) in [(&self.name, false), (&self.iname, true)] {
            if let Some(pattern) = pattern {
                conditions.push(Condition::Name(Pattern::new(pattern, ignore_case)?));
            }
        }
        if let Some(pattern) = &self.path {
            conditions.push(Condition::Path(Pattern::new(pattern, false)?));
        }
        conditions.extend(self.size.map(|bound| Condition::Size(bound.numbers())));
        conditions.extend(self.mtime.map(|bound| Condition::Mtime(bound.times(Time::now()))));
        if let Some(path) = &self.newer {
            let time = context.resolve(bytes::of(path), true)?.mtime;
            conditions.push(Condition::Mtime(times_after(time)));
        }
        if self.empty {
            conditions.push(Condition::Empty);
        }
        Ok(conditions)
    }
}

/// A search in progress.
struct Search<'a> {
    args: &'a Find,
    conditions: Vec<Condition>,
    progress: Progress,
    /// Paths to remove when the search is over, and whether each is a directory's.
    doomed: Vec<(Vec<u8>, bool)>,
}

impl Search<'_> {
    /// Searches by a walk.
    fn walk(&mut self, context: &mut Context<'_>, start: &[u8]) -> Outcome {
        let attr = context.resolve(start, false)?;
        let options = WalkOptions { max_depth: self.args.maxdepth, ..WalkOptions::default() };
        let mut walk = Walk::new(context.volume, start, attr.ino, attr.kind, options);
        while let Some(step) = walk.next() {
            check_interrupt()?;
            let outcome = match step {
                Ok(step) if step.visit == Visit::Enter => {
                    let candidate = Candidate::new(walk.path(), walk.name(), step.ino, step.kind, step.depth);
                    self.visit(context, candidate)
                }
                Ok(_) => Ok(()),
                Err(failure) => Err(failure),
            };
            context.go_on(outcome)?;
        }
        Ok(())
    }

    /// Prints the paths that match a query, the best first.
    fn fuzzy(&mut self, context: &mut Context<'_>, query: &str) -> Outcome {
        let query = fuzzy_names::parse(query)?;
        let gpu = self.args.engine.open_device()?;
        let paths = bytes::or_here(&self.args.paths);
        let names = fuzzy_names::gather(context, &paths, true, self.args.maxdepth)?;
        let ranks = gpu.as_ref().and_then(|gpu| fuzzy_names::ranks(gpu, &names));
        let mut finder = fuzzy_names::finder(&names, ranks.as_ref());
        let found = finder.search_until(&query, usize::MAX, &interrupt::flag());
        let (matches, _) = found.ok_or(Failure::Interrupted)?;
        engine::report(ranks.and_then(|ranks| ranks.failure()));
        let limit = self.args.limit.unwrap_or(usize::MAX);
        let (mut left, mut path) = (limit, Vec::new());
        for found in matches {
            if left == 0 {
                break;
            }
            check_interrupt()?;
            path.clear();
            names.push_path(found.id, &mut path);
            let (ino, kind, depth) = names.entry(found.id);
            let name = path::file_name(&path).unwrap_or_default();
            let candidate = Candidate::new(&path, name, ino, kind, depth);
            match self.visit_scored(context, candidate, Some(found.score)) {
                Ok(is_printed) => left -= usize::from(is_printed),
                Err(failure) => context.go_on(Err(failure))?,
            }
        }
        if left == limit && limit > 0 {
            context.raise_status(exit::PARTIAL);
        }
        Ok(())
    }

    /// Searches on a device, which leaves out most entries; the others are decided as in
    /// [`walk`](Self::walk).
    fn on_device(&mut self, mirrored: &Mirrored<'_>, context: &mut Context<'_>, start: &[u8]) -> Outcome {
        let attr = context.resolve(start, false)?;
        let name = path::file_name(start).unwrap_or_default();
        self.visit(context, Candidate::new(start, name, attr.ino, attr.kind, 0))?;
        if attr.kind != FileKind::Directory {
            return Ok(());
        }
        let mut filter = Filter::default();
        self.conditions.iter().for_each(|condition| condition.narrow(&mut filter));
        let max_depth = self.args.maxdepth;
        let mut outcome = Ok(());
        let mut each = |found: Below<'_>| {
            let entry = found.entry;
            let visited = if path::is_name(&entry.name) {
                let candidate = Candidate::new(found.path, &entry.name, entry.ino, entry.kind, found.depth);
                self.visit(context, candidate)
            } else {
                Err(walk::impossible(found.path))
            };
            outcome = context.go_on(visited).and_then(|()| check_interrupt());
            outcome.is_ok()
        };
        let searched = mirrored.find_below(&filter, attr.ino, start, max_depth, &mut each);
        searched.map_err(|error| Failure::volume(start, &error))?;
        outcome
    }

    /// Removes the paths that were found, those below a directory before it.
    fn delete(mut self, context: &mut Context<'_>) -> Outcome {
        self.doomed.sort_unstable();
        self.doomed.dedup();
        let is_an_entry = |path: &[u8]| !matches!(path::file_name(path), None | Some(b"." | b".."));
        for (path, is_directory) in self.doomed.iter().rev().filter(|(path, _)| is_an_entry(path)) {
            let outcome = context.parent(path).and_then(|(dir, name)| {
                let removed = match is_directory {
                    true => context.volume.rmdir(&OWNER, dir, name),
                    false => context.volume.unlink(&OWNER, dir, name),
                };
                removed.map_err(|error| Failure::volume(path, &error))
            });
            context.go_on(outcome)?;
        }
        Ok(())
    }

    /// Prints a candidate that meets all conditions.
    fn visit(&mut self, context: &mut Context<'_>, candidate: Candidate<'_>) -> Outcome {
        self.visit_scored(context, candidate, None).map(drop)
    }

    /// [`visit`](Self::visit) for a candidate that has a score. True if it was printed.
    fn visit_scored(
        &mut self,
        context: &mut Context<'_>,
        mut candidate: Candidate<'_>,
        score: Option<u32>,
    ) -> Result<bool, Failure> {
        self.progress.tick();
        for condition in &self.conditions {
            if !condition.is_met(context, &mut candidate)? {
                return Ok(false);
            }
        }
        if self.args.delete {
            self.doomed.push((candidate.path.to_vec(), candidate.kind == FileKind::Directory));
            return Ok(true);
        }
        if self.args.json {
            let mut object = serde_json::Map::new();
            json::add_name(&mut object, "path", candidate.path);
            object.extend(score.map(|score| ("score".to_string(), score.into())));
            json::add_attributes(&mut object, &candidate.attr(context)?);
            writeln!(context.out, "{}", json::text(&object))?;
            return Ok(true);
        }
        let mut line = Vec::with_capacity(candidate.path.len() + 1);
        if self.args.print0 {
            line.extend_from_slice(candidate.path);
            line.push(0);
        } else {
            context.push_name(&mut line, candidate.path);
            line.push(b'\n');
        }
        context.out.write_all(&line)?;
        Ok(true)
    }
}
