//! `lanefs pick`.

mod line_editor;
mod picker;
mod screen;
mod session;
mod terminal;

use crate::common::engine::{self, EngineArgs};
use crate::common::fuzzy_names;
use crate::session::command::{Command, HostCommand};
use crate::session::context::Context;
use crate::terminal::failure::{Failure, Outcome};
use crate::terminal::{console, exit, interrupt};
use crate::text::bytes;
use crate::text::json;
use clap::Args;
use lanefs::FileSystem;
use lanefs_fuse::RemoteVolume;
use lanefs_search::fuzzy::{Match, Names};
use picker::Picker;
use session::Picked;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};

/// Pick paths by typing parts of them
///
/// Shows the paths that match QUERY, the best first, and narrows them with each key. Up and Down choose a
/// path, Tab marks several, Enter prints them, and Esc leaves with exit code 130. Without a terminal, and
/// with --filter, it prints all paths that match.
///
/// The letters of a word must be in the path in their order, with any others between them. 'WORD must be
/// there as it is, ^WORD at the beginning, WORD$ at the end, !WORD nowhere. Of words with | between them one
/// must match. Capitals and accents count only in words that have some.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs pick v.lane
  lanefs cat v.lane \"$(lanefs pick v.lane 'conf .toml$')\"
  lanefs pick v.lane '' /photos -0 | xargs -0 -r lanefs rm v.lane
  lanefs pick v.lane --filter 'srmain .rs$' --limit 10
  lanefs pick v.lane --engine gpu

Keys: Up, Down, Ctrl-P, Ctrl-N, PageUp, PageDown; Tab marks; Ctrl-A, Ctrl-E, Ctrl-U, Ctrl-W edit the query.

The exit code is 0 if a path was printed, 1 if none matches, 130 if the user left without one.")]
pub struct Pick {
    /// The query at the beginning
    #[arg(value_name = "QUERY", default_value = "", hide_default_value = true)]
    query: String,
    /// Directories to search in [default: the root directory; in a shell the working directory]
    #[arg(value_name = "PATH")]
    paths: Vec<OsString>,
    /// Print all paths that match QUERY, the best first, and ask nothing
    #[arg(short, long, value_name = "QUERY", conflicts_with = "query", allow_hyphen_values = true)]
    filter: Option<String>,
    /// Directories to search in with --filter; may be given several times
    #[arg(long = "in", value_name = "PATH", requires = "filter")]
    within: Vec<OsString>,
    /// Without a terminal or with --filter, print this many paths at most
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,
    /// End each path with NUL instead of a newline, and never escape
    #[arg(short = '0', long)]
    print0: bool,
    /// Print one JSON object per line: path, score
    #[arg(long, conflicts_with = "print0")]
    json: bool,
    #[command(flatten)]
    engine: EngineArgs,
}

impl Command for Pick {
    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        self.pick(context)
    }

    fn on_host(&self) -> Option<&dyn HostCommand> {
        // The client has the terminal.
        Some(self)
    }
}

impl HostCommand for Pick {
    fn execute_beside(&self, context: &mut Context<'_, RemoteVolume>) -> Outcome {
        self.pick(context)
    }
}

impl Pick {
    fn pick<V: FileSystem>(&self, context: &mut Context<'_, V>) -> Outcome {
        let asks = self.filter.is_none()
            && console::client().is_none()
            && std::io::stdin().is_terminal()
            && console::errors_are_terminal();
        let text = self.filter.as_ref().unwrap_or(&self.query);
        let query = fuzzy_names::parse(text)?;
        let here = context.cwd.clone();
        let paths: Vec<&[u8]> = self.paths.iter().chain(&self.within).map(|path| bytes::of(path)).collect();
        let paths = if paths.is_empty() { vec![&here[..]] } else { paths };
        let gpu = self.engine.open_device()?;
        let names = fuzzy_names::gather(context, &paths, false, None)?;
        let ranks = gpu.as_ref().and_then(|gpu| fuzzy_names::ranks(gpu, &names));
        let mut finder = fuzzy_names::finder(&names, ranks.as_ref());
        let picked = if asks {
            context.out.flush()?;
            match session::run(Picker::new(finder, text))? {
                Picked::Some(picked) => picked,
                Picked::None => return Err(Failure::Interrupted),
            }
        } else {
            let limit = self.limit.unwrap_or(usize::MAX);
            finder.search_until(&query, limit, &interrupt::flag()).ok_or(Failure::Interrupted)?.0
        };
        engine::report(ranks.and_then(|ranks| ranks.failure()));
        if picked.is_empty() {
            context.raise_status(exit::PARTIAL);
        }
        picked.iter().try_for_each(|found| self.print(context, &names, *found))
    }

    fn print<V: FileSystem>(&self, context: &mut Context<'_, V>, names: &Names, found: Match) -> Outcome {
        let path = names.path(found.id);
        if self.json {
            let mut object = serde_json::Map::new();
            json::add_name(&mut object, "path", &path);
            object.insert("score".to_string(), found.score.into());
            return Ok(writeln!(context.out, "{}", json::text(&object))?);
        }
        let mut line = Vec::with_capacity(path.len() + 1);
        if self.print0 {
            line.extend_from_slice(&path);
            line.push(0);
        } else {
            context.push_name(&mut line, &path);
            line.push(b'\n');
        }
        Ok(context.out.write_all(&line)?)
    }
}
