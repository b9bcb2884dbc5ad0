//! Copying of one file or tree.

use super::host_target::HostTarget;
use super::inside_target::InsideTarget;
use super::location::Location;
use super::sink::Sink;
use super::source::{CopySource, SourceStep};
use crate::common::walk::Visit;
use crate::session::context::Context;
use crate::terminal::failure::{Failure, Outcome, check_interrupt};
use crate::terminal::progress::Progress;
use lanefs::{FileKind, FileSystem, Ino};
use std::collections::HashSet;

/// Bytes in one read and write.
const CHUNK_BYTES: usize = 1 << 20;

/// Options of a copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopyOptions {
    /// Copies directories with all their entries, and special files as such.
    pub(super) recursive: bool,
    /// Keeps owner, permissions and times.
    pub(super) preserve: bool,
    /// Leaves existing files unchanged.
    pub(super) no_clobber: bool,
}

/// The directories that a copy is inside, on the host or in the volume.
struct TargetDirs {
    host: Option<HostTarget>,
    inside: InsideTarget,
}

/// Copies files and trees.
pub(super) struct Copier {
    options: CopyOptions,
    buffer: Vec<u8>,
    progress: Progress,
}

impl Copier {
    /// Creates a copier.
    pub(super) fn new(options: CopyOptions) -> Self {
        Copier { options, buffer: vec![0; CHUNK_BYTES], progress: Progress::new("copied") }
    }

    /// Copies a file or a tree to the exact name `to`; `is_given` if the user gave this name.
    ///
    /// # Errors
    /// Failures that end the copy; a failure for one file is reported.
    pub(super) fn copy(
        &mut self,
        context: &mut Context<'_, impl FileSystem>,
        from: &Location,
        to: &Location,
        is_given: bool,
    ) -> Outcome {
        let mut source = CopySource::open(context, from, !self.options.recursive)?;
        if source.meta().kind == FileKind::Directory {
            if !self.options.recursive {
                let advice = "use -r to copy it with all its entries";
                return Err(Failure::partial(from.argument(), "is a directory", advice));
            }
            if let (true, true, Some(ino)) = (from.inside, to.inside, source.meta().ino) {
                refuse_into_itself(context, from, to, ino)?;
            }
        }
        let host = (!to.inside).then(|| HostTarget::new(to.host_path(), is_given));
        let mut target = TargetDirs { host, inside: InsideTarget::new(context.cwd_ino) };
        while let Some(step) = source.next(context) {
            check_interrupt()?;
            let outcome = step.and_then(|step| self.copy_step(context, &mut source, &step, to, &mut target));
            context.go_on(outcome)?;
        }
        Ok(())
    }

    fn copy_step(
        &mut self,
        context: &Context<'_, impl FileSystem>,
        source: &mut CopySource<'_>,
        step: &SourceStep,
        to: &Location,
        target: &mut TargetDirs,
    ) -> Outcome {
        let preserve = self.options.preserve;
        if let (Visit::Leave, Some(host)) = (step.visit, &mut target.host) {
            return host.leave(&step.below, &step.meta, preserve);
        }
        let path = [&to.path[..], &step.below].concat();
        let sink = match &target.host {
            Some(host) => host.name(&step.below).map(Sink::Host),
            None => Ok(target.inside.name(&path, &step.below)),
        };
        let outcome = sink.and_then(|sink| {
            if step.visit == Visit::Leave {
                return if preserve { sink.finish_inside(context, &step.meta) } else { Ok(()) };
            }
            self.progress.tick();
            self.copy_one(context, step, &sink, target)
        });
        if outcome.is_err() && step.meta.kind == FileKind::Directory {
            source.skip();
        }
        outcome
    }

    /// Copies one file, or creates one directory.
    fn copy_one(
        &mut self,
        context: &Context<'_, impl FileSystem>,
        step: &SourceStep,
        sink: &Sink<'_>,
        target: &mut TargetDirs,
    ) -> Outcome {
        let (meta, preserve) = (&step.meta, self.options.preserve);
        match meta.kind {
            FileKind::Directory => {
                if let Some(ino) = sink.directory(context, target.host.as_mut(), meta, preserve)? {
                    target.inside.enter(&step.below, ino);
                }
                return Ok(());
            }
            _ if self.options.no_clobber && sink.exists(context)? => return Ok(()),
            FileKind::File => self.copy_content(context, step, sink)?,
            FileKind::Symlink => sink.node(context, meta, &step.target(context)?, preserve)?,
            _ if !self.options.recursive => {
                let what = format!("is a {}", meta.kind.word());
                return Err(Failure::partial(step.from.argument(), &what, "use -r to copy it as such"));
            }
            _ => sink.node(context, meta, b"", preserve)?,
        }
        if preserve { sink.finish_inside(context, meta) } else { Ok(()) }
    }

    fn copy_content(
        &mut self,
        context: &Context<'_, impl FileSystem>,
        step: &SourceStep,
        sink: &Sink<'_>,
    ) -> Outcome {
        let reader = step.reader(context)?;
        let mut writer = sink.file(context, &step.meta, self.options.preserve)?;
        if writer.is_same_file(&reader) {
            let what = "source and target are the same file";
            return Err(Failure::partial(step.from.argument(), what, "choose another target"));
        }
        let outcome = writer.clear().and_then(|()| {
            let mut offset = 0;
            while let Some((start, end)) = reader.data(context, offset)? {
                offset = start;
                while offset < end {
                    check_interrupt()?;
                    let len = usize::try_from(end - offset).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
                    let count = reader.read(context, offset, &mut self.buffer[..len])?;
                    let Some(data) = self.buffer.get(..count).filter(|data| !data.is_empty()) else {
                        // Another process truncated the source during the copy.
                        return writer.finish(context, offset);
                    };
                    writer.write(context, offset, data)?;
                    offset += count as u64;
                }
            }
            writer.finish(context, reader.size(context)?.max(offset))
        });
        let outcome = outcome.and_then(|()| writer.finish_host(&step.meta, self.options.preserve));
        if outcome.is_err() {
            writer.abandon(context);
        }
        outcome
    }
}

/// Refuses to copy a directory into itself, which would never end.
fn refuse_into_itself(
    context: &Context<'_, impl FileSystem>,
    from: &Location,
    to: &Location,
    source: Ino,
) -> Outcome {
    let mut dir = match context.try_resolve(&to.path, true)? {
        Ok(attr) => attr.ino,
        Err(_) => context.parent(&to.path)?.0,
    };
    // The parents of a damaged volume may form a circle.
    let mut visited = HashSet::new();
    while visited.insert(dir) {
        if dir == source {
            let advice = "choose a target outside of it";
            return Err(Failure::partial(from.argument(), "cannot be copied into itself", advice));
        }
        dir = context.volume.lookup(dir, b"..").map_err(|e| Failure::volume(&to.path, &e))?.0;
    }
    Ok(())
}
