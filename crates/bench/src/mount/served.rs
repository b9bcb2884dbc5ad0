//! file systems that a process of their own serves, mounted as long as their value lives.

use crate::stop::Stop;
use crate::{Error, Result};
use rustix::fs as sys;
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a server may take until it is mounted, and until it has written all when it ends.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(5);

/// A mount, and the process that serves it.
pub(super) struct ServedMount {
    child: Child,
    /// Where it is mounted.
    dir: TempDir,
    shown: String,
}

impl ServedMount {
    /// Starts `program` with arguments, and the place to mount on as the last one; returns when it is mounted.
    ///
    /// # Errors
    /// [`Error::Command`] with what the process said where it ends before; [`Error::Stopped`].
    pub(super) fn start(program: &Path, arguments: &[OsString], stop: &Stop) -> Result<ServedMount> {
        let dir = TempDir::with_prefix("lanefs-bench-").map_err(Error::host("a temporary directory"))?;
        let mut command = Command::new(program);
        // A process group of its own: Ctrl-C reaches this process only.
        command.args(arguments).arg(dir.path()).process_group(0);
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy();
        let shown = format!("{name} {}", words.join(" "));
        // Before there is a process that may be fast.
        let before = device(dir.path())?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let child =
            child.map_err(|error| Error::Command { command: shown.clone(), message: error.to_string() })?;
        let mut served = ServedMount { child, dir, shown };
        let deadline = Instant::now() + PATIENCE;
        while device(served.path())? == before {
            stop.check()?;
            let ended = served.child.try_wait().map_err(Error::host(served.shown.clone()))?;
            if ended.is_some() || Instant::now() > deadline {
                let message = if ended.is_some() { served.complaint() } else { "it is not mounted".into() };
                return Err(Error::Command { command: served.shown.clone(), message });
            }
            std::thread::sleep(POLL);
        }
        Ok(served)
    }

    /// Where it is mounted.
    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Who serves it.
    pub(super) fn process(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Unmounts, and waits until the process has ended: what it had to write is written then.
    ///
    /// # Errors
    /// [`Error::Command`] where the process says that something went wrong.
    pub(super) fn end(mut self) -> Result<()> {
        self.unmount();
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.child.try_wait().map_err(Error::host(self.shown.clone()))? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => {
                    let message = format!("{status}: {}", self.complaint());
                    return Err(Error::Command { command: self.shown.clone(), message });
                }
                None if Instant::now() > deadline => {
                    return Err(Error::Command {
                        command: self.shown.clone(),
                        message: "it does not end".into(),
                    });
                }
                None => std::thread::sleep(POLL),
            }
        }
    }

    fn unmount(&self) {
        // As root; otherwise the process does it when it is asked to end.
        if rustix::mount::unmount(self.path(), UnmountFlags::empty()).is_err() {
            self.tell(Signal::TERM);
        }
    }

    fn tell(&self, signal: Signal) {
        let _ = kill_process(self.process(), signal);
    }

    /// What the process said, once it has ended.
    fn complaint(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            let _ = errors.read_to_string(&mut text);
        }
        let text = text.trim();
        if text.is_empty() { "it ended".into() } else { text.lines().take(5).collect::<Vec<_>>().join("; ") }
    }
}

impl Drop for ServedMount {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = rustix::mount::unmount(self.path(), UnmountFlags::DETACH);
            self.tell(Signal::TERM);
            let deadline = Instant::now() + Duration::from_secs(10);
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(POLL);
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The device that a path is on.
fn device(path: &Path) -> Result<u64> {
    Ok(sys::stat(path).map_err(Error::host(path.display().to_string()))?.st_dev)
}

/// Forgets what the kernel has cached: names and attributes, and pages where asked for. Takes root.
///
/// # Errors
/// Where this is not root.
pub(super) fn forget(pages: bool) -> Result<()> {
    sys::sync();
    let what: &[u8] = if pages { b"3" } else { b"2" };
    std::fs::write("/proc/sys/vm/drop_caches", what).map_err(Error::host("/proc/sys/vm/drop_caches"))
}
