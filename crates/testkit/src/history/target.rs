//! The target of calls: a volume, or the model behind a lock.

use super::Runs;
use super::call::{Call, Facts, MOST_CONTENT_BYTES, NEW_PERM, Reply};
use crate::engine::{Engine, EngineError, Stat};
use crate::model::Model;
use lanefs::{Attr, Caller, Code, Error, FileKind, Ino, SetAttr, Volume};
use parking_lot::Mutex;

/// A file system that many threads call at once.
pub trait Target: Sync {
    /// Makes the call and waits for the reply.
    fn call(&self, call: &Call) -> Reply;
}

const CALLER: Caller = Caller::OWNER;
/// Entries that a listing requests: more than any small directory has.
const WHOLE: usize = 64;

/// A volume.
pub struct OnVolume<'v>(pub &'v Volume);

impl Target for OnVolume<'_> {
    fn call(&self, call: &Call) -> Reply {
        on_volume(self.0, call).unwrap_or_else(|error| match error {
            Error::Code(code) => Reply::Failed(code),
            other => Reply::Broken(other.to_string()),
        })
    }
}

fn on_volume(volume: &Volume, call: &Call) -> lanefs::Result<Reply> {
    Ok(match *call {
        Call::Lookup { dir, name } => {
            let (ino, kind) = volume.lookup(&CALLER, Ino(dir), name.as_bytes())?;
            Reply::Found(ino.0, kind)
        }
        Call::Getattr { ino } => facts(&volume.getattr(Ino(ino))?),
        Call::Create { dir, name } => {
            facts(&volume.create_file(&CALLER, Ino(dir), name.as_bytes(), NEW_PERM)?)
        }
        Call::CreateWhole { dir, name, fill, len, perm } => {
            let (name, content) = (name.as_bytes(), vec![fill; usize::from(len)]);
            match volume.create_whole(&CALLER, Ino(dir), name, &content, &chmod(perm))? {
                Some(made) => facts(&made),
                None => Reply::Broken("a block of content does not come in one step".to_owned()),
            }
        }
        Call::Mkdir { dir, name } => facts(&volume.mkdir(&CALLER, Ino(dir), name.as_bytes(), NEW_PERM)?),
        Call::Link { ino, dir, name } => facts(&volume.link(&CALLER, Ino(ino), Ino(dir), name.as_bytes())?),
        Call::Unlink { dir, name } => {
            volume.unlink(&CALLER, Ino(dir), name.as_bytes())?;
            Reply::Done
        }
        Call::Rmdir { dir, name } => {
            volume.rmdir(&CALLER, Ino(dir), name.as_bytes())?;
            Reply::Done
        }
        Call::Rename { dir, name, to, new, mode } => {
            volume.rename_at(&CALLER, Ino(dir), name.as_bytes(), Ino(to), new.as_bytes(), mode)?;
            Reply::Done
        }
        Call::List { dir } => {
            let page = volume.readdir(&CALLER, Ino(dir), 0, WHOLE)?;
            let entries =
                page.into_iter().map(|e| (String::from_utf8_lossy(&e.name).into_owned(), e.ino.0, e.kind));
            names(entries.collect())
        }
        Call::Write { ino, fill, len } => {
            let written = volume.write(&CALLER, Ino(ino), 0, &vec![fill; usize::from(len)])?;
            if written == usize::from(len) {
                Reply::Done
            } else {
                Reply::Broken(format!("{written} written"))
            }
        }
        Call::Read { ino } => {
            let mut buffer = vec![0xee; MOST_CONTENT_BYTES];
            let len = volume.read(&CALLER, Ino(ino), 0, &mut buffer)?;
            Reply::Content(Runs::of(&buffer[..len]))
        }
        Call::Resize { ino, size } => facts(&volume.setattr(&CALLER, Ino(ino), &resize(size))?),
        Call::Chmod { ino, perm } => facts(&volume.setattr(&CALLER, Ino(ino), &chmod(perm))?),
        Call::Sync => {
            volume.sync()?;
            Reply::Done
        }
    })
}

