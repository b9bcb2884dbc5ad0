//! Processors of a client and its server.
//!
//! The rate of one client of a FUSE file system depends on the processor of the serving thread: on the
//! client's processor a request costs a switch; on another one it wakes a sleeping processor, which takes
//! several times as long. The scheduler's choice is chance and no property of the file system. So with one
//! client both stay on one processor, for all systems alike.

use crate::error::{Error, Result};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Runs `work` on one processor: this thread, its children, and the process that serves the file system, if
/// there is one.
///
/// # Errors
/// Those of `work`, and a host that refuses to place threads.
pub(super) fn on_one<T>(server: Option<Pid>, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let before = sched_getaffinity(None).map_err(Error::host("the processors of this thread"))?;
    let mut one = CpuSet::new();
    if let Some(first) = (0..CpuSet::MAX_CPU).find(|processor| before.is_set(*processor)) {
        one.set(first);
    }
    let done = pin(server, &one).and_then(|()| work());
    pin(server, &before)?;
    done
}

/// Pins this thread, and all threads of the server.
fn pin(server: Option<Pid>, processors: &CpuSet) -> Result<()> {
    sched_setaffinity(None, processors).map_err(Error::host("placing this thread"))?;
    let Some(server) = server else { return Ok(()) };
    let list = format!("/proc/{server}/task");
    for entry in std::fs::read_dir(&list).map_err(Error::host(list.clone()))? {
        let name = entry.map_err(Error::host(list.clone()))?.file_name();
        let thread = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        match thread.map(|thread| sched_setaffinity(Some(thread), processors)) {
            // The thread has ended meanwhile.
            None | Some(Ok(()) | Err(Errno::SRCH)) => {}
            Some(Err(errno)) => return Err(Error::host("placing the server")(errno)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn processors(thread: Option<Pid>) -> u32 {
        sched_getaffinity(thread).map_or(0, |set| set.count())
    }

    #[test]
    fn client_and_server_are_on_one_processor_meanwhile_and_free_afterwards() {
        let before = processors(None);
        let mut server = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat");
        let pid = Pid::from_child(&server);
        let inside = on_one(Some(pid), || Ok((processors(None), processors(Some(pid)))));
        assert_eq!(inside.expect("placed"), (1, 1));
        assert_eq!((processors(None), processors(Some(pid))), (before, before));
        let failed: Result<()> = on_one(None, || Err(Error::Stopped));
        assert!(failed.is_err() && processors(None) == before);
        drop(server.stdin.take());
        server.wait().expect("cat");
    }
}
