//! C programs under the library: every function with odd arguments, forks, ends of threads, loaded libraries,
//! code before and after `main`. Each runs in every grade of checks, and without the library, because a
//! program that fails there proves nothing.

mod support;

use std::path::Path;
use std::process::Command;
use support::{compile, preload, run};

const GRADES: [&str; 3] = ["off", "cheap", "full"];

/// Runs a program without the library, and in each grade.
fn passes(program: &Path, arguments: &[&Path], text: &str, code: i32) {
    run_in("", program, arguments, text, code);
    GRADES.iter().for_each(|grade| run_in(grade, program, arguments, text, code));
}

/// Runs a program in a grade, or without the library if there is none. It must print `text` and nothing else,
/// and exit with `code`.
fn run_in(grade: &str, program: &Path, arguments: &[&Path], text: &str, code: i32) {
    let mut command = Command::new(program);
    command.args(arguments);
    if !grade.is_empty() {
        preload(&mut command).env("LANEFS_ALLOC_CHECKS", grade);
    }
    let outcome = run(&mut command);
    let is_good =
        outcome.text() == text && outcome.output.status.code() == Some(code) && outcome.errors.is_empty();
    assert!(is_good, "grade '{grade}': {}", outcome.describe());
    assert_eq!(outcome.used_library(), !grade.is_empty(), "grade '{grade}': {}", outcome.describe());
}

#[test]
fn every_function_does_what_its_manual_page_says() {
    // Not without the library: the C library's aligned_alloc rounds alignments up that it must refuse, and it
    // has no free_sized.
    let program = compile("family", &[]);
    GRADES.iter().for_each(|grade| run_in(grade, &program, &[], "0 faults\n", 0));
}

#[test]
fn children_of_forks_amid_allocations_live() {
    let program = compile("forks", &[]);
    // Freed memory is filled in the grade full, and each fork copies all of these pages.
    for (grade, forks) in [("", "10"), ("off", "60"), ("cheap", "200"), ("full", "15")] {
        run_in(grade, &program, &[Path::new(forks)], &format!("0 of {forks} children failed\n"), 0);
    }
}

#[test]
fn destructors_of_threads_allocate_after_the_heap_is_abandoned() {
    passes(&compile("ends", &[]), &[], "0 calls\n", 0);
}

#[test]
fn threads_load_and_unload_libraries() {
    let plugin = compile("plugin", &["-shared", "-fPIC"]);
    passes(&compile("loads", &["-ldl"]), &[&plugin], "loaded\n", 0);
}

#[test]
fn memory_is_there_before_and_after_main() {
    passes(&compile("early", &[]), &[], "early\nat exit\nat exit\n", 7);
}

#[test]
fn little_address_space_is_enough() {
    let program = compile("room", &[]);
    for megabytes in [150, 400, 1500, 5000] {
        let limited = format!("ulimit -v {} && exec \"$0\"", megabytes * 1024);
        let with = run(preload(Command::new("sh").args(["-c", &limited]).arg(&program)));
        assert!(
            with.text() == "enough\n" && with.output.status.success(),
            "{megabytes} MiB: {}",
            with.describe()
        );
    }
}
