//! Runs the built program on a volume in a directory of its own.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a run came to.
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

    /// The run must have ended with `code`.
    #[track_caller]
    pub(crate) fn ends(self, code: i32) -> Self {
        let err: String = self.err.chars().take(1000).collect();
        assert_eq!(self.code, code, "{err}");
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self
    }

    /// It must have said this on standard error.
    #[track_caller]
    pub(crate) fn says(self, part: &str) -> Self {
        assert!(self.err.contains(part), "no {part:?} in {:?}", self.err);
        self
    }
}

/// A command of the program, ready to run.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lanefs"));
    command.env("COLUMNS", "100").env_remove("XDG_STATE_HOME");
    command
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
    // A program that ends before it read everything closes the pipe; that is its right.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("the program ends");
    writer.join().expect("the input is written");
    Ran {
        code: output.status.code().unwrap_or(-1),
        bytes: output.stdout,
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
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
        let dir = tempfile::tempdir().expect("a temporary directory");
        let image = dir.path().join("v.lane");
        run(&[OsStr::new("mkfs"), image.as_os_str(), OsStr::new("--size"), OsStr::new(size)]).ends(0);
        TestVolume { dir, image }
    }

    /// A host path beside the image.
    pub(crate) fn host(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// `lanefs COMMAND IMAGE ARGS` with input.
    pub(crate) fn run_with<S: AsRef<OsStr>>(&self, command: &str, args: &[S], input: &[u8]) -> Ran {
        let mut all = vec![OsStr::new(command), self.image.as_os_str()];
        all.extend(args.iter().map(AsRef::as_ref));
        run_with(&all, input)
    }

    /// `lanefs COMMAND IMAGE ARGS`, with ARGS separated by spaces.
    pub(crate) fn run(&self, command: &str, args: &str) -> Ran {
        let args: Vec<&str> = args.split_whitespace().collect();
        self.run_with(command, &args, b"")
    }

    /// The volume must be clean.
    #[track_caller]
    pub(crate) fn clean(&self) {
        self.run("fsck", "").ends(0);
    }
}

/// A path as text.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("test paths are text")
}
