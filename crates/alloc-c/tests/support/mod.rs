//! Builds the library and C programs, and runs programs with and without the library.

#![allow(dead_code, reason = "no test uses all of it")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A program that takes longer hangs: so long that no machine is slow enough for it.
const LIMIT: Duration = Duration::from_secs(1800);

/// Start of every line that the library prints.
const MARK: &str = "lanefs-alloc: ";

/// Returns the folder of the profile: the test program lies in its folder `deps`.
fn profile_folder() -> PathBuf {
    let program = std::env::current_exe().expect("the path of this program");
    program.ancestors().nth(2).expect("two folders").to_path_buf()
}

/// Builds the library in the profile of this test, and returns its path. `cargo test` does not build it,
/// because nothing links with it.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = profile_folder();
        let is_release = folder.ends_with("release");
        let target = folder.parent().expect("the target folder");
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--locked", "--package", "lanefs-alloc-c", "--lib"])
            .args(["--profile", if is_release { "release" } else { "test" }])
            .args(if cfg!(feature = "stats") { ["--features", "stats"].as_slice() } else { &[] })
            .arg("--target-dir")
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(status.expect("cargo").success(), "the library was not built");
        let library = folder.join("liblanefs_alloc.so");
        assert!(library.exists(), "there is no {}", library.display());
        library
    })
}

/// Creates an empty folder for a test.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).expect("an old folder is removed");
    }
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Compiles `tests/c/NAME.c`. The compiler must not know `malloc`, or it leaves calls away.
pub(crate) fn compile(name: &str, more: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name).with_extension("c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let output = Command::new("cc")
        .args(["-O1", "-g", "-fno-builtin", "-pthread", "-Wall", "-Wextra", "-Werror", "-Wno-use-after-free"])
        .args(["-Wno-alloc-size-larger-than", "-Wno-free-nonheap-object", "-D_GNU_SOURCE", "-o"])
        .arg(&program)
        .arg(source)
        .args(more)
        .output()
        .expect("cc: run scripts/setup.sh");
    assert!(output.status.success(), "{name}.c: {}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Preloads the library, which prints its counters at the end.
pub(crate) fn preload(command: &mut Command) -> &mut Command {
    command.env("LD_PRELOAD", library()).env("LANEFS_ALLOC_STATS", "1")
}

/// Output and exit status of a program, apart from the library's own lines.
pub(crate) struct Outcome {
    pub(crate) output: Output,
    /// Standard error without the lines of the library.
    pub(crate) errors: String,
    /// The lines of the library.
    pub(crate) messages: String,
}

impl Outcome {
    /// Returns true if memory came from the library: one process at least carved objects.
    pub(crate) fn used_library(&self) -> bool {
        self.messages.lines().any(|line| line.contains("stats:") && !line.contains(" refills=0 "))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    /// Describes everything, for the message of a test that fails.
    pub(crate) fn describe(&self) -> String {
        let out = self.text();
        format!("{}\nout: {out}\nerr: {}\nlibrary: {}", self.output.status, self.errors, self.messages)
    }
}

/// Runs a program to its end. A program that hangs fails the test.
pub(crate) fn run(command: &mut Command) -> Outcome {
    // Tests compare messages.
    command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let name = format!("{command:?}");
    let child = command.spawn().unwrap_or_else(|error| panic!("{name}: {error}: run scripts/setup.sh"));
    let watchdog = Watchdog::new(&child);
    let output = child.wait_with_output().expect("its output");
    assert!(!watchdog.has_killed(), "{name} hangs");
    let all = String::from_utf8_lossy(&output.stderr).into_owned();
    // The program may have written a part of the line before.
    let (mut errors, mut messages) = (String::new(), String::new());
    for line in all.split_inclusive('\n') {
        match line.find(MARK) {
            Some(at) => {
                errors.push_str(&line[..at]);
                messages.push_str(&line[at..]);
            }
            None => errors.push_str(line),
        }
    }
    Outcome { output, errors, messages }
}

/// A thread that kills a child that hangs.
struct Watchdog {
    done: std::sync::mpsc::Sender<()>,
    thread: std::thread::JoinHandle<bool>,
}

impl Watchdog {
    fn new(child: &Child) -> Watchdog {
        let (done, finished) = std::sync::mpsc::channel();
        let pid = child.id() as libc::pid_t;
        let end = Instant::now() + LIMIT;
        let thread = std::thread::spawn(move || {
            let hangs = finished.recv_timeout(end - Instant::now()).is_err();
            if hangs {
                // SAFETY: sends a signal to a child that no thread has waited for.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
            hangs
        });
        Watchdog { done, thread }
    }

    /// Ends the thread; returns true if it killed the child.
    fn has_killed(self) -> bool {
        let _ = self.done.send(());
        self.thread.join().expect("the watchdog")
    }
}
