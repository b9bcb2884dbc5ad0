//! `lanefs cp`: into the volume, out of it and within it.

mod sink;
mod source;

use crate::bytes;
use crate::cli::Run;
use crate::context::{Context, OWNER, join, split};
use crate::exit::{self, Failure, Outcome};
use crate::progress::Progress;
use crate::walk::Visit;
use clap::Args;
use lanefs::{FileKind, Ino};
use sink::Sink;
use source::{Found, Meta, Source};
use std::ffi::OsString;

/// Bytes copied at once.
const CHUNK: usize = 1 << 20;

/// Copy files into, out of and within a volume
///
/// A path that begins with a colon lies inside the volume, any other on the host; a host file whose name begins with a
/// colon is given as ./:name. The last PATH is the new name, or a directory that takes what comes before it. Holes
/// stay holes. What cannot be copied is reported and the rest is done. For whole trees `import` and `export` are
/// faster.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs cp v.lane photo.jpg :/photos/         into the volume
  lanefs cp v.lane :/etc/hosts :/etc/fstab .   out of it
  lanefs cp v.lane -rp ~/src :/src             a tree, with times and owners
  lanefs cp v.lane :/a :/b                     within it")]
pub struct Cp {
    /// Copy directories with all that they hold; symbolic links and special files as what they are
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,
    /// Keep owner, permissions and times (permissions are kept without it too, but for set-id bits)
    #[arg(short, long)]
    preserve: bool,
    /// Leave files that exist as they are
    #[arg(short, long)]
    no_clobber: bool,
    /// Sources, then the new name or the directory; `:PATH` lies inside the volume
    #[arg(value_name = "PATH", required = true, num_args = 2..)]
    paths: Vec<OsString>,
}

/// A path, and on which side it lies.
#[derive(Clone, Debug)]
struct Place {
    inside: bool,
    path: Vec<u8>,
}

impl Place {
    fn parse(text: &OsString) -> Self {
        match bytes::of(text).strip_prefix(b":") {
            // `:` alone is the directory where paths start.
            Some(b"") => Place { inside: true, path: b".".to_vec() },
            Some(path) => Place { inside: true, path: path.to_vec() },
            None => Place { inside: false, path: bytes::of(text).to_vec() },
        }
    }

    fn in_directory(&self, name: &[u8]) -> Self {
        Place { inside: self.inside, path: join(&self.path, name) }
    }

    /// As the user writes it.
    fn shown(&self) -> Vec<u8> {
        if self.inside { [b":", &self.path[..]].concat() } else { self.path.clone() }
    }
}

impl Run for Cp {
    fn changes(&self) -> bool {
        self.paths.last().is_some_and(|last| Place::parse(last).inside)
    }

    fn run(&self, context: &mut Context<'_>) -> Outcome {
        let Some((target, sources)) = self.paths.split_last() else { return Ok(()) };
        let target = Place::parse(target);
        if !target.inside && sources.iter().any(|source| !Place::parse(source).inside) {
            let advice = "put a colon before the path inside the volume, as in `lanefs cp IMAGE file :/dir/`";
            return Err(Failure::usage(
                &target.path,
                "source and target both lie outside of the volume",
                advice,
            ));
        }
        let into = sink::is_directory(context, &target)?;
        if sources.len() > 1 && !into {
            let advice = "the last path must be an existing directory to take several";
            return Err(Failure::new(exit::PARTIAL, target.shown(), "not a directory", advice));
        }
        let mut copier = Copier { args: self, buffer: vec![0; CHUNK], progress: Progress::new("copied") };
        for source in sources {
            let source = Place::parse(source);
            let name = split(&source.path).1;
            // `dir/.` and `..` have no name of their own: what they hold goes into the target.
            let to = if into && !matches!(name, b"" | b"." | b"..") {
                target.in_directory(name)
            } else {
                target.clone()
            };
            let outcome = copier.copy(context, &source, &to);
            context.go_on(outcome)?;
        }
        Ok(())
    }
}

struct Copier<'a> {
    args: &'a Cp,
    buffer: Vec<u8>,
    progress: Progress,
}

