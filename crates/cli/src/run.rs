//! The program: parses the command line, opens the volume, executes the command and returns the exit code.

use crate::cli::{Cli, Program, VolumeCommand};
use crate::commands::publish::Publish;
use crate::commands::sync::watch::{self, Follow};
use crate::commands::sync::{self, SyncTree};
use crate::commands::warm::Warm;
use crate::mount_helper;
use crate::session::command::{AfterCommand, Command};
use crate::session::context::Context;
use crate::session::image::{self, Image};
use crate::session::mounted;
use crate::terminal::failure::{Failure, Outcome, exit_code, print_clap};
use crate::terminal::{console, exit, interrupt};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use lanefs::{Access, OpenOptions, Volume};
use lanefs_fuse::client::MountedVolume;
use std::ffi::OsString;
use std::process::ExitCode;

/// Executes the program with the arguments of the process.
pub fn main() -> ExitCode {
    if let Some(code) = mount_helper::run_if_called() {
        return ExitCode::from(code);
    }
    let code = match Cli::try_parse() {
        Ok(cli) => {
            match &cli.command {
                Program::Publish(publish) => publish.explain_interrupts(),
                Program::Warm(_) => Warm::explain_interrupts(),
                _ => {}
            }
            // A mount installs a handler of its own.
            if !matches!(cli.command, Program::Mount(_)) {
                interrupt::install();
            }
            cli.cache.into_iter().for_each(image::set_cache);
            cli.directory_table.into_iter().for_each(image::set_directory_table);
            cli.store.set();
            if !opens_a_volume(&cli.command) {
                interrupt::wait_for_commands();
            }
            execute(cli.command)
        }
        Err(error) => {
            print_clap(&error);
            if mount_helper::is_called_by_another_name() {
                console::say(mount_helper::MISSING_LINK);
            }
            usage_code(&error)
        }
    };
    ExitCode::from(code)
}

/// The exit code for an error of clap. Help is success; `fsck` has its own code for wrong usage.
fn usage_code(error: &clap::Error) -> u8 {
    let is_fsck = std::env::args_os().nth(1).is_some_and(|first| first == "fsck");
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => exit::OK,
        _ if is_fsck => exit::fsck::USAGE,
        _ => exit::USAGE,
    }
}

/// True for a command that may wait for a volume, or for the server of a mount.
fn opens_a_volume(command: &Program) -> bool {
    matches!(
        command,
        Program::Volume(_)
            | Program::Diff(_)
            | Program::Shell(_)
            | Program::Publish(_)
            | Program::Join(_)
            | Program::Warm(_)
            | Program::Umount(_)
            | Program::Top(_)
    )
}

fn execute(command: Program) -> u8 {
    match command {
        Program::Mkfs(mkfs) => exit_code(mkfs.execute().map(|()| exit::OK)),
        Program::Volume(command) => {
            let (image, command) = command.split();
            if matches!(command, VolumeCommand::Sync(_)) {
                image::set_cache(sync::CACHE_BYTES);
            }
            match &command {
                VolumeCommand::Fsck(fsck) => fsck.execute_on(&image),
                VolumeCommand::Sync(sync) if sync.is_watch() => {
                    exit_code(watch::follow(sync, &Followed { image: &image, sync }))
                }
                command => {
                    let code = on_image(&image, command);
                    if let VolumeCommand::Sync(sync) = command {
                        sync.keep_record();
                    }
                    match command.publishes() {
                        Some(after) if code <= exit::PARTIAL => code.max(publish(&image, after)),
                        _ => code,
                    }
                }
            }
        }
        Program::Shell(shell) => {
            let refuse = |_: &MountedVolume| {
                let advice = "use single commands, or unmount it with `lanefs umount` first";
                Err(Failure::new(exit::IMAGE, shell.image.name(), "is mounted", advice))
            };
            let execute = |context: &mut Context<'_>| shell.execute::<VolumeCommand>(context);
            let access = if shell.read_only { Access::Read } else { shell.image.best_access() };
            on_volume(&shell.image, access.into(), execute, refuse)
        }
        Program::Diff(diff) => exit_code(diff.execute()),
        Program::Pull(pull) => exit_code(pull.execute().map(|()| exit::OK)),
        Program::Warm(warm) => exit_code(warm.execute()),
        Program::Remote(remote) => exit_code(remote.execute().map(|()| exit::OK)),
        Program::Publish(publish) => exit_code(publish.execute().map(|()| exit::OK)),
        Program::Join(join) => exit_code(join.execute().map(|()| exit::OK)),
        Program::Mount(mount) => exit_code(mount.execute(on_mounted)),
        Program::Umount(umount) => exit_code(umount.execute().map(|()| exit::OK)),
        Program::Top(top) => exit_code(top.execute()),
        Program::Demo(demo) => exit_code(demo.execute()),
        Program::Gpu(gpu) => exit_code(gpu.execute().map(|()| exit::OK)),
        Program::Completions(completions) => {
            exit_code(completions.execute(Cli::command()).map(|()| exit::OK))
        }
        Program::Man(man) => exit_code(man.execute(Cli::command()).map(|()| exit::OK)),
    }
}

