//! What can be written on the command line. The commands that work on an open volume are listed once, in
//! `volume_commands!`, and serve both `lanefs COMMAND IMAGE ...` and a line of the shell.

use crate::commands::*;
use crate::context::Context;
use crate::demo::DemoArgs;
use crate::exit::{self, Outcome};
use crate::image::{self, Image};
use crate::import_export::{Export, Import};
use crate::shell::Shell;
use clap::{Args, Parser, Subcommand};

/// A file system in one file: volumes of files and directories whose paths resolve in batches
///
/// A LaneFS volume lives in one file, raw device or block of memory. These commands make it, fill it, look into it and
/// check it, without root and without mounting anything; `lanefs mount` makes it a directory for all programs. IMAGE is always the volume's file or device; `mem:SIZE` is a
/// fresh volume in memory that lasts for one command (most useful with `shell`). Paths inside a volume start at its
/// root directory, with or without a leading slash. They may hold any bytes but NUL; on a terminal and in
/// tab-separated output control characters and invalid UTF-8 appear as \xNN and a backslash as \\.
#[derive(Debug, Parser)]
#[command(
    name = "lanefs",
    version,
    arg_required_else_help = true,
    subcommand_required = true,
    max_term_width = 110,
    after_long_help = after_help(),
    after_help = "`lanefs --help` explains more; `lanefs COMMAND --help` explains a command, with examples."
)]
pub struct Cli {
    /// Memory for blocks of the volume, beside what was changed: 256M, 8G (a quarter of the machine's without it)
    #[arg(long, global = true, value_name = "SIZE", value_parser = crate::size::parse_size)]
    pub cache: Option<u64>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

fn after_help() -> String {
    format!(
        "Examples:
  lanefs mkfs photos.lane --size 8G
  lanefs import photos.lane ~/Pictures /Pictures
  lanefs ls -l photos.lane /Pictures
  find /Pictures | lanefs lookup photos.lane --paths - --stat
  lanefs fsck photos.lane
  lanefs mount photos.lane /mnt
  lanefs shell mem:1G

{}",
        exit::TABLE
    )
}

// The arguments of a command on a volume: the image, then what the command itself takes. Documentation here would
// take the place of each command's own in the help.
#[derive(Debug, Args)]
#[allow(missing_docs, reason = "see above")]
pub struct On<A: Args> {
    /// The volume: a file, a raw device, or mem:SIZE for a fresh one in memory
    #[arg(value_name = "IMAGE", value_parser = image::parser())]
    pub image: Image,
    /// The command's own arguments.
    #[command(flatten)]
    pub args: A,
}

/// A command on an open volume.
pub trait Run {
    /// Does it. What fails for one name is reported to the context, and the rest is done.
    ///
    /// # Errors
    /// What ends the whole command.
    fn run(&self, context: &mut Context<'_>) -> Outcome;

    /// True where the volume must be open for writing.
    fn changes(&self) -> bool {
        false
    }
}

macro_rules! volume_commands {
    ($($(#[$meta:meta])* $name:ident($args:ty),)*) => {
        /// A command on an open volume, as a line of the shell has it.
        #[derive(Debug, Subcommand)]
        pub enum VolumeCommand { $($(#[$meta])* #[allow(missing_docs)] $name($args),)* }

        /// The same commands, each with its IMAGE.
        #[derive(Debug, Subcommand)]
        pub enum ImageCommand { $($(#[$meta])* #[allow(missing_docs)] $name(On<$args>),)* }

        impl ImageCommand {
            /// The image, and the command on it.
            pub fn split(self) -> (Image, VolumeCommand) {
                match self { $(ImageCommand::$name(on) => (on.image, VolumeCommand::$name(on.args)),)* }
            }
        }

        impl Run for VolumeCommand {
            fn run(&self, context: &mut Context<'_>) -> Outcome {
                match self { $(VolumeCommand::$name(command) => command.run(context),)* }
            }

            fn changes(&self) -> bool {
                match self { $(VolumeCommand::$name(command) => command.changes(),)* }
            }
        }
    };
}

volume_commands! {
    Info(info::Info),
    Import(Import),
    Export(Export),
    Ls(ls::Ls),
    Tree(tree::Tree),
    Find(find::Find),
    Du(du::Du),
    Stat(stat::Stat),
    Lookup(lookup::Lookup),
    Cat(cat::Cat),
    Write(write::Write),
    Cp(cp::Cp),
    Mkdir(mkdir::Mkdir),
    Rmdir(rmdir::Rmdir),
    Rm(rm::Rm),
    Mv(mv::Mv),
    Ln(ln::Ln),
    Touch(touch::Touch),
    Truncate(truncate::Truncate),
    Chmod(chmod::Chmod),
    Chown(chown::Chown),
    Xattr(xattr::Xattr),
    Fsck(fsck::Fsck),
    Inspect(inspect::Inspect),
    Grow(grow::Grow),
}

/// Everything that `lanefs` does. Each command is described where its arguments are.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "a description here would take the place of the command's own in the help")]
pub enum Command {
    Mkfs(mkfs::Mkfs),
    #[command(flatten)]
    On(ImageCommand),
    Mount(mount::Mount),
    Umount(umount::Umount),
    Top(top::Top),
    Shell(Shell),
    Demo(DemoArgs),
    Gpu(gpu::GpuArgs),
    Completions(completions::Completions),
    Man(man::Man),
}
