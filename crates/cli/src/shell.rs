//! `lanefs shell`: a session on a volume, at a terminal or from a script.

mod helper;
mod words;

use crate::cli::{Run, VolumeCommand};
use crate::context::{Context, normalise, shown};
use crate::exit::{self, Failure, Outcome};
use crate::image::{self, Image};
use crate::input::Input;
use crate::{bytes, interrupt};
use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};
use helper::ShellHelper;
use lanefs::{Code, FileKind};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Open a session on a volume
///
/// The commands are those of `lanefs` without the IMAGE: ls, cat, mkdir and so on, with cd, pwd, sync, help and exit
/// beside them. A command takes several arguments; a bad one is reported and the rest is done. At a terminal there are
/// a history and completion with Tab. From a pipe or a file commands are read one a line.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs shell v.lane
  lanefs shell mem:1G
  printf 'mkdir -p /a/b\\nls -l /a\\n' | lanefs shell v.lane

Words are separated by spaces. 'Single quotes' keep everything, \"double quotes\" everything but
backslashes; \\xNN is the byte NN, and a backslash before anything else takes it as it is: names can
be typed as they are printed. A # at the start of a word begins a comment.

The exit code is the worst of all commands, or the number given to `exit`.")]
pub struct Shell {
    /// The volume: a file, a raw device, or mem:SIZE for a fresh one in memory
    #[arg(value_name = "IMAGE", value_parser = image::parser())]
    pub image: Image,
    /// Open the volume for reading only
    #[arg(long, short)]
    pub read_only: bool,
    /// Stop a script at the first command that fails
    #[arg(long, short = 'e')]
    exit_on_error: bool,
    /// Run this command and end; may be given several times
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
struct Line {
    #[command(subcommand)]
    command: LineCommand,
}

/// What a line can say.
#[derive(Debug, Subcommand)]
enum LineCommand {
    #[command(flatten)]
    Volume(Box<VolumeCommand>),
    /// Change the working directory; to the root without DIR
    Cd {
        /// Where to
        #[arg(value_name = "DIR")]
        dir: Option<OsString>,
    },
    /// Print the working directory
    Pwd,
    /// Make everything so far durable
    Sync,
    /// End the session
    #[command(visible_alias = "quit")]
    Exit {
        /// The exit code; the worst of all commands without it
        #[arg(value_name = "CODE")]
        code: Option<u8>,
    },
}

/// Whether the session goes on.
enum Next {
    Line,
    /// With the exit code that the user wants; else it is the worst of all commands.
    End(Option<u8>),
}

impl Shell {
    /// Runs the session.
    ///
    /// # Errors
    /// Where the input fails, the user stops a script, or the output has gone.
    pub fn run(&self, context: &mut Context<'_>) -> Outcome {
        if !self.command.is_empty() {
            for line in &self.command {
                if let Next::End(_) = self.script_line(context, bytes::of(line))? {
                    break;
                }
            }
            return Ok(());
        }
        if std::io::stdin().is_terminal() { self.interactive(context) } else { self.script(context) }
    }

    fn script(&self, context: &mut Context<'_>) -> Outcome {
        let mut input = BufReader::new(Input::default());
        let mut line = Vec::new();
        loop {
            line.clear();
            let count = input.read_until(b'\n', &mut line);
            if count.map_err(|error| crate::commands::write::input_failure(&error))? == 0 {
                return Ok(());
            }
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            if let Next::End(_) = self.script_line(context, text)? {
                return Ok(());
            }
        }
    }

    /// One line of a script: an interruption or a closed output ends it.
    fn script_line(&self, context: &mut Context<'_>, line: &[u8]) -> Result<Next, Failure> {
        let before = std::mem::replace(&mut context.status, exit::OK);
        let next = execute(context, line);
        let failed = context.status != exit::OK;
        context.status = context.status.max(before);
        match next? {
            Next::Line if failed && self.exit_on_error => Ok(Next::End(None)),
            Next::End(code) => {
                context.status = code.unwrap_or(context.status);
                Ok(Next::End(code))
            }
            Next::Line => Ok(Next::Line),
        }
    }

