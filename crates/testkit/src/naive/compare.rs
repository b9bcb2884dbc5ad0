//! Compares what the second reader read with what the engine says.

use super::tree::{Entry, Tree};
use super::{BLOCK, Read, ensure};
use lanefs::{Attr, Caller, FileKind, Ino, Volume};
use std::collections::BTreeSet;

/// Files up to this size are compared whole; of larger ones the bytes outside of holes.
const WHOLE: u64 = 1 << 20;
/// Most blocks that are read at once: a read of each alone takes several times as long.
const MOST_BLOCKS: usize = 64;

impl Tree {
    /// Compares with a volume that has not changed since.
    ///
    /// # Errors
    /// The first difference, with its path.
    pub fn compare(&self, volume: &Volume) -> Result<(), String> {
        let mut left: BTreeSet<&[u8]> = self.entries.keys().map(Vec::as_slice).collect();
        let mut open = vec![(Vec::new(), volume.root())];
        while let Some((path, ino)) = open.pop() {
            let shown = show(&path);
            let entry = self.entries.get(&path).ok_or_else(|| format!("{shown}: the reader has none"))?;
            left.remove(&path[..]);
            let kind = compare_inode(entry, volume, ino).map_err(|text| format!("{shown}: {text}"))?;
            if kind == FileKind::Directory {
                for (name, child) in names(volume, ino).map_err(|text| format!("{shown}: {text}"))? {
                    open.push(([&path[..], b"/", &name].concat(), child));
                }
            }
        }
        match left.first() {
            Some(path) => Err(format!("{}: the engine has none", show(path))),
            None => Ok(()),
        }
    }
}

/// A name for people.
fn show(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn names(volume: &Volume, dir: Ino) -> Read<Vec<(Vec<u8>, Ino)>> {
    let (mut all, mut cookie) = (Vec::new(), 0);
    loop {
        let page = volume.readdir(&Caller::OWNER, dir, cookie, 512).map_err(|error| error.to_string())?;
        let Some(last) = page.last() else { return Ok(all) };
        cookie = last.cookie;
        all.extend(page.into_iter().map(|entry| (entry.name, entry.ino)));
    }
}

fn compare_inode(entry: &Entry, volume: &Volume, ino: Ino) -> Read<FileKind> {
    let text = |error: lanefs::Error| error.to_string();
    let attr = volume.getattr(ino).map_err(text)?;
    let theirs = of_engine(&attr);
    let ours = without_content(entry);
    ensure(ours == theirs, || format!("{ours:?} by the reader, {theirs:?} by the engine"))?;
    // A file's second name comes without attributes.
    if !entry.attributes.is_empty() {
        let mut names = volume.listxattr(ino).map_err(text)?;
        names.sort();
        ensure(names.iter().eq(entry.attributes.keys()), || format!("attributes {names:?}"))?;
        for (name, value) in &entry.attributes {
            let theirs = volume.getxattr(&Caller::OWNER, ino, name).map_err(text)?;
            ensure(theirs == *value, || format!("attribute {} differs", show(name)))?;
        }
    }
    match attr.kind {
        FileKind::File => compare_content(entry, volume, ino)?,
        FileKind::Symlink => {
            let target = volume.readlink(ino).map_err(text)?;
            let ours: Vec<u8> = entry.content.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
            ensure(target == ours, || "another target".to_owned())?;
        }
        _ => {}
    }
    Ok(attr.kind)
}

/// The entry as [`of_engine`] has it. A clone of the content would be most of a comparison.
fn without_content(entry: &Entry) -> Entry {
    Entry { attributes: Default::default(), content: Vec::new(), ..*entry }
}

fn of_engine(attr: &Attr) -> Entry {
    Entry {
        ino: attr.ino.0,
        mode: (attr.kind as u16) << 12 | attr.perm,
        links: attr.links,
        owner: (attr.uid, attr.gid),
        size: if attr.kind == FileKind::Directory { 0 } else { attr.size },
        rdev: attr.rdev,
        times: [attr.mtime.0, attr.ctime.0, attr.atime.0, attr.btime.0],
        generation: attr.generation,
        blocks: attr.blocks,
        attributes: Default::default(),
        content: Vec::new(),
    }
}

fn compare_content(entry: &Entry, volume: &Volume, ino: Ino) -> Read<()> {
    let read = |offset: u64, len: usize| -> Read<Vec<u8>> {
        // Bytes that the engine does not fill must not pass for content.
        let mut bytes = vec![0xa5; len];
        let n = volume.read(&Caller::OWNER, ino, offset, &mut bytes).map_err(|error| error.to_string())?;
        ensure(n == len, || format!("reading gives {n} bytes of {len} at {offset}"))?;
        Ok(bytes)
    };
    if entry.size <= WHOLE {
        let mut ours = vec![0; entry.size as usize];
        for (offset, bytes) in &entry.content {
            ours[*offset as usize..*offset as usize + bytes.len()].copy_from_slice(bytes);
        }
        let theirs = read(0, ours.len())?;
        let differs = ours.iter().zip(&theirs).position(|(a, b)| a != b);
        return ensure(differs.is_none(), || format!("differs at byte {differs:?}"));
    }
    for blocks in entry.content.chunk_by(|(offset, bytes), (next, _)| offset + bytes.len() as u64 == *next) {
        for run in blocks.chunks(MOST_BLOCKS) {
            let theirs = read(run[0].0, run.iter().map(|(_, bytes)| bytes.len()).sum())?;
            let mut rest = &theirs[..];
            for (offset, bytes) in run {
                let same = rest.split_off(..bytes.len()).is_some_and(|block| block == bytes);
                ensure(same, || format!("differs in the block at {offset}"))?;
            }
        }
    }
    let last = (entry.size - 1) / BLOCK * BLOCK;
    read(last, (entry.size - last) as usize).map(drop)
}
