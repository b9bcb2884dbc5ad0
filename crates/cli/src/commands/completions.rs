//! `lanefs completions`.

use crate::terminal::console;
use crate::terminal::failure::Outcome;
use clap::Args;
use std::io::Write;

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs completions bash > ~/.local/share/bash-completion/completions/lanefs
  lanefs completions fish > ~/.config/fish/completions/lanefs.fish")]
pub struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: clap_complete::Shell,
}

impl Completions {
    /// Prints the script that completes the commands of `program`.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn execute(&self, mut program: clap::Command) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, "lanefs", &mut script);
        Ok(console::output().write_all(&script)?)
    }
}
