//! Another identity for the calling thread, for the time of one call.

use super::fault;
use crate::engine::Answer;
use lanefs::Caller;
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// While this lives, the thread acts as a caller. Real and saved ids stay root's, which is the way back.
pub(super) struct As {
    changed: bool,
}

impl As {
    /// Takes on the caller's identity; the owner's and root's is the one that the process has.
    pub(super) fn caller(who: &Caller) -> Answer<As> {
        let Some(user) = who.user.as_ref().filter(|user| user.uid != 0) else {
            return Ok(As { changed: false });
        };
        let groups: Vec<Gid> = user.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
        let identity = As { changed: true };
        set_thread_groups(&groups).map_err(fault)?;
        set_thread_res_gid(None, Gid::from_raw(user.gid), None).map_err(fault)?;
        set_thread_res_uid(None, Uid::from_raw(user.uid), None).map_err(fault)?;
        Ok(identity)
    }
}

impl Drop for As {
    fn drop(&mut self) {
        if self.changed {
            // Should one fail, every later comparison fails with it, so nothing is hidden.
            let _ = set_thread_res_uid(None, Uid::ROOT, None);
            let _ = set_thread_res_gid(None, Gid::ROOT, None);
            let _ = set_thread_groups(&[]);
        }
    }
}
