//! Changes of attributes for `chmod` and `chown`: one file, or all files below a directory.

use super::walk::{Visit, Walk, WalkOptions};
use crate::session::context::{Context, OWNER};
use crate::terminal::failure::{Failure, Outcome, check_interrupt};
use crate::terminal::progress::Progress;
use crate::text::bytes;
use lanefs::{Attr, SetAttr};
use std::ffi::OsString;

/// Files whose attributes change.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'p> {
    /// The paths of the command line.
    pub paths: &'p [OsString],
    /// Changes all files below directories too.
    pub recursive: bool,
    /// Follows symbolic links among `paths`. Links below directories are never followed.
    pub follow: bool,
}

impl Scope<'_> {
    /// Sets the attributes of each file to the result of `change` on its old ones; `None` leaves them.
    ///
    /// # Errors
    /// Failures that end the whole command; a failure for one file is reported.
    pub fn apply(&self, context: &mut Context<'_>, change: &dyn Fn(&Attr) -> Option<SetAttr>) -> Outcome {
        let mut progress = Progress::new("changed");
        for path in self.paths {
            let outcome = self.apply_below(context, bytes::of(path), change, &mut progress);
            context.go_on(outcome)?;
        }
        Ok(())
    }

    fn apply_below(
        &self,
        context: &mut Context<'_>,
        path: &[u8],
        change: &dyn Fn(&Attr) -> Option<SetAttr>,
        progress: &mut Progress,
    ) -> Outcome {
        let start = context.resolve(path, self.follow)?;
        let max_depth = if self.recursive { None } else { Some(0) };
        let options = WalkOptions { max_depth, ..WalkOptions::default() };
        let mut walk = Walk::new(context.volume, path, start.ino, start.kind, options);
        while let Some(step) = walk.next() {
            check_interrupt()?;
            let outcome = step.and_then(|step| {
                if step.visit == Visit::Leave {
                    return Ok(());
                }
                progress.tick();
                let attr = context.attr(walk.path(), step.ino)?;
                let Some(set) = change(&attr) else { return Ok(()) };
                let changed = context.volume.setattr(&OWNER, attr.ino, &set);
                changed.map(drop).map_err(|e| Failure::volume(walk.path(), &e))
            });
            context.go_on(outcome)?;
        }
        Ok(())
    }
}