    fn interactive(&self, context: &mut Context<'_>) -> Outcome {
        let failure = |error: ReadlineError| Failure::new(exit::HOST, "terminal", &error.to_string(), "");
        let config = Config::builder().completion_type(CompletionType::List).auto_add_history(true).build();
        let mut editor: Editor<ShellHelper<'_>, FileHistory> =
            Editor::with_config(config).map_err(failure)?;
        let history = history_file();
        if let Some(file) = &history {
            // A first session has none.
            let _ = editor.load_history(file);
        }
        let commands = <Line as clap::CommandFactory>::command();
        editor.set_helper(Some(ShellHelper::new(context.volume, &commands)));
        context.terminal = std::io::stdout().is_terminal();
        let outcome = loop {
            if let Some(helper) = editor.helper_mut() {
                helper.cwd.clone_from(&context.cwd);
                helper.cwd_ino = context.cwd_ino;
            }
            match editor.readline(&format!("lanefs {}> ", shown(&context.cwd))) {
                Ok(line) => {
                    interrupt::clear();
                    let before = std::mem::replace(&mut context.status, exit::OK);
                    match execute(context, line.as_bytes()) {
                        Ok(Next::Line) => context.status = context.status.max(before),
                        Ok(Next::End(code)) => {
                            context.status = code.unwrap_or(before);
                            break Ok(());
                        }
                        // The command was stopped, not the session.
                        Err(Failure::Interrupted) => context.status = before,
                        Err(failure) => break Err(failure),
                    }
                }
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => break Ok(()),
                Err(error) => break Err(failure(error)),
            }
        };
        interrupt::clear();
        if let Some(file) = &history {
            // A home that cannot be written costs the history and nothing else.
            let _ = file.parent().map(std::fs::create_dir_all);
            let _ = editor.save_history(file);
        }
        outcome
    }
}

fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|dir| dir.is_absolute())
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state")))?;
    Some(state.join("lanefs/history"))
}

/// Runs one line. A failed command is reported here; only what ends the session is an error.
fn execute(context: &mut Context<'_>, line: &[u8]) -> Result<Next, Failure> {
    let words = match words::split(line) {
        Ok(words) if words.is_empty() => return Ok(Next::Line),
        Ok(words) => words,
        Err(what) => {
            context.report(&Failure::usage(line, what, "close it, or write it as \\x27 or \\x22"));
            return Ok(Next::Line);
        }
    };
    let words = words.into_iter().map(OsString::from_vec);
    let outcome = match Line::try_parse_from(words) {
        Ok(line) => match line.command {
            LineCommand::Volume(command) => command.run(context),
            LineCommand::Cd { dir } => cd(context, dir.as_deref().map_or(b"/", bytes::of)),
            LineCommand::Pwd => {
                let mut text = Vec::new();
                context.push_name(&mut text, &context.cwd);
                text.push(b'\n');
                context.out.write_all(&text).map_err(Failure::from)
            }
            LineCommand::Sync => context.volume.sync().map_err(|e| Failure::volume("volume", &e)),
            LineCommand::Exit { code } => {
                return Ok(Next::End(code));
            }
        },
        Err(error) => {
            let _ = context.out.flush();
            exit::show_clap(&error);
            if !matches!(error.kind(), ErrorKind::DisplayHelp) {
                context.status = context.status.max(exit::USAGE);
            }
            Ok(())
        }
    };
    match outcome.and_then(|()| context.out.flush().map_err(Failure::from)) {
        Err(failure @ Failure::Message { .. }) => context.report(&failure),
        other => other?,
    }
    Ok(Next::Line)
}

fn cd(context: &mut Context<'_>, dir: &[u8]) -> Outcome {
    let path = normalise(&context.cwd, dir);
    let attr = context.resolve(&path, true)?;
    if attr.kind != FileKind::Directory {
        return Err(Failure::code(dir, Code::NotDirectory));
    }
    context.cwd = path;
    context.cwd_ino = attr.ino;
    Ok(())
}
