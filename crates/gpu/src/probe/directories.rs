//! Probes of the kernels that search a volume and list directories.

use super::known::{KnownPaths, MANY_FILES, wrong};
use crate::error::Result;
use crate::inputs::filter::Filter;
use crate::kernels::context::DeviceContext;
use crate::kernels::{FIND, LEAVES, STAT};
use crate::lookups::mirrored::{MirrorOptions, Mirrored};
use lanefs::format::FileKind;
use lanefs::{Attr, Caller, DirEntry, Ino, SetAttr, Time, Volume};

pub(crate) fn find(context: &DeviceContext, volume: &Volume, _: &KnownPaths) -> Result<()> {
    let mirrored = Mirrored::new(context, volume, &MirrorOptions { cache: 0.0, ..MirrorOptions::default() })?;
    let (caller, root) = (Caller::OWNER, volume.root());
    let dir = volume.mkdir(&caller, root, b"found", 0o755)?.ino;
    let make = |name: &str, size: usize, time: i64| -> Result<Ino> {
        let ino = volume.write_file(format!("/found/{name}"), vec![0; size])?.ino;
        volume.setattr(&caller, ino, &SetAttr { mtime: Some(Time(time)), ..SetAttr::default() })?;
        Ok(ino)
    };
    // Each of the others differs from the first in one thing; the last one has a name in the orphan
    // directory only.
    let first = make("what is looked for", 7, -5)?;
    for name in
        ["what is looked fox", "xhat is looked for", "what is lookedfor", "what is looked for ", "what"]
    {
        make(name, 7, -5)?;
    }
    for (number, (size, time)) in [(6, -5), (8, -5), (7, -6), (7, -4), (7, 5)].into_iter().enumerate() {
        make(&format!("what is looked {number} for"), size, time)?;
    }
    volume.symlink_at(&caller, dir, b"what is a link, looked for", b"a link.")?;
    let unnamed = volume.create_unnamed(&caller, dir, 0o600)?.ino;
    let mut filter = Filter { kinds: vec![FileKind::File], size: 7..=7, mtime: -5..=-5, ..Filter::default() };
    let is_pattern = filter.names.and("[v-w]?a*lo*ked *f*r", false);
    let asked = mirrored.find(&filter)?;
    let files = Filter { kinds: vec![FileKind::File], ..Filter::default() };
    let all = mirrored.find(&files)?;
    volume.release(unnamed, 1)?;
    volume.remove_all_with(&caller, root, b"found", |_, done| done)?;
    if !is_pattern || asked.0.iter().map(|entry| entry.ino).ne([first]) {
        return wrong(FIND, format!("one file is looked for: {:?}", asked.0));
    }
    if asked.1.by_host + all.1.by_host != 0 {
        return wrong(FIND, "leaf blocks were left to the host".into());
    }
    let (many, _) = volume.lookup(&caller, root, b"many")?;
    let there = volume.readdir(&caller, many, 0, 2 * MANY_FILES)?;
    let mut found = all.0.iter().filter(|entry| entry.dir == many);
    let is_found = |entry: &DirEntry| {
        found.next().is_some_and(|found| (found.ino, &found.name) == (entry.ino, &entry.name))
    };
    if !there.iter().all(is_found) || found.next().is_some() {
        return wrong(FIND, format!("{} files are not found as they are", there.len()));
    }
    Ok(())
}

pub(crate) fn leaves(context: &DeviceContext, volume: &Volume, _: &KnownPaths) -> Result<()> {
    let mirrored = Mirrored::new(context, volume, &MirrorOptions { cache: 0.0, ..MirrorOptions::default() })?;
    let caller = Caller::OWNER;
    let mut dirs = vec![volume.root()];
    for name in ["many", "few", "links"] {
        dirs.push(volume.lookup(&caller, volume.root(), name.as_bytes())?.0);
    }
    let (listed, report) = mirrored.list(&dirs, false);
    for (dir, listed) in dirs.iter().zip(listed) {
        let there = volume.readdir(&caller, *dir, 0, 2 * MANY_FILES)?;
        if !listed?.iter().map(|one| &one.entry).eq(&there) {
            return wrong(LEAVES, format!("{} entries are not listed as they are", there.len()));
        }
    }
    if report.by_host != 0 {
        return wrong(LEAVES, format!("{} directories were left to the host", report.by_host));
    }
    Ok(())
}

pub(crate) fn stat(context: &DeviceContext, volume: &Volume, _: &KnownPaths) -> Result<()> {
    let mirrored = Mirrored::new(context, volume, &MirrorOptions { cache: 0.0, ..MirrorOptions::default() })?;
    let (dir, _) = volume.lookup(&Caller::OWNER, volume.root(), b"many")?;
    let inos: Vec<u64> =
        volume.readdir(&Caller::OWNER, dir, 0, 100)?.iter().map(|entry| entry.ino.0).chain([0]).collect();
    let cores = mirrored.with_mirror(|mirror| mirrored.cores_of(mirror, &inos))?;
    for (ino, core) in inos.iter().zip(cores) {
        let (found, there) = (Attr::of_inode(Ino(*ino), &core), volume.getattr(Ino(*ino)).ok());
        if found != there {
            return wrong(STAT, format!("inode {ino}: {found:?}, not {there:?}"));
        }
    }
    Ok(())
}
