//! No name, argument or message acts on a terminal, whichever command prints it. The commands and their
//! options come from the parser itself, so a new one is tried as soon as it exists.

use crate::common::{TestVolume, program, run, text};
use clap::{Arg, Command, CommandFactory};
use lanefs_cli::cli::Cli;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

/// A name that sets the title of a terminal, rings its bell, turns the direction of writing, and has an
/// invisible mark, a tag and a control character of eight bits.
const EVIL: &str = "e\x1b]0;title\x07\u{202e}\u{feff}\u{e0041}\u{9b}31mx";
/// The parts of the name that must not reach a terminal. (Progress and colours have escape sequences of their
/// own.)
const HARMFUL: [&str; 6] = ["\x1b]0;", "\x07", "\u{202e}", "\u{feff}", "\u{e0041}", "\u{9b}"];
/// An evil name of nothing that exists.
const MISSING: &str = "m\x1b]0;title\x07\u{202e}\u{feff}\u{e0041}\u{9b}31mx";

/// Runs the program with a terminal as standard output and standard error. Returns all that it printed.
fn on_terminal(dir: &Path, args: &[OsString]) -> String {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("the other end of the terminal");
    let name = ptsname(&terminal, Vec::new()).expect("a name").into_string().expect("its name is text");
    let end = || File::options().read(true).write(true).open(&name).expect("the other end");
    let mut child = program()
        .args(args)
        .current_dir(dir)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(end())
        .stderr(end())
        .spawn()
        .expect("the program starts");
    let (mut printed, mut terminal) = (Vec::new(), File::from(terminal));
    // The terminal reports an error where all other ends are closed. The bytes before it are kept.
    let _ = terminal.read_to_end(&mut printed);
    child.wait().expect("the program ends");
    String::from_utf8_lossy(&printed).into_owned()
}

/// All commands without commands below them, each with the words that name it.
pub(crate) fn leaves(command: &Command, words: &[String], found: &mut Vec<(Vec<String>, Command)>) {
    let below: Vec<&Command> = command.get_subcommands().filter(|one| one.get_name() != "help").collect();
    if below.is_empty() {
        found.push((words.to_vec(), command.clone()));
    }
    for one in below {
        leaves(one, &[words, &[one.get_name().to_string()]].concat(), found);
    }
}

pub(crate) fn is_image(arg: &Arg) -> bool {
    arg.get_value_names().is_some_and(|names| names.iter().any(|name| name.as_str() == "IMAGE"))
}

/// Runs of a command in which an evil name is each argument in turn, and in the volume and on the host, too.
fn lines(words: &[String], command: &Command) -> Vec<Vec<OsString>> {
    let line = |option: Option<&Arg>, image: &str, name: &str| -> Vec<OsString> {
        let mut line: Vec<OsString> = words.iter().map(OsString::from).collect();
        if let Some(long) = option.and_then(Arg::get_long) {
            line.push(format!("--{long}={EVIL}").into());
        }
        line.push("--".into());
        line.extend(command.get_positionals().map(|arg| if is_image(arg) { image } else { name }.into()));
        line
    };
    let is_option = |arg: &&Arg| !arg.is_positional() && arg.get_action().takes_values();
    let mut lines: Vec<Vec<OsString>> =
        command.get_arguments().filter(is_option).map(|arg| line(Some(arg), "v.lane", EVIL)).collect();
    // Without arguments these draw screens, take minutes, or ask the host's devices.
    if !["demo", "gpu", "top", "pick"].contains(&words[0].as_str()) {
        lines.extend([
            line(None, "v.lane", EVIL),
            line(None, "v.lane", MISSING),
            line(None, EVIL, EVIL),
            line(None, MISSING, MISSING),
        ]);
        // A mount would be one on the root of the host.
        if words[0] != "mount" {
            lines.push(line(None, "v.lane", "/"));
        }
    }
    lines
}

/// A directory with an image and a host file, whose names, contents and attributes are evil.
fn evil_volume() -> TestVolume {
    let v = TestVolume::sized("8M");
    let tree = v.host("tree");
    fs::create_dir_all(tree.join(EVIL)).expect("a directory");
    fs::write(tree.join(EVIL).join(EVIL), "content").expect("a file");
    std::os::unix::fs::symlink(EVIL, tree.join("link")).expect("a link");
    run(&["import", text(&v.image), text(&tree), "/"]).ends(0);
    let set = run(&["xattr", text(&v.image), "set", &format!("user.{EVIL}"), "value", &format!("/{EVIL}")]);
    set.ends(0);
    fs::rename(&tree, v.host(EVIL)).expect("another name");
    v
}

#[test]
fn no_command_lets_a_name_or_an_argument_act_on_a_terminal() {
    let v = evil_volume();
    let kept = v.host("kept");
    fs::copy(&v.image, &kept).expect("a copy");
    let mut commands = Vec::new();
    leaves(&Cli::command(), &[], &mut commands);
    assert!(commands.len() > 40, "{} commands", commands.len());
    let mut failures = Vec::new();
    for line in commands.iter().flat_map(|(words, command)| lines(words, command)) {
        fs::copy(&kept, &v.image).expect("the image as it was");
        let printed = on_terminal(v.dir.path(), &line);
        // Those of the lines that mount the volume there did so, each over the one before.
        while line[0] == "mount" && run(&["umount", text(&v.host(EVIL))]).code == 0 {}
        let found: Vec<&str> = HARMFUL.into_iter().filter(|harmful| printed.contains(harmful)).collect();
        if !found.is_empty() {
            failures.push(format!("{line:?} prints {found:?}: {printed:?}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
