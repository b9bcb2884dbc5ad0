//! Runs of shell in a root directory of their own (`sandbox.sh`).

use crate::server::Server;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Some lines of shell.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// The place in the documents.
    pub(crate) name: String,
    pub(crate) script: String,
    /// The output, where the document shows it.
    pub(crate) output: Option<String>,
}

/// The end of a step.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Whether the steps after one that failed run.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Further {
    Stop,
    GoOn,
}

/// Runs the steps, one after the other, in one directory.
///
/// # Panics
/// The machine allows neither mounts nor user namespaces.
pub(crate) fn run(steps: &[Step], further: Further) -> Vec<Ended> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let at = |name: &str| folder.path().join("steps").join(name);
    fs::create_dir(folder.path().join("steps")).expect("a directory");
    for (number, step) in steps.iter().enumerate() {
        fs::write(at(&format!("{number:03}.sh")), &step.script).expect("a file");
    }
    let server = Server::start();
    let mut unshare = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        unshare.args(["--user", "--map-root-user"]);
    }
    unshare.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh"]);
    unshare.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/documents/sandbox.sh"));
    unshare.arg(folder.path()).arg(env!("CARGO_BIN_EXE_lanefs"));
    unshare.arg(if further == Further::GoOn { "go-on" } else { "stop" });
    let ran =
        unshare.env("LANEFS_STORE", server.url()).stdin(Stdio::null()).output().expect("unshare starts");
    assert!(
        ran.status.success(),
        "this test needs root, or user namespaces (unshare of util-linux): {}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let text = |name: String| String::from_utf8_lossy(&fs::read(at(&name)).unwrap_or_default()).into_owned();
    let ended = (0..steps.len()).map_while(|number| {
        let code = text(format!("{number:03}.code")).trim().parse().ok()?;
        Some(Ended { code, out: text(format!("{number:03}.out")), err: text(format!("{number:03}.err")) })
    });
    ended.collect()
}
