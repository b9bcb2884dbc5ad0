//! `lanefs shell`: a session on a volume, at a terminal or from a script.
//!
//! The session is generic over the set of commands `C` of its lines, so this module depends on no command.

mod completion;
mod flow;
mod history_file;
mod prompt;

use crate::session::command::Command;
use crate::session::context::Context;
use crate::session::image::{self, Image};
use crate::terminal::exit;
use crate::terminal::failure::{Failure, Outcome, print_clap};
use crate::terminal::input::Input;
use crate::text::{bytes, words};
use clap::error::{ContextKind, ErrorKind};
use clap::{Args, Parser, Subcommand};
use flow::Flow;
use lanefs::{Code, FileKind, path};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::os::unix::ffi::OsStringExt;

/// Open a session on a volume
///
/// The commands are those of `lanefs` without the IMAGE: ls, cat, mkdir and so on, and cd, pwd, help and
/// exit. `sync` alone makes all changes durable. A command that takes several names reports a bad one and
/// continues with the others. At a terminal the session has a history and completion with Tab. From a pipe or
/// a file it reads one command per line.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs shell v.lane
  lanefs shell mem:1G
  printf 'mkdir -p /a/b\\nls -l /a\\n' | lanefs shell v.lane

Spaces separate words. 'Single quotes' keep everything, \"double quotes\" everything but
backslashes; \\xNN is the byte NN, and a backslash before any other character takes it literally: type
names as they are printed. A # at the start of a word begins a comment.

The exit code is the worst of all commands, or the number given to `exit`.")]
pub struct Shell {
    /// The volume.
    #[arg(value_name = "IMAGE", value_parser = image::parser(), help = image::HELP)]
    pub image: Image,
    /// Open the volume for reading only
    #[arg(long, short)]
    pub read_only: bool,
    /// Stop a script at the first command that fails
    #[arg(long, short = 'e')]
    exit_on_error: bool,
    /// Execute this command and end; may be given several times
    #[arg(long, short, value_name = "LINE")]
    command: Vec<OsString>,
}

/// A line of the shell.
#[derive(Debug, Parser)]
#[command(
    multicall = true,
    disable_version_flag = true,
    subcommand_required = true,
    max_term_width = 110,
    help_template = "Commands:\n{subcommands}\n\n`COMMAND --help` explains one."
)]
struct ShellLine<C: Subcommand> {
    #[command(subcommand)]
    command: LineCommand<C>,
}

/// The command of a line.
#[derive(Debug, Subcommand)]
enum LineCommand<C: Subcommand> {
    #[command(flatten)]
    Volume(Box<C>),
    /// Change the working directory [default: the root directory]
    Cd {
        /// New working directory
        #[arg(value_name = "DIR")]
        dir: Option<OsString>,
    },
    /// Print the working directory
    Pwd,
    /// End the session
    #[command(visible_alias = "quit")]
    Exit {
        /// Exit code [default: the worst of all commands]
        #[arg(value_name = "CODE")]
        code: Option<u8>,
    },
}

impl Shell {
    /// Executes the session with the commands `C`.
    ///
    /// # Errors
    /// The input fails, the user stops a script, or the output is closed.
    pub fn execute<C: Command + Subcommand>(&self, context: &mut Context<'_>) -> Outcome {
        if !self.command.is_empty() {
            for line in &self.command {
                if let Flow::End(_) = self.script_line::<C>(context, bytes::of(line))? {
                    break;
                }
            }
            return Ok(());
        }
        match std::io::stdin().is_terminal() {
            true => {
                let commands = <ShellLine<C> as clap::CommandFactory>::command();
                prompt::run(context, &commands, execute_line::<C>)
            }
            false => self.script::<C>(context),
        }
    }

    fn script<C: Command + Subcommand>(&self, context: &mut Context<'_>) -> Outcome {
        let mut input = BufReader::new(Input::default());
        let mut line = Vec::new();
        loop {
            line.clear();
            let count = input.read_until(b'\n', &mut line);
            if count.map_err(|error| Failure::input(&error))? == 0 {
                return Ok(());
            }
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            if let Flow::End(_) = self.script_line::<C>(context, text)? {
                return Ok(());
            }
        }
    }

