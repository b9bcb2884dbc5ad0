//! The program `lanefs-bench` as people run it: help, wrong arguments, Ctrl-C.

use std::process::{Command, Output, Stdio};

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lanefs-bench"));
    command.env("COLUMNS", "100");
    command
}

fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = program().args(args).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn help_names_every_benchmark_and_no_worker() {
    let (code, help, errors) = run(&["--help"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    for benchmark in ["namespace", "lookup", "read", "search", "concurrency", "alloc", "gpu", "mount"] {
        assert!(help.contains(&format!("\n  {benchmark} ")), "{help}");
        let (code, help, _) = run(&[benchmark, "--help"]);
        assert_eq!(code, Some(0));
        for option in ["--quick", "--json <FILE>", "--rows <GLOB>", "--runs <N>"] {
            assert!(help.contains(option), "{benchmark}: {help}");
        }
    }
    assert!(!help.contains("mount-passthrough") && !help.contains("alloc-worker"), "{help}");
}

#[test]
fn wrong_arguments_end_with_exit_code_2_and_the_name_of_the_program() {
    for args in [&["concurrency", "--runs", "0"][..], &["nonsense"], &["namespace", "--rows", "no-such-row"]]
    {
        let (code, output, errors) = run(args);
        assert_eq!((code, output.as_str()), (Some(2), ""), "{args:?}: {errors}");
        assert!(errors.starts_with("lanefs-bench: "), "{args:?}: {errors}");
    }
    assert_eq!(run(&[]).0, Some(2));
}

#[test]
fn a_report_that_cannot_be_opened_ends_with_exit_code_4() {
    let (code, _, errors) = run(&["namespace", "--json", "/nonexistent/report.json"]);
    assert_eq!(code, Some(4), "{errors}");
    assert!(errors.starts_with("lanefs-bench: /nonexistent/report.json: "), "{errors}");
}

#[test]
fn an_interrupt_ends_it_with_exit_code_130() {
    let mut child = program()
        .args(["namespace", "--quick", "--rows", "create-flat", "--runs", "1000"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The handler is installed before the first heading appears.
    let mut errors = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut heading = String::new();
    std::io::BufRead::read_line(&mut errors, &mut heading).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let rest = std::io::read_to_string(errors).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{heading}{rest}");
    assert!(rest.contains("stopped"), "{heading}{rest}");
}

#[test]
fn a_report_is_drawn_and_another_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (report, out) = (dir.path().join("mount.json"), dir.path().join("new/plots"));
    let text = r#"{"bench":"mount","commit":"","machine":{"cores":2},"notes":[],"rows":[{"name":"stat","params":{},
        "unit":"ns","lanefs":{"median":1.5,"min":1,"max":2,"runs":3},"peers":{},"ratio":{},"extra":{},"goals":[],
        "notes":[]}]}"#;
    std::fs::write(&report, text).unwrap();
    let (report, out) = (report.to_str().unwrap(), out.to_str().unwrap());
    let (code, output, errors) = run(&["plot", report, "--out", out]);
    assert_eq!((code, output, errors.as_str()), (Some(0), format!("{out}/mount.svg\n"), ""));
    assert!(std::fs::read_to_string(format!("{out}/mount.svg")).unwrap().starts_with("<svg"));

    // Another report of this name, and the same one twice, would leave one picture.
    let other = dir.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let other = other.join("mount.json");
    std::fs::write(&other, text).unwrap();
    let nowhere = format!("{out}/nowhere");
    for second in [other.to_str().unwrap(), report] {
        let (code, output, errors) = run(&["plot", report, second, "--out", &nowhere]);
        assert_eq!((code, output.as_str()), (Some(2), ""), "{errors}");
        let both = format!("{report} and {second} would both be drawn into {nowhere}/mount.svg");
        assert!(errors.contains(&both), "{errors}");
    }
    assert!(!std::path::Path::new(&nowhere).exists(), "something was drawn");

    let (code, _, errors) = run(&["plot", report, "--out", out, "--rows", "x*"]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("matches no row; the rows are: stat"), "{errors}");
    let (code, _, errors) = run(&["plot", "/no/such/report.json", "--out", out]);
    assert_eq!(code, Some(4), "{errors}");
    assert!(errors.contains("/no/such/report.json: No such file"), "{errors}");
    let svg = format!("{out}/mount.svg");
    let (code, _, errors) = run(&["plot", &svg, "--out", out]);
    assert_eq!(code, Some(4), "{errors}");
    assert!(errors.contains("mount.svg: no report that --json wrote"), "{errors}");
}
