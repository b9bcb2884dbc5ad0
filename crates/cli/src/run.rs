//! From the command line to the exit code.

use crate::cli::{Cli, Command, Run, VolumeCommand};
use crate::context::Context;
use crate::exit::{self, Failure, Outcome};
use crate::image::Image;
use crate::{context, demo, interrupt, mounting};
use clap::Parser;
use clap::error::ErrorKind;
use lanefs::{Access, Volume};
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the program on the process's own arguments.
pub fn main() -> ExitCode {
    if let Some(code) = mounting::as_helper() {
        return ExitCode::from(code);
    }
    let code = match Cli::try_parse() {
        Ok(cli) => {
            // A mount has a handler of its own.
            if !matches!(cli.command, Command::Mount(_)) {
                interrupt::install();
            }
            cli.cache.into_iter().for_each(crate::image::set_cache);
            dispatch(cli.command)
        }
        Err(error) => {
            exit::show_clap(&error);
            usage_code(&error)
        }
    };
    ExitCode::from(code)
}

/// Help that was asked for is success; `fsck` has its own code for wrong usage.
fn usage_code(error: &clap::Error) -> u8 {
    let for_fsck = std::env::args_os().nth(1).is_some_and(|first| first == "fsck");
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => exit::OK,
        _ if for_fsck => crate::commands::fsck::USAGE,
        _ => exit::USAGE,
    }
}

fn dispatch(command: Command) -> u8 {
    match command {
        Command::Mkfs(mkfs) => plain(mkfs.run().map(|()| exit::OK)),
        Command::On(on) => {
            let (image, command) = on.split();
            match &command {
                VolumeCommand::Fsck(fsck) => fsck.run_on(&image),
                command => on_volume(&image, access(command.changes()), |context| command.run(context)),
            }
        }
        Command::Shell(shell) => {
            on_volume(&shell.image, access(!shell.read_only), |context| shell.run(context))
        }
        Command::Mount(mount) => plain(mount.run()),
        Command::Umount(umount) => plain(umount.run().map(|()| exit::OK)),
        Command::Top(top) => plain(top.run()),
        Command::Demo(args) => plain(demo::run_demo(&args)),
        Command::Gpu(gpu) => plain(gpu.run().map(|()| exit::OK)),
        Command::Completions(completions) => plain(completions.run().map(|()| exit::OK)),
        Command::Man(man) => plain(man.run().map(|()| exit::OK)),
    }
}

fn access(changes: bool) -> Access {
    if changes { Access::Write } else { Access::Read }
}

/// The exit code of a command that has no context: its own, or that of the failure, which is told.
pub(crate) fn plain(outcome: Result<u8, Failure>) -> u8 {
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            if let Failure::Message { text, .. } = &failure {
                context::say(text);
            }
            failure.exit()
        }
    }
}

/// Opens the volume, runs a command on it and closes it, whatever the command came to.
fn on_volume(image: &Image, access: Access, command: impl FnOnce(&mut Context<'_>) -> Outcome) -> u8 {
    let volume = match image.open(access) {
        Ok(volume) => volume,
        Err(failure) => return plain(mounting::pass_on(image).unwrap_or(Err(failure))),
    };
    let mut context = Context::new(&volume, image);
    let outcome = command(&mut context);
    let status = context.finish(outcome);
    drop(context);
    status.max(close(image, volume, access))
}

/// Runs a client's command line (the words behind the program's name) on a volume that is mounted. What it changed is durable then.
pub(crate) fn on_mounted(image: &Image, volume: &Volume, words: &[OsString]) -> u8 {
    let words = [OsString::from("lanefs")].into_iter().chain(words.iter().cloned());
    let command = match Cli::try_parse_from(words).map(|cli| cli.command) {
        Ok(Command::On(on)) => on.split().1,
        Ok(Command::Shell(_)) => {
            let advice = "use single commands, or unmount it with `lanefs umount` first";
            return plain(Err(Failure::new(exit::IMAGE, image.name(), "is mounted", advice)));
        }
        // The client has parsed the same words.
        Ok(_) | Err(_) => return exit::USAGE,
    };
    if matches!(command, VolumeCommand::Fsck(_) | VolumeCommand::Grow(_)) {
        return plain(Err(mounting::in_use(image)));
    }
    let mut context = Context::new(volume, image);
    let outcome = command.run(&mut context);
    let outcome = match command.changes() {
        true => outcome.and(volume.sync().map_err(|error| image.failure(&error))),
        false => outcome,
    };
    context.finish(outcome)
}

/// Closes a volume; what was open for writing is durable then, or an error is told.
pub fn close(image: &Image, volume: Volume, access: Access) -> u8 {
    match access {
        // Nothing changed, so nothing can be lost: a volume that is only read need not be closed with care.
        Access::Read => exit::OK,
        Access::Write | Access::Repair => {
            plain(volume.close().map(|()| exit::OK).map_err(|error| image.failure(&error)))
        }
    }
}