    /// Executes one line of a script. An interruption or a closed output ends the script.
    fn script_line<C: Command + Subcommand>(
        &self,
        context: &mut Context<'_>,
        line: &[u8],
    ) -> Result<Flow, Failure> {
        let before = std::mem::replace(&mut context.status, exit::OK);
        let flow = execute_line::<C>(context, line);
        let failed = context.status != exit::OK;
        context.raise_status(before);
        match flow? {
            Flow::Continue if failed && self.exit_on_error => Ok(Flow::End(None)),
            Flow::End(code) => {
                context.status = code.unwrap_or(context.status);
                Ok(Flow::End(code))
            }
            Flow::Continue => Ok(Flow::Continue),
        }
    }
}

/// Executes one line and reports its failure.
///
/// # Errors
/// Only failures that end the session.
fn execute_line<C: Command + Subcommand>(context: &mut Context<'_>, line: &[u8]) -> Result<Flow, Failure> {
    let words = match words::split(line) {
        Ok(words) if words.is_empty() => return Ok(Flow::Continue),
        Ok(words) => words,
        Err(what) => {
            context.report(&Failure::usage(line, what, "close it, or write it as \\x27 or \\x22"));
            return Ok(Flow::Continue);
        }
    };
    let outcome = match ShellLine::<C>::try_parse_from(words.into_iter().map(OsString::from_vec)) {
        Ok(ShellLine { command: LineCommand::Exit { code } }) => return Ok(Flow::End(code)),
        Ok(line) => execute_command(context, line.command),
        Err(mut error) => {
            let _ = context.out.flush();
            // A line has no form of its own; that of each command is in its help.
            if error.kind() == ErrorKind::InvalidSubcommand {
                error.remove(ContextKind::Usage);
            }
            print_clap(&error);
            if !matches!(error.kind(), ErrorKind::DisplayHelp) {
                context.raise_status(exit::USAGE);
            }
            Ok(())
        }
    };
    match outcome.and_then(|()| context.out.flush().map_err(Failure::from)) {
        Err(failure @ Failure::Message { .. }) => context.report(&failure),
        other => other?,
    }
    Ok(Flow::Continue)
}

fn execute_command<C: Command + Subcommand>(context: &mut Context<'_>, command: LineCommand<C>) -> Outcome {
    match command {
        LineCommand::Volume(command) => {
            if command.changes() {
                context.image.check_changes()?;
            }
            if let Some(after) = command.publishes() {
                let advice = "end the session, and use `lanefs publish`";
                return Err(Failure::usage(after.to.to_string(), "a session does not publish", advice));
            }
            context.volume.bound_expansion(command.max_expansion());
            command.execute(context)
        }
        LineCommand::Cd { dir } => change_directory(context, dir.as_deref().map_or(b"/", bytes::of)),
        LineCommand::Pwd => {
            let mut text = Vec::new();
            context.push_name(&mut text, &context.cwd);
            text.push(b'\n');
            Ok(context.out.write_all(&text)?)
        }
        LineCommand::Exit { .. } => Ok(()),
    }
}

fn change_directory(context: &mut Context<'_>, dir: &[u8]) -> Outcome {
    let path = normalise(&context.cwd, dir);
    let attr = context.resolve(&path, true)?;
    if attr.kind != FileKind::Directory {
        return Err(Failure::code(dir, Code::NotDirectory));
    }
    context.cwd = path;
    context.cwd_ino = attr.ino;
    Ok(())
}

/// Returns `path`, taken from the absolute path `cwd`, without `.` and `..`, as `cd` removes them.
fn normalise(cwd: &[u8], path: &[u8]) -> Vec<u8> {
    let whole = if path.starts_with(b"/") { path.to_vec() } else { path::join(cwd, path) };
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path::components(&whole) {
        match part {
            b"." => {}
            b".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    [b"/", &parts.join(&b'/')[..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cd_normalises() {
        for (cwd, path, result) in [
            ("/", "a/./b//c", "/a/b/c"),
            ("/a/b", "../c", "/a/c"),
            ("/a", "../../..", "/"),
            ("/a", "/x/", "/x"),
            ("/a", "", "/a"),
        ] {
            assert_eq!(normalise(cwd.as_bytes(), path.as_bytes()), result.as_bytes());
        }
    }
}