fn names(mut entries: Vec<(String, u64, FileKind)>) -> Reply {
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    Reply::Names(entries)
}

fn resize(size: u16) -> SetAttr {
    SetAttr { size: Some(u64::from(size)), ..SetAttr::default() }
}

fn chmod(perm: u16) -> SetAttr {
    SetAttr { perm: Some(perm), ..SetAttr::default() }
}

fn facts(attr: &Attr) -> Reply {
    stat(&Stat::from(attr))
}

fn stat(stat: &Stat) -> Reply {
    Reply::Attributes(Facts {
        ino: stat.id,
        kind: stat.kind,
        perm: stat.perm,
        links: stat.links,
        size: stat.size,
    })
}

/// The model, one call at a time. The specification is compared with it.
pub struct OnModel(pub Mutex<Model>);

impl Target for OnModel {
    fn call(&self, call: &Call) -> Reply {
        // A call that panicked has failed the test already.
        let mut model = self.0.lock();
        on_model(&mut model, call).unwrap_or_else(|error| match error {
            EngineError { broken: false, code, .. } => Reply::Failed(code),
            EngineError { text, .. } => Reply::Broken(text),
        })
    }
}

fn on_model(model: &mut Model, call: &Call) -> Result<Reply, EngineError> {
    Ok(match *call {
        Call::Lookup { dir, name } => {
            let ino = model.lookup(&CALLER, dir, name.as_bytes())?;
            Reply::Found(ino, model.stat(ino)?.kind)
        }
        Call::Getattr { ino } => stat(&model.stat(ino)?),
        Call::Create { dir, name } => stat(&model.create(&CALLER, dir, name.as_bytes(), NEW_PERM)?),
        Call::CreateWhole { dir, name, fill, len, perm } => {
            let content = vec![fill; usize::from(len)];
            stat(&model.create_whole(&CALLER, dir, name.as_bytes(), &content, &chmod(perm))?)
        }
        Call::Mkdir { dir, name } => stat(&model.mkdir(&CALLER, dir, name.as_bytes(), NEW_PERM)?),
        Call::Link { ino, dir, name } => stat(&model.link(&CALLER, ino, dir, name.as_bytes())?),
        Call::Unlink { dir, name } => {
            model.unlink(&CALLER, dir, name.as_bytes())?;
            Reply::Done
        }
        Call::Rmdir { dir, name } => {
            model.rmdir(&CALLER, dir, name.as_bytes())?;
            Reply::Done
        }
        Call::Rename { dir, name, to, new, mode } => {
            model.rename(&CALLER, (dir, name.as_bytes()), (to, new.as_bytes()), mode)?;
            Reply::Done
        }
        Call::List { dir } => {
            let mut entries = Vec::new();
            for (name, kind, _) in model.list(&CALLER, dir, 0, WHOLE)? {
                let ino = *model.entries(dir).and_then(|all| all.get(&name)).ok_or(Code::NotFound)?;
                entries.push((String::from_utf8_lossy(&name).into_owned(), ino, kind));
            }
            names(entries)
        }
        Call::Write { ino, fill, len } => {
            model.write(&CALLER, ino, 0, &vec![fill; usize::from(len)])?;
            Reply::Done
        }
        Call::Read { ino } => {
            let mut buffer = vec![0xee; MOST_CONTENT_BYTES];
            let len = model.read(&CALLER, ino, 0, &mut buffer)?;
            Reply::Content(Runs::of(&buffer[..len]))
        }
        Call::Resize { ino, size } => stat(&model.set(&CALLER, ino, &resize(size))?),
        Call::Chmod { ino, perm } => stat(&model.set(&CALLER, ino, &chmod(perm))?),
        Call::Sync => Reply::Done,
    })
}
