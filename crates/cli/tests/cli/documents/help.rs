//! The examples of the help texts, each on a fresh copy of one volume (`help.sh`).

use super::sandbox::{Further, Step};
use super::{failures_of, sources};
use clap::{Command, CommandFactory};
use lanefs_cli::cli::Cli;

/// Examples that do not run, with the reason.
const NOT_RUN: [(&str, &str); 11] = [
    ("lanefs mkfs /dev/sdx1 --force", "a raw device"),
    ("lanefs scrub /dev/sdx1 --from 68719476736", "a raw device"),
    ("lanefs pick v.lane", "asks at a terminal; pick.rs answers"),
    ("lanefs cat v.lane \"$(lanefs pick v.lane 'conf .toml$')\"", "asks at a terminal; pick.rs answers"),
    ("lanefs top /mnt", "goes on until a key is pressed; mount.rs presses it"),
    ("lanefs top v.lane --interval 5", "goes on until a key is pressed; mount.rs presses it"),
    ("lanefs sync v.lane src /src --delete --watch", "goes on until a signal; sync.rs sends one"),
    ("lanefs man | man -l -", "man(1) and a terminal"),
    ("lanefs map v.lane --svg - | rsvg-convert > v.png", "rsvg-convert is not among the tools of the tests"),
    (
        "lanefs publish photos.lane s3://bucket/photos --endpoint http://localhost:9000",
        "no server has that port",
    ),
    ("lanefs pull https://example.org/photos#2026-11 photos.lane", "a server of the web"),
];

/// Examples whose exit code is 1, because they ask for what is not there, or find a difference.
const PARTIAL: [&str; 3] = [
    "lanefs lookup v.lane /etc/passwd /etc/nothing",
    "lanefs diff /usr/share v.lane:/share",
    "lanefs diff share.tar.xz v.lane:/share",
];

/// A command and those below it, with the words that call it.
fn commands(name: String, command: &Command) -> Vec<(String, Command)> {
    let below = command.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != "help");
    let below = below.flat_map(|one| commands(format!("{name} {}", one.get_name()), one));
    std::iter::once((name.clone(), command.clone())).chain(below).collect()
}

/// The lines below `Examples:`, each without the explanation in a column of its own.
fn examples(command: &Command) -> Vec<String> {
    let help = command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string);
    let help = help.unwrap_or_default();
    let lines = help.lines().skip_while(|line| !line.starts_with("Example")).skip(1);
    let lines = lines.take_while(|line| line.starts_with("  "));
    lines.filter_map(|line| line.trim().split("  ").next().map(str::to_string)).collect()
}

#[test]
fn the_examples_of_the_help_run() {
    let all = commands("lanefs".into(), &Cli::command());
    let pairs: Vec<(String, String)> = all
        .iter()
        .flat_map(|(name, one)| examples(one).into_iter().map(|line| (name.clone(), line)))
        .collect();
    let prepare = sources().join("crates/cli/tests/cli/documents/help.sh");
    let prepare = std::fs::read_to_string(prepare).expect("help.sh");
    let (mut unknown, mut steps) = (NOT_RUN.map(|(line, _)| line).to_vec(), Vec::new());
    unknown.extend(PARTIAL);
    for (name, line) in &pairs {
        unknown.retain(|one| one != line);
        if let Some((_, reason)) = NOT_RUN.iter().find(|(one, _)| one == line) {
            println!("not run: {line}: {reason}");
            continue;
        }
        let partial = if PARTIAL.contains(&line.as_str()) { " || [ $? -eq 1 ]" } else { "" };
        let script = format!("{prepare}\nprepare <<'LINE'\n{line}\nLINE\n{line}{partial}\n");
        steps.push(Step { name: format!("help of {name}: {line}"), script, output: None });
    }
    println!("{} examples ran, {} not", steps.len(), NOT_RUN.len());
    assert!(unknown.is_empty(), "examples that no help has: {unknown:?}");
    let failures = failures_of(&steps, Further::GoOn);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
