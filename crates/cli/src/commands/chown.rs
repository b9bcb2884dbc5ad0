//! `lanefs chown`.

use crate::common::set_attributes::Scope;
use crate::session::command::Command;
use crate::session::context::Context;
use crate::session::users::Owner;
use crate::terminal::failure::Outcome;
use clap::Args;
use lanefs::SetAttr;
use std::ffi::OsString;

/// Change owner and group
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs chown v.lane 1000:1000 /a
  lanefs chown v.lane -R alice /home/alice
  lanefs chown v.lane :users /shared")]
pub struct Chown {
    /// Change all files below directories too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Change a symbolic link itself
    #[arg(long)]
    no_dereference: bool,
    /// USER, USER:GROUP or :GROUP; each is a name of this host or a number
    #[arg(value_name = "OWNER", value_parser = Owner::parse)]
    owner: Owner,
    /// Files to change
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
}

impl Command for Chown {
    fn changes(&self) -> bool {
        true
    }

    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        let set = SetAttr { uid: self.owner.uid, gid: self.owner.gid, ..SetAttr::default() };
        let scope = Scope { paths: &self.paths, recursive: self.recursive, follow: !self.no_dereference };
        scope.apply(context, &|_| Some(set))
    }
}