/// Executes a command on the volume of an image, mounted or not.
fn on_image(image: &Image, command: &VolumeCommand) -> u8 {
    let on_mount = |mount: &MountedVolume| on_mount(mount, command);
    let execute = |context: &mut Context<'_>| {
        context.volume.bound_expansion(command.max_expansion());
        command.execute(context)
    };
    let access = if command.changes() { Access::Write } else { Access::Read };
    let options = OpenOptions { growth: command.growth(), ..OpenOptions::from(access) };
    on_volume(image, options, execute, on_mount)
}

/// The volume that follows a watched tree.
struct Followed<'f> {
    image: &'f Image,
    sync: &'f SyncTree,
}

impl Follow for Followed<'_> {
    fn round(&self, sync: SyncTree) -> u8 {
        // All rounds share the record.
        let code = on_image(self.image, &VolumeCommand::Sync(sync));
        self.sync.keep_record();
        code
    }

    fn may_become_free(&self) -> bool {
        let Image::Path(path) = self.image else { return false };
        let is_in_use = |error: &lanefs::Error| error.kind() == lanefs::ErrorKind::InUse;
        Volume::open(path, Access::Write).map_or_else(|error| is_in_use(&error), |_| true)
    }

    fn publish(&self) -> u8 {
        self.sync.publishes().map_or(exit::OK, |after| publish(self.image, after))
    }
}

/// Publishes a volume after a command that changed it.
fn publish(image: &Image, after: AfterCommand<'_>) -> u8 {
    let publish = Publish::new(image.clone(), after.to.clone(), after.json);
    exit_code(publish.execute().map(|()| exit::OK))
}

/// Opens the volume, executes a command on it and closes it even if the command failed. Calls `beside` in
/// place of all this for a volume that is mounted.
fn on_volume(
    image: &Image,
    options: OpenOptions,
    command: impl FnOnce(&mut Context<'_>) -> Outcome,
    beside: impl FnOnce(&MountedVolume) -> Result<u8, Failure>,
) -> u8 {
    let access = options.access;
    let volume = match image.open(options) {
        Ok(volume) => volume,
        Err(failure) => {
            return exit_code(mounted::in_place_of(image, failure).and_then(|mount| beside(&mount)));
        }
    };
    interrupt::wait_for_commands();
    image.warn_of_damage(&volume);
    let mut context = Context::new(&volume, image);
    let outcome = command(&mut context);
    let status = context.finish(outcome);
    drop(context);
    status.max(image.close(volume, access))
}

/// Executes a command on a mounted volume: here if it uses files of the host, otherwise in the server.
fn on_mount(mount: &MountedVolume, command: &VolumeCommand) -> Result<u8, Failure> {
    match command.on_host() {
        Some(here) => mounted::execute_here(mount, here, command.changes()),
        None => match command.new_file() {
            Some(path) => mounted::forward_into(mount, path),
            None => mounted::forward(mount, command.host_file()?),
        },
    }
}

/// Executes a client's command line (the words after the program's name) on a mounted volume. Its changes are
/// durable when it returns.
fn on_mounted(image: &Image, volume: &Volume, words: &[OsString]) -> u8 {
    let words = [OsString::from("lanefs")].into_iter().chain(words.iter().cloned());
    let command = match Cli::try_parse_from(words).map(|cli| cli.command) {
        Ok(Program::Volume(command)) => command.split().1,
        // The client has parsed the same words.
        Ok(_) | Err(_) => return exit::USAGE,
    };
    if matches!(command, VolumeCommand::Fsck(_) | VolumeCommand::Grow(_) | VolumeCommand::Tune(_)) {
        return exit_code(Err(mounted::in_use(image)));
    }
    if command.changes()
        && let Err(failure) = image.check_changes()
    {
        return exit_code(Err(failure));
    }
    if command.on_host().is_some() {
        let advice = "the client executes it";
        return exit_code(Err(Failure::usage(image.name(), "the server uses no files of the host", advice)));
    }
    let mut context = Context::new(volume, image);
    let outcome = command.execute(&mut context);
    let outcome = match command.changes() {
        true => outcome.and(volume.sync().map_err(|error| image.failure(&error))),
        false => outcome,
    };
    context.finish(outcome)
}