impl Copier<'_> {
    /// Copies a file or a tree to the very name `to`.
    fn copy(&mut self, context: &mut Context<'_>, from: &Place, to: &Place) -> Outcome {
        let mut source = Source::open(context, from, !self.args.recursive)?;
        if source.meta().kind == FileKind::Directory {
            if !self.args.recursive {
                return Err(Failure::new(
                    exit::PARTIAL,
                    from.shown(),
                    "is a directory",
                    "use -r to copy it with all it holds",
                ));
            }
            if let (true, true, Some(ino)) = (from.inside, to.inside, source.meta().ino) {
                refuse_into_itself(context, from, to, ino)?;
            }
        }
        while let Some(found) = source.next(context) {
            crate::interrupt::check()?;
            let outcome = found.and_then(|found| {
                let place = Place { inside: to.inside, path: [&to.path[..], &found.below].concat() };
                match found.visit {
                    Visit::Enter => {
                        self.progress.tick();
                        let outcome = self.enter(context, &found, &place);
                        if outcome.is_err() && found.meta.kind == FileKind::Directory {
                            source.skip();
                        }
                        outcome
                    }
                    Visit::Leave => Sink::new(&place, found.below.is_empty()).finish(
                        context,
                        &found.meta,
                        self.args.preserve,
                    ),
                }
            });
            context.go_on(outcome)?;
        }
        Ok(())
    }

    fn enter(&mut self, context: &Context<'_>, found: &Found, place: &Place) -> Outcome {
        let sink = Sink::new(place, found.below.is_empty());
        let meta = &found.meta;
        match meta.kind {
            FileKind::Directory => return sink.directory(context, meta, self.args.preserve),
            _ if self.args.no_clobber && sink.exists(context)? => return Ok(()),
            FileKind::File => self.content(context, found, &sink)?,
            FileKind::Symlink => sink.symlink(context, &found.target(context)?)?,
            _ if !self.args.recursive => {
                let what = format!("is a {}", meta.kind.word());
                return Err(Failure::new(
                    exit::PARTIAL,
                    found.from.shown(),
                    &what,
                    "use -r to copy it as what it is",
                ));
            }
            _ => sink.special(context, meta)?,
        }
        sink.finish(context, meta, self.args.preserve)
    }

    fn content(&mut self, context: &Context<'_>, found: &Found, sink: &Sink<'_>) -> Outcome {
        let reader = found.reader(context)?;
        let mut writer = sink.file(context, &found.meta)?;
        if reader.same_file(&writer) {
            let what = "source and target are the same file";
            return Err(Failure::new(exit::PARTIAL, found.from.shown(), what, "choose another target"));
        }
        let outcome = writer.cut(context).and_then(|()| {
            let mut offset = 0;
            while let Some((start, end)) = reader.data(context, offset)? {
                offset = start;
                while offset < end {
                    crate::interrupt::check()?;
                    let most = usize::try_from(end - offset).unwrap_or(CHUNK).min(CHUNK);
                    let count = reader.read(context, offset, &mut self.buffer[..most])?;
                    let Some(data) = self.buffer.get(..count).filter(|data| !data.is_empty()) else {
                        // The source was cut off meanwhile.
                        return writer.end(context, offset);
                    };
                    writer.write(context, offset, data)?;
                    offset += count as u64;
                }
            }
            writer.end(context, reader.size(context)?.max(offset))
        });
        if outcome.is_err() {
            writer.abandon(context);
        }
        outcome
    }
}

/// A directory copied into itself would never end.
fn refuse_into_itself(context: &Context<'_>, from: &Place, to: &Place, source: Ino) -> Outcome {
    let mut dir = match context.try_resolve(&to.path, true)? {
        Ok(attr) => attr.ino,
        Err(_) => context.parent(&to.path)?.0,
    };
    let mut seen = std::collections::HashSet::new();
    // A damaged volume may lead round in a circle.
    while seen.insert(dir) {
        if dir == source {
            let advice = "choose a target outside of it";
            return Err(Failure::new(exit::PARTIAL, from.shown(), "cannot be copied into itself", advice));
        }
        dir = context.volume.lookup(&OWNER, dir, b"..").map_err(|e| Failure::volume(&to.path, &e))?.0;
    }
    Ok(())
}

/// Owner, permissions and times that a copy gets: all of them, or permissions without set-id bits.
fn perm(meta: &Meta, preserve: bool) -> u16 {
    if preserve { meta.perm } else { meta.perm & 0o777 }
}
