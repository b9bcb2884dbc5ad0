//! `lanefs chown`.

use crate::cli::Run;
use crate::context::Context;
use crate::exit::Outcome;
use crate::users::Owner;
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
    /// Change all below directories too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Change a symbolic link itself
    #[arg(long)]
    no_dereference: bool,
    /// USER, USER:GROUP or :GROUP, each a name of this host or a number
    #[arg(value_name = "OWNER", value_parser = Owner::parse)]
    owner: Owner,
    /// What to change
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
}

impl Run for Chown {
    fn changes(&self) -> bool {
        true
    }

    fn run(&self, context: &mut Context<'_>) -> Outcome {
        let set = SetAttr { uid: self.owner.uid, gid: self.owner.gid, ..SetAttr::default() };
        super::chmod::apply(context, &self.paths, self.recursive, !self.no_dereference, &|_| Some(set))
    }
}
