//! Extended attributes of files of the volume.

use super::IntoVolume;
use crate::running::job::count;
use crate::sync::failure::Failure;
use crate::sync::node::{Node, Xattrs};
use crate::sync::tree::Source;
use crate::vocabulary::name::shown;
use crate::vocabulary::xattrs::is_kept;
use lanefs::{Ino, XattrMode};

impl<A: Source> IntoVolume<'_, A> {
    /// Gives a file the attributes `xattrs`, and no others of those that transfers keep. `old`: the file was
    /// there before. One that the volume refuses is a problem of its own.
    pub(super) fn set_xattrs(
        &self,
        ino: Ino,
        xattrs: &Xattrs,
        old: Option<&Node>,
        path: &dyn Fn() -> Vec<u8>,
    ) -> Result<(), Failure> {
        let has_others = old.is_some_and(|old| old.may_have_xattrs);
        let there = if has_others { self.volume.listxattr(ino)? } else { Vec::new() };
        for name in there.iter().filter(|name| is_kept(name) && !xattrs.contains_key(*name)) {
            self.volume.removexattr(ino, name)?;
        }
        for (name, value) in xattrs {
            if there.contains(name) && self.volume.getxattr(ino, name)? == *value {
                continue;
            }
            match self.volume.setxattr(ino, name, value, XattrMode::Set) {
                Ok(()) => count(&self.job.counters.xattrs),
                Err(error) => {
                    let doing = format!("cannot keep the attribute {}", shown(name));
                    self.job.volume_refused(path(), &doing, error);
                }
            }
        }
        Ok(())
    }
}
