//! Runs of the built program on a volume in a directory of its own.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// Time after which a test takes a wait for a hang. No test expects anything to be faster than this.
const HANG: Duration = Duration::from_secs(600);

/// Waits for a state.
#[track_caller]
pub(crate) fn until(state: &str, mut is_reached: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_reached() {
        assert!(begin.elapsed() < HANG, "not reached: {state}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for the end of a child and returns its exit code; `None` after a signal.
#[track_caller]
pub(crate) fn ended(child: &mut Child) -> Option<i32> {
    let mut status = None;
    until("the command ends", || {
        status = child.try_wait().expect("a child");
        status.is_some()
    });
    status.and_then(|status| status.code())
}

/// Waits until a child has read all bytes in the pipe to its standard input. Its signal handler is installed
/// by then.
#[track_caller]
pub(crate) fn until_read(stdin: &ChildStdin) {
    until("the command has read its input", || {
        rustix::io::ioctl_fionread(stdin).expect("the length of a pipe's content") == 0
    });
}

/// Result of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) bytes: Vec<u8>,
    pub(crate) err: String,
}

impl Ran {
    /// Standard output as text.
    pub(crate) fn out(&self) -> &str {
        std::str::from_utf8(&self.bytes).expect("output is text")
    }

    /// Asserts that the run ended with `code`.
    #[track_caller]
    pub(crate) fn ends(self, code: i32) -> Self {
        let err: String = self.err.chars().take(1000).collect();
        assert_eq!(self.code, code, "{err}");
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self
    }

    /// Asserts that standard error contains `part`.
    #[track_caller]
    pub(crate) fn says(self, part: &str) -> Self {
        assert!(self.err.contains(part), "no {part:?} in {:?}", self.err);
        self
    }
}

/// A command of the program, ready to run.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lanefs"));
    let cache = env!("CARGO_TARGET_TMPDIR");
    command.env("COLUMNS", "100").env("XDG_CACHE_HOME", cache).env_remove("XDG_STATE_HOME");
    command
}

/// The same command, with an umask of its own.
pub(crate) fn with_umask(command: Command, umask: u32) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("umask {umask:o}; exec \"$0\" \"$@\"")]).arg(command.get_program());
    shell.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

/// Runs the program with `input` on standard input.
pub(crate) fn run_with<S: AsRef<OsStr>>(args: &[S], input: &[u8]) -> Ran {
    let mut child = program()
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    let input = input.to_vec();
    // A program may end before it has read everything; the pipe is closed then.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("the program ends");
    writer.join().expect("the input is written");
    Ran {
        code: output.status.code().unwrap_or(-1),
        bytes: output.stdout,
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Runs the program with standard output closed.
pub(crate) fn with_closed_output(args: &[&str]) -> Ran {
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$0\" \"$@\" >&-", env!("CARGO_BIN_EXE_lanefs")]).args(args);
    let output = shell.stdin(Stdio::null()).output().expect("the shell starts");
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    Ran { code: output.status.code().unwrap_or(-1), bytes: output.stdout, err }
}

/// Runs the program.
pub(crate) fn run<S: AsRef<OsStr>>(args: &[S]) -> Ran {
    run_with(args, b"")
}

/// A volume of 64 MiB in a temporary directory.
pub(crate) struct TestVolume {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) image: PathBuf,
}

impl TestVolume {
    pub(crate) fn new() -> Self {
        Self::sized("64M")
    }

    pub(crate) fn sized(size: &str) -> Self {
        Self::in_dir(tempfile::tempdir().expect("a temporary directory"), size)
    }

    /// A volume in the build folder. Temporary files may be in memory, where times do not tell every change.
    pub(crate) fn on_disk() -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        Self::in_dir(dir, "64M")
    }

    fn in_dir(dir: tempfile::TempDir, size: &str) -> Self {
        let image = dir.path().join("v.lane");
        run(&[OsStr::new("mkfs"), image.as_os_str(), OsStr::new("--size"), OsStr::new(size)]).ends(0);
        TestVolume { dir, image }
    }

    /// A host path in the directory of the image.
    pub(crate) fn host(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs `lanefs COMMAND IMAGE ARGS` with input.
    pub(crate) fn run_with<S: AsRef<OsStr>>(&self, command: &str, args: &[S], input: &[u8]) -> Ran {
        let mut all = vec![OsStr::new(command), self.image.as_os_str()];
        all.extend(args.iter().map(AsRef::as_ref));
        run_with(&all, input)
    }

    /// Runs `lanefs COMMAND IMAGE ARGS`; spaces separate ARGS.
    pub(crate) fn run(&self, command: &str, args: &str) -> Ran {
        let args: Vec<&str> = args.split_whitespace().collect();
        self.run_with(command, &args, b"")
    }

    /// Asserts that the volume is clean.
    #[track_caller]
    pub(crate) fn clean(&self) {
        self.run("fsck", "").ends(0);
    }
}

/// A path as text.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("test paths are text")
}
