//! File systems that a process of their own serves, mounted as long as their value lives.

use crate::error::{Error, Result};
use crate::measure::stop::Stop;
use crate::systems::temporary::temp_dir;
use rustix::fs as sys;
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time limit of a server to mount, and to write all data at its end.
const SERVER_TIMEOUT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(5);

/// A mount, and the process that serves it.
pub(crate) struct ServedMount {
    child: Child,
    /// Mount point.
    dir: TempDir,
    shown: String,
}

impl ServedMount {
    /// Starts a program with the mount point as its last argument; returns when it is mounted.
    ///
    /// # Errors
    /// [`Error::Command`] with the output of a process that ends before; [`Error::Stopped`].
    pub(crate) fn start(mut command: Command, stop: &Stop) -> Result<ServedMount> {
        let dir = temp_dir()?;
        // A process group of its own: Ctrl-C reaches this process only.
        command.arg(dir.path()).process_group(0);
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        let program = Path::new(command.get_program());
        let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
        let shown = format!("{name} {}", words.join(" "));
        // Read before the process exists, which may be fast.
        let before = device(dir.path())?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let child = child.map_err(|error| Error::Command {
            command: name,
            message: format!("{error}; is it installed?"),
        })?;
        let mut served = ServedMount { child, dir, shown };
        let deadline = Instant::now() + SERVER_TIMEOUT;
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

    /// Mount point.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the serving process.
    pub(crate) fn process(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Unmounts, and waits for the end of the process, which has written all data by then.
    ///
    /// # Errors
    /// [`Error::Command`] if the process reports an error.
    pub(crate) fn end(mut self) -> Result<()> {
        self.unmount();
        let deadline = Instant::now() + SERVER_TIMEOUT;
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
        // As root; otherwise the process unmounts on a request to terminate.
        if rustix::mount::unmount(self.path(), UnmountFlags::empty()).is_err() {
            self.tell(Signal::TERM);
        }
    }

    fn tell(&self, signal: Signal) {
        let _ = kill_process(self.process(), signal);
    }

    /// Returns the output of the process after its end.
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

/// Returns the device of a path.
fn device(path: &Path) -> Result<u64> {
    Ok(sys::stat(path).map_err(Error::host(path.display().to_string()))?.st_dev)
}

/// Drops the kernel's cached names and attributes, and pages on request. Needs root.
///
/// # Errors
/// Without root.
pub(crate) fn forget(pages: bool) -> Result<()> {
    sys::sync();
    let what: &[u8] = if pages { b"3" } else { b"2" };
    std::fs::write("/proc/sys/vm/drop_caches", what).map_err(Error::host("/proc/sys/vm/drop_caches"))
}
