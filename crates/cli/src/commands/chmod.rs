//! `lanefs chmod`.

use crate::common::set_attributes::Scope;
use crate::session::command::Command;
use crate::session::context::Context;
use crate::terminal::failure::Outcome;
use crate::text::mode::ModeChange;
use clap::Args;
use lanefs::{FileKind, SetAttr};
use std::ffi::OsString;

/// Change permissions
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs chmod v.lane 644 /a /b
  lanefs chmod v.lane -R u+rwX,go-w /dir

A sign without u, g, o or a before it changes all three. Symbolic links keep their permissions; -R does
not follow the links below a directory.")]
pub struct Chmod {
    /// Change all files below directories too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Permissions: octal, or symbolic like u+rw,go-x
    #[arg(value_name = "MODE", value_parser = ModeChange::parse, allow_hyphen_values = true)]
    mode: ModeChange,
    /// Files to change
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
}

impl Command for Chmod {
    fn changes(&self) -> bool {
        true
    }

    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        let scope = Scope { paths: &self.paths, recursive: self.recursive, follow: true };
        scope.apply(context, &|attr| {
            let perm = self.mode.apply(attr.kind, attr.perm);
            (attr.kind != FileKind::Symlink).then(|| SetAttr { perm: Some(perm), ..SetAttr::default() })
        })
    }
}
