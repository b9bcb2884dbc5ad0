//! Another identity for the calling thread, for the duration of one call.

use lanefs::Caller;
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// While this value lives, the thread acts as a caller. Real and saved ids stay root's, which is the way
/// back.
pub(crate) struct As {
    changed: bool,
}

impl As {
    /// Takes the caller's identity; the owner's and root's is the process's own.
    pub(crate) fn caller(caller: &Caller) -> rustix::io::Result<As> {
        let Some(user) = caller.user.as_ref().filter(|user| user.uid != 0) else {
            return Ok(As { changed: false });
        };
        let groups: Vec<Gid> = user.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
        let identity = As { changed: true };
        set_thread_groups(&groups)?;
        set_thread_res_gid(None, Gid::from_raw(user.gid), None)?;
        set_thread_res_uid(None, Uid::from_raw(user.uid), None)?;
        Ok(identity)
    }
}

impl Drop for As {
    fn drop(&mut self) {
        if self.changed {
            // If one fails, every later comparison fails with it, so nothing is hidden.
            let _ = set_thread_res_uid(None, Uid::ROOT, None);
            let _ = set_thread_res_gid(None, Gid::ROOT, None);
            let _ = set_thread_groups(&[]);
        }
    }
}
