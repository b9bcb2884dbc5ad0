//! A session at a terminal: the prompt, the history and completion.

use super::completion::ShellHelper;
use super::flow::{Flow, LineExecutor};
use super::history_file::HistoryFile;
use crate::session::context::Context;
use crate::terminal::failure::{Failure, Outcome};
use crate::terminal::{exit, interrupt};
use crate::text::escape::escape;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};
use std::io::IsTerminal;

type ShellEditor<'v> = Editor<ShellHelper<'v>, FileHistory>;

/// Executes the lines that the user types.
///
/// # Errors
/// The terminal fails, or the output is closed.
pub(super) fn run(
    context: &mut Context<'_>,
    commands: &clap::Command,
    execute_line: LineExecutor,
) -> Outcome {
    let config = Config::builder().completion_type(CompletionType::List).auto_add_history(true).build();
    let mut editor: ShellEditor<'_> = Editor::with_config(config).map_err(terminal_failure)?;
    let history = HistoryFile::open();
    if let Some(file) = &history {
        // One that cannot be read costs the history and nothing else.
        let _ = editor.load_history(&file.path());
    }
    editor.set_helper(Some(ShellHelper::new(context.volume, commands)));
    context.terminal = std::io::stdout().is_terminal();
    let outcome = execute_lines(context, &mut editor, execute_line);
    interrupt::clear();
    if let Some(file) = &history {
        let _ = editor.save_history(&file.path());
    }
    outcome
}

fn execute_lines(
    context: &mut Context<'_>,
    editor: &mut ShellEditor<'_>,
    execute_line: LineExecutor,
) -> Outcome {
    loop {
        if let Some(helper) = editor.helper_mut() {
            helper.cwd.clone_from(&context.cwd);
            helper.cwd_ino = context.cwd_ino;
        }
        let line = match editor.readline(&format!("lanefs {}> ", escape(&context.cwd))) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(terminal_failure(error)),
        };
        interrupt::clear();
        let before = std::mem::replace(&mut context.status, exit::OK);
        match execute_line(context, line.as_bytes()) {
            Ok(Flow::Continue) => context.raise_status(before),
            Ok(Flow::End(code)) => {
                context.status = code.unwrap_or(before);
                return Ok(());
            }
            // Ctrl-C stops the command, not the session.
            Err(Failure::Interrupted) => context.status = before,
            Err(failure) => return Err(failure),
        }
    }
}

fn terminal_failure(error: ReadlineError) -> Failure {
    Failure::new(exit::HOST, "terminal", &error.to_string(), "")
}
