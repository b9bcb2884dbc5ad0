//! docs/cli.md names the options of each command that the parser has, and no others.
//!
//! An option stands in the command's row of the table, or in the section to which the row links.

use clap::{Arg, Command, CommandFactory};
use lanefs_cli::cli::Cli;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The row of a command: its options, and the sections to which it links.
#[derive(Default)]
struct Row {
    options: BTreeSet<String>,
    links: Vec<String>,
}

fn page(name: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    fs::read_to_string(docs.join(name)).unwrap_or_else(|error| panic!("docs/{name}: {error}"))
}

/// Texts between backquotes.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Adds the options in a synopsis: `-ab` and `[-a]` are letters, `--all[=WHEN]` is a word.
fn add_options(synopsis: &str, options: &mut BTreeSet<String>) {
    // `+C|-C` is an argument that looks like an option.
    for word in synopsis.split_whitespace().filter(|word| !word.starts_with('+')) {
        for part in word.split(|c: char| !c.is_alphanumeric() && c != '-') {
            match (part.strip_prefix("--"), part.strip_prefix('-')) {
                (Some(_), _) => drop(options.insert(part.to_string())),
                (None, Some(letters)) => options.extend(letters.chars().map(|letter| format!("-{letter}"))),
                (None, None) => {}
            }
        }
    }
}

/// The text below a heading, up to the next heading of the same or a higher level.
fn section<'a>(page: &'a str, anchor: &str) -> &'a str {
    let is_heading = |line: &str| line.starts_with('#').then(|| line.trim_start_matches('#').len());
    let mut at = 0;
    let mut start = None;
    for line in page.split_inclusive('\n') {
        if let Some(rest) = is_heading(line) {
            let level = line.len() - rest;
            match start {
                None if line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-") == anchor => {
                    start = Some((at, level));
                }
                Some((from, above)) if level <= above => return &page[from..at],
                _ => {}
            }
        }
        at += line.len();
    }
    &page[start.unwrap_or_else(|| panic!("no heading #{anchor}")).0..]
}

/// Options in the section to which a link of docs/cli.md leads: `#lookup`, `mount.md` or `page.md#heading`.
fn linked(link: &str) -> BTreeSet<String> {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let page = page(if file.is_empty() { "cli.md" } else { file });
    let text = if anchor.is_empty() { &page } else { section(&page, anchor) };
    let mut options = BTreeSet::new();
    // In a block of code every word counts, elsewhere those between backquotes.
    for (number, part) in text.split("```").enumerate() {
        match number % 2 {
            1 => add_options(part, &mut options),
            _ => spans(part).for_each(|span| add_options(span, &mut options)),
        }
    }
    options
}

/// The rows of the table of commands. A cell may have several commands, and several forms of one, each of
/// which begins with its name.
fn rows() -> BTreeMap<String, Row> {
    let page = page("cli.md");
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for line in section(&page, "commands").lines().filter(|line| line.starts_with("| `")) {
        let line = line.replace("\\|", "\u{1}");
        let cells: Vec<String> = line.split('|').map(|cell| cell.replace('\u{1}', "|")).collect();
        let mut name = String::new();
        for span in spans(&cells[1]) {
            name = span.split(' ').next().unwrap_or_default().to_string();
            add_options(span, &mut rows.entry(name.clone()).or_default().options);
        }
        let links = cells[2].split("](").skip(1).filter_map(|rest| rest.split(')').next());
        rows.entry(name).or_default().links.extend(links.map(str::to_string));
    }
    rows
}

/// Options of a command itself: for each, all of its forms.
fn own_options(command: &Command) -> Vec<BTreeSet<String>> {
    let forms = |arg: &Arg| -> BTreeSet<String> {
        let long = arg.get_long_and_visible_aliases().unwrap_or_default().into_iter();
        let short = arg.get_short_and_visible_aliases().unwrap_or_default().into_iter();
        long.map(|name| format!("--{name}")).chain(short.map(|letter| format!("-{letter}"))).collect()
    };
    let shown = command.get_arguments().filter(|arg| !arg.is_positional() && !arg.is_hide_set());
    shown.map(forms).filter(|forms| !forms.contains("--help") && !forms.contains("--version")).collect()
}

/// Commands that the parser has below this one.
fn below(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != "help")
}

/// Options of a command and of those below it.
fn options(command: &Command) -> Vec<BTreeSet<String>> {
    own_options(command).into_iter().chain(below(command).flat_map(options)).collect()
}

/// A line for each option of the parser that the page lacks.
fn lacking(name: &str, options: &[BTreeSet<String>], page: &BTreeSet<String>) -> Vec<String> {
    let missing = options.iter().filter(|forms| forms.is_disjoint(page));
    missing.map(|forms| format!("{name} lacks {}", Vec::from_iter(forms.clone()).join(", "))).collect()
}

#[test]
fn the_page_of_the_command_line_has_the_options_of_each_command() {
    let program = Cli::command();
    let mut rows = rows();
    let everywhere = &linked("#image") | &linked("publication.md#from-the-command-line");
    let mut failures = lacking("lanefs", &own_options(&program), &everywhere);
    for command in below(&program) {
        let name = command.get_name();
        let Some(row) = rows.remove(name) else {
            failures.push(format!("{name} has no row"));
            continue;
        };
        let options = options(command);
        let elsewhere = row.links.iter().flat_map(|link| linked(link)).collect();
        failures.extend(lacking(name, &options, &(&row.options | &elsewhere)));
        let unknown =
            row.options.iter().filter(|option| options.iter().all(|forms| !forms.contains(*option)));
        failures.extend(unknown.map(|option| format!("{name} has {option}, which the parser has not")));
    }
    failures.extend(rows.keys().map(|name| format!("{name} is not a command")));
    assert!(failures.is_empty(), "docs/cli.md:\n{}", failures.join("\n"));
}
