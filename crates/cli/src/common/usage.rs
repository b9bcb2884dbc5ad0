//! Space that files take, each file once.

use super::walk::{Walk, WalkStep};
use crate::session::context::Context;
use crate::terminal::failure::Failure;
use lanefs::format::BLOCK;
use lanefs::{Attr, FileKind, Ino};
use std::collections::HashSet;

/// Bytes of the blocks that a file takes.
pub fn allocated(attr: &Attr) -> u64 {
    attr.blocks.saturating_mul(BLOCK)
}

/// The files with several names that were counted.
#[derive(Default)]
pub struct Usage {
    counted: HashSet<Ino>,
}

impl Usage {
    /// Returns the `bytes` of the file of a step itself, without those below it; `None` for a file that was
    /// counted under another name. A file whose attributes cannot be read is reported, and counts nothing.
    ///
    /// # Errors
    /// As [`Context::go_on`].
    pub fn own_bytes(
        &mut self,
        context: &mut Context<'_>,
        walk: &Walk<'_>,
        step: WalkStep,
        bytes: fn(&Attr) -> u64,
    ) -> Result<Option<u64>, Failure> {
        let attr = walk.prefetched_attr(step.ino).map_or_else(|| context.attr(walk.path(), step.ino), Ok);
        let attr = match attr {
            Ok(attr) => attr,
            Err(failure) => {
                context.go_on(Err(failure))?;
                return Ok(Some(0));
            }
        };
        let has_other_names = attr.kind != FileKind::Directory && attr.links > 1;
        if has_other_names && !self.counted.insert(attr.ino) {
            return Ok(None);
        }
        Ok(Some(bytes(&attr)))
    }
}
