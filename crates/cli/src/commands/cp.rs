//! `lanefs cp`: into the volume, out of it and within it.

mod copier;
mod host_file;
mod host_target;
mod inside_target;
mod location;
mod meta;
mod reader;
mod sink;
mod source;
#[cfg(test)]
mod swaps;
mod writer;

use crate::session::command::{Command, HostCommand};
use crate::session::context::Context;
use crate::session::expansion;
use crate::terminal::failure::{Failure, Outcome};
use clap::Args;
use copier::{Copier, CopyOptions};
use lanefs::{FileSystem, path};
use lanefs_fuse::RemoteVolume;
use location::Location;
use std::ffi::OsString;

/// Copy files into, out of and within a volume
///
/// A path that begins with a colon is inside the volume, any other on the host; ./:name is a host file whose
/// name begins with a colon. The last PATH is the new name, or a directory that takes all others. Holes stay
/// holes. Files that cannot be copied are reported, and the others are copied. For whole trees `import` and
/// `export` are faster.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs cp v.lane photo.jpg :/photos/         into the volume
  lanefs cp v.lane :/etc/hosts :/etc/fstab .   out of it
  lanefs cp v.lane -rp ~/src :/src             a tree, with times and owners
  lanefs cp v.lane :/a :/b                     within it")]
pub struct Cp {
    /// Copy directories with all their entries; copy symbolic links and special files as such
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,
    /// Keep owner, permissions and times (permissions without set-id bits are always kept)
    #[arg(short, long)]
    preserve: bool,
    /// Leave existing files unchanged
    #[arg(short, long)]
    no_clobber: bool,
    /// Stop where the data that are read of the volume are more than FACTOR times its size, of a publication
    /// the bytes that were fetched, and more than 1G [0: no limit]
    #[arg(long, value_name = "FACTOR", default_value_t = expansion::DEFAULT)]
    max_expansion: u64,
    /// Sources, then the new name or the directory; `:PATH` is inside the volume
    #[arg(value_name = "PATH", required = true, num_args = 2..)]
    paths: Vec<OsString>,
}

impl Command for Cp {
    fn changes(&self) -> bool {
        self.paths.last().is_some_and(|last| Location::parse(last).inside)
    }

    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        self.copy(context)
    }

    fn max_expansion(&self) -> u64 {
        self.max_expansion
    }

    fn on_host(&self) -> Option<&dyn HostCommand> {
        Some(self)
    }
}

impl HostCommand for Cp {
    fn execute_beside(&self, context: &mut Context<'_, RemoteVolume>) -> Outcome {
        self.copy(context)
    }
}

impl Cp {
    fn copy(&self, context: &mut Context<'_, impl FileSystem>) -> Outcome {
        let Some((target, sources)) = self.paths.split_last() else { return Ok(()) };
        let target = Location::parse(target);
        let sources: Vec<Location> = sources.iter().map(|source| Location::parse(source)).collect();
        if !target.inside && sources.iter().any(|source| !source.inside) {
            let what = "source and target both lie outside of the volume";
            let advice = "put a colon before the path inside the volume, as in `lanefs cp IMAGE file :/dir/`";
            return Err(Failure::usage(&target.path, what, advice));
        }
        let into = target.is_directory(context)?;
        if sources.len() > 1 && !into {
            let advice = "several sources need an existing directory as the last path";
            return Err(Failure::partial(target.argument(), "not a directory", advice));
        }
        let (recursive, preserve, no_clobber) = (self.recursive, self.preserve, self.no_clobber);
        let mut copier = Copier::new(CopyOptions { recursive, preserve, no_clobber });
        for source in &sources {
            let (to, is_given) = match path::file_name(&source.path) {
                Some(name) if into && !matches!(name, b"." | b"..") => (target.join(name), false),
                // `dir/.` and `..` have no name of their own: their entries go into the target.
                _ => (target.clone(), true),
            };
            let outcome = copier.copy(context, source, &to, is_given);
            context.go_on(outcome)?;
        }
        Ok(())
    }
}
