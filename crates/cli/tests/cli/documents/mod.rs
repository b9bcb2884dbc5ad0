//! The documents, run: each block of shell of README.md and docs/*.md, and each example of a help text.
//!
//! The blocks of a page run in their order, in one directory of a sandbox. A page tells by comments what must
//! be there before, and what cannot run in a test (`page.rs`). The test lists what did not run, with the
//! reasons.

mod help;
mod page;
mod sandbox;

use page::{blocks, is_output};
use sandbox::{Ended, Further, Step, run};
use std::fs;
use std::path::{Path, PathBuf};

/// The languages that run.
const SHELL: [&str; 2] = ["sh", "console"];

/// The root directory of the sources.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// README.md and docs/*.md: name and text.
fn pages() -> Vec<(String, String)> {
    let docs = fs::read_dir(sources().join("docs")).expect("docs").map(|entry| entry.expect("docs").path());
    let mut paths: Vec<PathBuf> =
        docs.filter(|path| path.extension().is_some_and(|suffix| suffix == "md")).collect();
    paths.sort();
    paths.insert(0, sources().join("README.md"));
    let named = paths.iter().map(|path| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        (name, fs::read_to_string(path).expect("a page"))
    });
    named.collect()
}

/// The steps of a page, and a line for each thing that does not run.
fn steps(name: &str, page: &str) -> (Vec<Step>, Vec<String>) {
    let (mut steps, mut not_run) = (Vec::new(), Vec::new());
    for block in blocks(page).iter().filter(|block| SHELL.contains(&block.language.as_str())) {
        let place = format!("{name}:{}", block.line);
        if let Some(reason) = &block.not_run {
            assert!(!reason.is_empty(), "{place}: not run, without a reason");
            not_run.push(format!("{place}: {reason}"));
            continue;
        }
        not_run.extend(block.lines_not_run.iter().map(|(line, reason)| format!("{place}: {line}: {reason}")));
        if !block.first.is_empty() {
            let script = block.first.clone();
            steps.push(Step { name: format!("{place}, before"), script, output: None });
        }
        if block.language == "sh" {
            steps.push(Step { name: place, script: block.commands(), output: None });
            continue;
        }
        for (command, said) in block.sessions() {
            // The output shows exit codes, so commands before the last one may fail.
            let script = format!("set +e\n{command}\ncode=$?\nrm -f /documents/failed\nexit $code\n");
            steps.push(Step { name: place.clone(), script, output: Some(said) });
        }
    }
    (steps, not_run)
}

/// Runs the steps; each thing that is not as the documents say.
fn failures_of(steps: &[Step], further: Further) -> Vec<String> {
    let ended = run(steps, further);
    let failure = |(step, ended): (&Step, &Ended)| match &step.output {
        _ if ended.code != 0 => Some(format!("{}: exit code {}\n{}", step.name, ended.code, ended.err)),
        Some(said) if !is_output(said, &ended.out) => {
            Some(format!("{} says\n{said}but it is\n{}", step.name, ended.out))
        }
        _ => None,
    };
    let failures: Vec<String> = steps.iter().zip(&ended).filter_map(failure).collect();
    assert!(
        !failures.is_empty() || ended.len() == steps.len(),
        "{} of {} steps ran",
        ended.len(),
        steps.len()
    );
    failures
}

#[test]
fn the_pages_run() {
    let (mut failures, mut ran, mut left_out) = (Vec::new(), 0, Vec::new());
    for (name, page) in pages() {
        let (steps, not_run) = steps(&name, &page);
        left_out.extend(not_run);
        ran += steps.len();
        if !steps.is_empty() {
            failures.extend(failures_of(&steps, Further::Stop));
        }
    }
    println!("{ran} steps; {} things do not run:\n{}", left_out.len(), left_out.join("\n"));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(ran > 0, "no page has a block of shell");
}

#[test]
fn a_wrong_page_is_seen() {
    let right = "```sh\nlanefs mkfs v.lane --size 64M\nlanefs mount v.lane /mnt\n```\n\
                 ```console\n$ lanefs mkdir v.lane /a; lanefs ls v.lane\na\n```\n";
    let failures = |page: &str| failures_of(&steps("page", page).0, Further::Stop);
    assert_eq!(failures(right), [""; 0]);
    let wrong = [
        ("--size 64M", "--sise 64M", "exit code 2"),
        ("/mnt\n", "/mnt --no-such\n", "exit code 2"),
        ("ls v.lane\na\n", "ls v.lane\nb\n", "but it is\na\n"),
        ("lanefs mount v.lane /mnt", "lanefs cat w.lane /a | cat", "lanefs cat w.lane /a"),
        ("lanefs mount v.lane /mnt", "false", "exit code 1"),
    ];
    for (part, planted, says) in wrong {
        let failures = failures(&right.replacen(part, planted, 1));
        assert!(failures.len() == 1 && failures[0].contains(says), "{planted}: {failures:?}");
    }
}

#[test]
fn the_readme_has_a_row_for_each_page() {
    let pages = pages();
    let (_, readme) = &pages[0];
    let lacks =
        |(name, _): &&(String, String)| !readme.contains(&format!("\n| [docs/{name}](docs/{name}) |"));
    let lacking: Vec<&String> = pages[1..].iter().filter(lacks).map(|(name, _)| name).collect();
    assert!(lacking.is_empty(), "README.md has no row for {lacking:?}");
}

/// The first column of a line of `lanefs demo`.
fn column(line: &str) -> &str {
    line.split("  ").next().unwrap_or_default()
}

#[test]
fn the_demo_of_the_readme_has_the_steps_that_it_takes() {
    let (_, page) = pages().swap_remove(0);
    let all = blocks(&page);
    let shown = all.iter().find(|block| block.code.starts_with("$ make demo")).expect("a demo");
    let script = "lanefs demo".to_string();
    let ended = run(&[Step { name: "demo".into(), script, output: None }], Further::Stop);
    assert_eq!(ended[0].code, 0, "{}", ended[0].err);
    let said: Vec<&str> = shown.code.lines().skip_while(|line| column(line) != "step").map(column).collect();
    let printed: Vec<&str> =
        ended[0].out.lines().skip_while(|line| column(line) != "step").map(column).collect();
    assert_eq!(said, printed);
}
