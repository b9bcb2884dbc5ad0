//! The library as `cargo` builds it, C programs, and how programs are run with and without it.

#![allow(dead_code, reason = "no test uses all of it")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Time after which a program counts as hanging.
const LIMIT: Duration = Duration::from_secs(120);

/// Every line that the library prints begins so.
const MARK: &str = "lanefs-alloc: ";

/// Where the test program lies: a folder `deps` in that of the profile.
fn profile_folder() -> PathBuf {
    let program = std::env::current_exe().expect("the path of this program");
    program.ancestors().nth(2).expect("two folders").to_path_buf()
}

/// The library, in the profile of this test. `cargo test` does not build it, for nothing can be linked with
/// it: so it is built here.
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

/// A folder of this test, empty at first.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).expect("an old folder goes");
    }
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Compiles `tests/c/NAME.c`; the compiler may not know what `malloc` does, or it leaves calls away.
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

/// A program under the library, which prints its counters at the end.
pub(crate) fn preload(command: &mut Command) -> &mut Command {
    command.env("LD_PRELOAD", library()).env("LANEFS_ALLOC_STATS", "1")
}

/// Output and exit status of a program, with the library's own lines apart.
pub(crate) struct Run {
    pub(crate) output: Output,
    /// Standard error without the lines of the library.
    pub(crate) errors: String,
    /// Those lines.
    pub(crate) messages: String,
}

impl Run {
    /// Memory came from the library: at least one process carved objects.
    pub(crate) fn was_ours(&self) -> bool {
        self.messages.lines().any(|line| line.contains("stats:") && !line.contains(" refills=0 "))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    /// All there is to say about a run that was not as it should be.
    pub(crate) fn describe(&self) -> String {
        let out = self.text();
        format!("{}\nout: {out}\nerr: {}\nlibrary: {}", self.output.status, self.errors, self.messages)
    }
}

/// Runs a program to its end, which must come.
pub(crate) fn run(command: &mut Command) -> Run {
    // No other variable of ours may be about, and messages are compared.
    command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let name = format!("{command:?}");
    let child = command.spawn().unwrap_or_else(|error| panic!("{name}: {error}: run scripts/setup.sh"));
    let watch = Watch::over(&child);
    let output = child.wait_with_output().expect("its output");
    assert!(!watch.has_ended(), "{name} hangs");
    let all = String::from_utf8_lossy(&output.stderr).into_owned();
    // A program may have written a part of a line before.
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
    Run { output, errors, messages }
}

/// Ends a child that hangs.
struct Watch {
    done: std::sync::mpsc::Sender<()>,
    thread: std::thread::JoinHandle<bool>,
}

impl Watch {
    fn over(child: &Child) -> Watch {
        let (done, finished) = std::sync::mpsc::channel();
        let pid = child.id() as libc::pid_t;
        let end = Instant::now() + LIMIT;
        let thread = std::thread::spawn(move || {
            let hangs = finished.recv_timeout(end - Instant::now()).is_err();
            if hangs {
                // SAFETY: sends a signal to a child that nobody has waited for.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
            hangs
        });
        Watch { done, thread }
    }

    /// True if it had to.
    fn has_ended(self) -> bool {
        let _ = self.done.send(());
        self.thread.join().expect("the watch")
    }
}
