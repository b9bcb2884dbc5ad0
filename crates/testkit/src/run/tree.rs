//! Compares whole trees: names, attributes, data, extended attributes.

use super::outcome::stat_difference;
use crate::engine::{Engine, EngineResult, Handle, Stat};
use crate::model::{Content, Model};
use crate::ops::Bytes;
use lanefs::{Caller, Seek};
use lanefs_format::{BLOCK, FileKind};
use std::collections::{BTreeMap, HashMap};

/// Files up to this size are read whole; of larger ones, data and the bounds of holes.
const READ_WHOLE: u64 = 1 << 20;
/// Bytes read at a time.
const PIECE_BYTES: u64 = 256 << 10;
/// Pieces of data in one file at most: more than any test makes.
const MOST_PIECES: usize = 100_000;

/// Compares the engine's tree with the model's.
///
/// # Errors
/// The first difference, with its path.
pub fn compare(model: &mut Model, root: Handle, engine: &mut dyn Engine) -> Result<(), String> {
    engine.begin();
    let mut twins = Twins::default();
    let engine_root = engine.root();
    let mut pending = vec![(Vec::new(), root, engine_root)];
    node(model, engine, &mut twins, &[], root, engine_root)?;
    while let Some((path, ours, theirs)) = pending.pop() {
        let shown = Bytes(path.clone());
        let listed =
            list(engine, theirs, 1 + path.len() * 13 % 200).map_err(|text| format!("{shown:?}: {text}"))?;
        let entries = model.entries(ours).cloned().unwrap_or_default();
        if let Some(lost) = entries.keys().find(|name| !listed.contains_key(*name)) {
            return Err(format!("{shown:?}: readdir does not give {:?}", Bytes(lost.clone())));
        }
        if let Some(odd) = listed.keys().find(|name| !entries.contains_key(*name)) {
            return Err(format!(
                "{shown:?}: readdir gives {:?}, which should not be there",
                Bytes(odd.clone())
            ));
        }
        for (name, child) in entries {
            let mut below = path.clone();
            below.push(b'/');
            below.extend(&name);
            let at = Bytes(below.clone());
            let found = engine
                .lookup(&Caller::OWNER, theirs, &name)
                .map_err(|error| format!("{at:?}: lookup of a name that is there: {error:?}"))?;
            let kind = node(model, engine, &mut twins, &below, child, found)?;
            if listed.get(&name) != Some(&kind) {
                return Err(format!("{at:?}: readdir says {:?}, the inode {kind:?}", listed.get(&name)));
            }
            if kind == FileKind::Directory {
                up(engine, &at, theirs, found)?;
                pending.push((below, child, found));
            } else {
                engine.forget(found);
            }
        }
        engine.forget(theirs);
    }
    Ok(())
}

/// The map between the engine's inodes and the model's, which tells hard links from copies.
#[derive(Default)]
struct Twins {
    theirs: HashMap<Handle, u64>,
    ours: HashMap<u64, Handle>,
}

/// Compares one inode; its content only at the first visit.
fn node(
    model: &mut Model,
    engine: &mut dyn Engine,
    twins: &mut Twins,
    path: &[u8],
    ours: Handle,
    theirs: Handle,
) -> Result<FileKind, String> {
    let at = Bytes(path.to_vec());
    let show = |text: String| format!("{at:?}: {text}");
    let expected = model.stat(ours).map_err(|error| show(format!("the model fails: {error:?}")))?;
    let got = engine.stat(theirs).map_err(|error| show(format!("{error:?}")))?;
    if let Some(text) = stat_difference(&expected, &got) {
        return Err(show(text));
    }
    let known = twins.theirs.insert(ours, got.id);
    if known.is_some_and(|id| id != got.id)
        || twins.ours.insert(got.id, ours).is_some_and(|other| other != ours)
    {
        return Err(show("is not the inode that its other names lead to".to_owned()));
    }
    if known.is_some() {
        return Ok(got.kind);
    }
    match got.kind {
        FileKind::File => data(model, engine, ours, theirs, &got).map_err(show)?,
        FileKind::Symlink => {
            let (a, b) = (model.readlink(ours), engine.readlink(theirs));
            if a != b {
                return Err(show(format!("target {b:?}, not {a:?}")));
            }
        }
        _ => {}
    }
    attributes(model, engine, ours, theirs).map_err(show)?;
    Ok(got.kind)
}

