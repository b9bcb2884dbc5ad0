//! On which processors a client and its server run.
//!
//! What one client gets from a FUSE file system depends on where the scheduler puts the thread that answers: on the client's processor a
//! request costs a switch, on another one it wakes a processor that sleeps, which takes several times as long. Which of the two happens is chance, and
//! no matter of the file system. So where one client is measured both are kept on one processor, for all systems alike.

use crate::{Error, Result};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Does something on one processor: this thread, what it starts, and the process that serves the file system, where there is one.
///
/// # Errors
/// The work's; the host's where it does not let threads be placed.
pub(super) fn on_one<T>(server: Option<Pid>, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let before = sched_getaffinity(None).map_err(Error::host("the processors of this thread"))?;
    let mut one = CpuSet::new();
    if let Some(first) = (0..CpuSet::MAX_CPU).find(|processor| before.is_set(*processor)) {
        one.set(first);
    }
    let done = place(server, &one).and_then(|()| work());
    place(server, &before)?;
    done
}

/// Places this thread, and all threads of the server.
fn place(server: Option<Pid>, processors: &CpuSet) -> Result<()> {
    sched_setaffinity(None, processors).map_err(Error::host("placing this thread"))?;
    let Some(server) = server else { return Ok(()) };
    let list = format!("/proc/{server}/task");
    for entry in std::fs::read_dir(&list).map_err(Error::host(list.clone()))? {
        let name = entry.map_err(Error::host(list.clone()))?.file_name();
        let thread = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        match thread.map(|thread| sched_setaffinity(Some(thread), processors)) {
            // It has ended meanwhile.
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
