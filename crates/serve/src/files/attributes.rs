//! Attributes.

use super::privileges::{drop_capabilities, kill_privileges};
use crate::errno::Reply;
use crate::requester::Requester;
use crate::served::Served;
use crate::statistics::Operation;
use crate::versions::{Entry, NodeId};
use lanefs::{Caller, SetAttr, StatFs};

const OWNER: Caller = Caller::OWNER;

impl Served {
    /// Returns attributes.
    ///
    /// # Errors
    /// Those of [`lanefs::Volume::getattr`].
    pub fn getattr(&self, node: NodeId) -> Reply<Entry> {
        self.with_entry(Operation::Getattr, node, |volume| Ok(volume.getattr(volume.numbers.ino(node))?))
    }

    /// Changes attributes. A change of nothing is either a `chown(2)` that names neither an owner nor a
    /// group, or, before a write, a client's request to take set-id bits and capabilities away. It does both.
    /// `kills` is what the client says of a change of the size: whether that takes them away. Where it says
    /// nothing, such a change does unless the requester is root.
    ///
    /// # Errors
    /// Those of [`lanefs::Volume::setattr`].
    pub fn setattr(
        &self,
        requester: &Requester<'_>,
        node: NodeId,
        set: &SetAttr,
        kills: Option<bool>,
    ) -> Reply<Entry> {
        self.with_entry(Operation::Setattr, node, |volume| {
            let ino = volume.numbers.ino(node);
            // Linux takes privileges away for all users without a privilege that in practice only root has.
            let kills = match set.size {
                Some(_) => kills.unwrap_or(!requester.is_root()),
                None => *set == SetAttr::default() && !requester.is_root(),
            };
            if kills {
                kill_privileges(volume, requester, ino)?;
            }
            let mut set = *set;
            if set == SetAttr::default() {
                // To set the present owner again counts as a change, and takes privileges away.
                set.uid = Some(volume.getattr(ino)?.uid);
            }
            if set.uid.is_some() || set.gid.is_some() {
                drop_capabilities(volume, ino)?;
            }
            Ok(volume.setattr(&OWNER, ino, &set)?)
        })
    }

    /// Returns the size of the volume and its free space.
    ///
    /// # Errors
    /// Those of [`lanefs::Volume::statfs`].
    pub fn statfs(&self) -> Reply<StatFs> {
        self.with(Operation::Statfs, NodeId::ROOT, |volume| Ok(volume.statfs()?))
    }
}