/// Checks that `..` of a directory leads back.
fn up(engine: &mut dyn Engine, at: &Bytes, parent: Handle, child: Handle) -> Result<(), String> {
    let above =
        engine.lookup(&Caller::OWNER, child, b"..").map_err(|error| format!("{at:?}/..: {error:?}"))?;
    let same = id(engine, above) == id(engine, parent);
    if above != parent {
        engine.forget(above);
    }
    if same { Ok(()) } else { Err(format!("{at:?}/.. is not its parent")) }
}

fn id(engine: &mut dyn Engine, handle: Handle) -> EngineResult<u64> {
    Ok(engine.stat(handle)?.id)
}

fn list(engine: &mut dyn Engine, dir: Handle, page: usize) -> Result<BTreeMap<Vec<u8>, FileKind>, String> {
    let (mut names, mut cookie) = (BTreeMap::new(), 0);
    loop {
        let entries =
            engine.list(&Caller::OWNER, dir, cookie, page).map_err(|error| format!("readdir: {error:?}"))?;
        let Some((_, _, last)) = entries.last() else { return Ok(names) };
        cookie = *last;
        for (name, kind, _) in entries {
            if names.insert(name.clone(), kind).is_some() {
                return Err(format!("readdir gives {:?} twice", Bytes(name)));
            }
        }
    }
}

fn attributes(
    model: &mut Model,
    engine: &mut dyn Engine,
    ours: Handle,
    theirs: Handle,
) -> Result<(), String> {
    let expected = model.listxattr(ours).unwrap_or_default();
    let mut got = engine.listxattr(theirs).map_err(|error| format!("listxattr: {error:?}"))?;
    got.sort();
    if expected != got {
        return Err(format!("attributes {got:?}, not {expected:?}"));
    }
    for name in expected {
        let (a, b) =
            (model.getxattr(&Caller::OWNER, ours, &name), engine.getxattr(&Caller::OWNER, theirs, &name));
        if a != b {
            return Err(format!("attribute {:?} differs", Bytes(name)));
        }
    }
    Ok(())
}

fn data(
    model: &Model,
    engine: &mut dyn Engine,
    ours: Handle,
    theirs: Handle,
    stat: &Stat,
) -> Result<(), String> {
    let Some(content) = model.content(ours) else { return Ok(()) };
    let mut buffer = Vec::new();
    if stat.size <= READ_WHOLE {
        return range(content, engine, theirs, 0, stat.size + 10, &mut buffer);
    }
    let blocks: Vec<u64> = content.nonzero_blocks().map(|(index, _)| index).collect();
    for together in blocks.chunk_by(|index, next| index + 1 == *next) {
        // Blocks one by one would be most of a comparison.
        for run in together.chunks((PIECE_BYTES / BLOCK) as usize) {
            range(content, engine, theirs, run[0] * BLOCK, run.len() as u64 * BLOCK, &mut buffer)?;
        }
    }
    range(content, engine, theirs, stat.size - 4096, 8192, &mut buffer)?;
    // Data of the engine must be the model's data, too: no old bytes may show in a hole.
    let mut at = 0;
    for _ in 0..MOST_PIECES {
        let Ok(start) = engine.seek(theirs, at, Seek::Data) else { return Ok(()) };
        let end =
            engine.seek(theirs, start, Seek::Hole).map_err(|error| format!("seek for a hole: {error:?}"))?;
        if start < at || end <= start {
            return Err(format!("seek does not advance: from {at} to {start} to {end}"));
        }
        let mut from = start;
        while from < end.min(start + (32 << 20)) {
            let len = PIECE_BYTES.min(end - from);
            range(content, engine, theirs, from, len, &mut buffer)?;
            from += len;
        }
        at = end;
    }
    Err("a file in too many pieces".to_owned())
}

fn range(
    content: &Content,
    engine: &mut dyn Engine,
    theirs: Handle,
    offset: u64,
    len: u64,
    buffer: &mut Vec<u8>,
) -> Result<(), String> {
    let mut expected = vec![0; len as usize];
    let known = content.read(offset, &mut expected);
    buffer.clear();
    buffer.resize(len as usize, 0xa5);
    let n =
        engine.read(&Caller::OWNER, theirs, offset, buffer).map_err(|error| format!("read: {error:?}"))?;
    if n != known {
        return Err(format!("read at {offset} gives {n} bytes, not {known}"));
    }
    match expected[..known].iter().zip(&buffer[..]).position(|(a, b)| a != b) {
        Some(p) => {
            let at = offset + p as u64;
            Err(format!("byte {at} is {:#04x}, not {:#04x}", buffer[p], expected[p]))
        }
        None => Ok(()),
    }
}
