//! The command line as clap parses it. `volume_commands!` lists the commands on an open volume once, for both
//! `lanefs COMMAND IMAGE ...` and a line of the shell.

use crate::commands::*;
use crate::session::command::{AfterCommand, Command, HostCommand};
use crate::session::context::Context;
use crate::session::image::{self, Image};
use crate::session::publication::StoreArgs;
use crate::terminal::exit;
use crate::terminal::failure::{Failure, Outcome};
use crate::text::size;
use clap::{Args, Parser, Subcommand};
use std::io::Read;
use std::path::Path;

/// A file system in one file: volumes of files and directories whose paths resolve in batches
///
/// A LaneFS volume lives in one file, raw device or block of memory. These commands create, fill, inspect and
/// check it without root and without mounting; `lanefs mount` makes it a directory for all programs. IMAGE is
/// always the volume's file or device, or the URL of a publication; `mem:SIZE` is a new volume in memory that
/// lasts for one command (most useful with `shell`). Paths inside a volume start at its root directory, with
/// or without a leading slash. They consist of any bytes but NUL; on a terminal and in tab-separated output
/// control characters and invalid UTF-8 appear as \xNN and a backslash as \\.
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
    /// Memory for unchanged blocks of the volume: 256M, 8G [default: a quarter of the machine's or the
    /// container's]
    #[arg(long, global = true, value_name = "SIZE", value_parser = size::parse_size)]
    pub cache: Option<u64>,
    /// Memory for the paths of directories that lookups remember; 0 for none [default: 64M]
    #[arg(long, global = true, value_name = "SIZE", value_parser = size::parse_size)]
    pub directory_table: Option<u64>,
    /// Options for publications.
    #[command(flatten)]
    pub store: StoreArgs,
    /// The command.
    #[command(subcommand)]
    pub command: Program,
}

fn after_help() -> String {
    format!(
        "Examples:
  lanefs mkfs photos.lane --size 8G
  lanefs import photos.lane ~/Pictures /Pictures
  lanefs ls -l photos.lane /Pictures
  find /Pictures | lanefs lookup photos.lane --paths - --stat --no-follow
  lanefs fsck photos.lane
  lanefs mount photos.lane /mnt
  lanefs shell mem:1G

{}",
        exit::table()
    )
}

// A command on a volume: the image, then the arguments of the command. Doc comments here would replace each
// command's own in the help.
#[derive(Debug, Args)]
#[allow(missing_docs, reason = "see above")]
pub struct OnImage<A: Args> {
    #[arg(value_name = "IMAGE", value_parser = image::parser(), help = image::HELP)]
    pub image: Image,
    /// The command's own arguments.
    #[command(flatten)]
    pub args: A,
}

// A command that changes the volume, for which a publication is none.
#[derive(Debug, Args)]
#[allow(missing_docs, reason = "see above")]
pub struct OnVolume<A: Args> {
    #[arg(value_name = "IMAGE", value_parser = image::parser(), help = image::CHANGED_HELP)]
    pub image: Image,
    /// The command's own arguments.
    #[command(flatten)]
    pub args: A,
}

macro_rules! volume_commands {
    ($($(#[$meta:meta])* $name:ident($args:ty, $on:ident),)*) => {
        /// A command on an open volume, as on a line of the shell.
        #[derive(Debug, Subcommand)]
        pub enum VolumeCommand { $($(#[$meta])* #[allow(missing_docs)] $name($args),)* }

        /// The same commands, each with its IMAGE.
        #[derive(Debug, Subcommand)]
        pub enum ImageCommand { $($(#[$meta])* #[allow(missing_docs)] $name($on<$args>),)* }

        impl ImageCommand {
            /// Splits the command into the image and the command on it.
            pub fn split(self) -> (Image, VolumeCommand) {
                match self { $(ImageCommand::$name(on) => (on.image, VolumeCommand::$name(on.args)),)* }
            }
        }

        impl Command for VolumeCommand {
            fn execute(&self, context: &mut Context<'_>) -> Outcome {
                match self { $(VolumeCommand::$name(command) => command.execute(context),)* }
            }

            fn host_file(&self) -> Result<Option<Box<dyn Read + Send>>, Failure> {
                match self { $(VolumeCommand::$name(command) => command.host_file(),)* }
            }

            fn new_file(&self) -> Option<&Path> {
                match self { $(VolumeCommand::$name(command) => command.new_file(),)* }
            }

            fn on_host(&self) -> Option<&dyn HostCommand> {
                match self { $(VolumeCommand::$name(command) => command.on_host(),)* }
            }

            fn max_expansion(&self) -> u64 {
                match self { $(VolumeCommand::$name(command) => command.max_expansion(),)* }
            }

            fn publishes(&self) -> Option<AfterCommand<'_>> {
                match self { $(VolumeCommand::$name(command) => command.publishes(),)* }
            }

            fn growth(&self) -> Option<u64> {
                match self { $(VolumeCommand::$name(command) => command.growth(),)* }
            }

            fn changes(&self) -> bool {
                match self { $(VolumeCommand::$name(command) => command.changes(),)* }
            }
        }
    };
}

volume_commands! {
    Info(info::Info, OnImage),
    Import(import::Import, OnVolume),
    Sync(sync::SyncTree, OnVolume),
    Export(export::Export, OnImage),
    Ls(ls::Ls, OnImage),
    Tree(tree::Tree, OnImage),
    Find(find::Find, OnImage),
    Pick(pick::Pick, OnImage),
    Grep(Box<grep::Grep>, OnImage),
    Dups(dups::Dups, OnImage),
    Du(du::Du, OnImage),
    Map(map::Map, OnImage),
    Inventory(Box<inventory::InventoryCommand>, OnImage),
    Stat(stat::Stat, OnImage),
    Lookup(lookup::Lookup, OnImage),
    Cat(cat::Cat, OnImage),
    Write(write::Write, OnVolume),
    Cp(cp::Cp, OnImage),
    Mkdir(mkdir::Mkdir, OnVolume),
    Rmdir(rmdir::Rmdir, OnVolume),
    Rm(rm::Rm, OnVolume),
    Mv(mv::Mv, OnVolume),
    Ln(ln::Ln, OnVolume),
    Touch(touch::Touch, OnVolume),
    Truncate(truncate::Truncate, OnVolume),
    Chattr(chattr::Chattr, OnVolume),
    Chmod(chmod::Chmod, OnVolume),
    Chown(chown::Chown, OnVolume),
    Xattr(xattr::Xattr, OnImage),
    Fsck(fsck::Fsck, OnImage),
    Scrub(scrub::Scrub, OnImage),
    Inspect(inspect::Inspect, OnImage),
    Grow(grow::Grow, OnVolume),
    Tune(tune::Tune, OnVolume),
}

/// All commands of the program. Each is described where its arguments are.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "a doc comment here would replace the command's own in the help")]
pub enum Program {
    Mkfs(mkfs::Mkfs),
    #[command(flatten)]
    Volume(ImageCommand),
    Diff(diff::Diff),
    Mount(mount::Mount),
    Umount(umount::Umount),
    Top(top::Top),
    Publish(Box<publish::Publish>),
    Join(join::JoinShards),
    Pull(pull::Pull),
    Warm(warm::Warm),
    Remote(remote::Remote),
    Shell(shell::Shell),
    Demo(demo::Demo),
    Gpu(gpu::GpuArgs),
    Completions(completions::Completions),
    Man(man::Man),
}
