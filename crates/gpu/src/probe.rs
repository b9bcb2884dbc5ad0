//! What each kernel is asked before a device is used: a small volume, and paths whose answers are known.

mod changes;

use crate::engine::{Gpu, MirrorOptions, Mirrored};
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::kernels::{FILL, FIND, LEAVES, LOOKUP, SEEK, STAT, WARM};
use crate::twin::lookup::Found;
use lanefs::format::{Code, FileKind};
use lanefs::{
    Attr, Caller, CreateOptions, DirEntry, Ino, InodeSize, RenameMode, ResolveOptions, SetAttr, Time, Volume,
};
use std::time::{Duration, Instant};

/// Files of the large directory: several regions, so a tree.
const MANY: usize = 4000;

/// The volume's hash seed, and two names that have the same hash with it: only a comparison of names tells them apart.
const SEED: [u8; 16] = [7; 16];
const SAME_HASH: [&str; 2] = ["collision-0061688", "collision-0088900"];

/// Of a thousand entries so many may be missing in a cache that has room for all: a bucket has two places.
const MISSING: usize = 100;

/// Probes every kernel.
pub(crate) fn all(gpu: &Gpu) -> Result<Vec<(&'static str, Duration)>> {
    let names = [LOOKUP, FILL, WARM, FIND, LEAVES, STAT, SEEK].map(|shader| shader.name);
    let probes = [lookup, fill, warm, find, leaves, stat, changes::seek, changes::rebuild];
    let mut times: Vec<_> =
        names.into_iter().chain([changes::REBUILD]).map(|name| (name, Duration::ZERO)).collect();
    for size in [InodeSize::B128, InodeSize::B256] {
        let options =
            CreateOptions { size: 16 << 20, inode_size: size, seed: Some(SEED), ..CreateOptions::default() };
        let volume = Volume::create_memory(&options)?;
        let known = Known::new(&volume)?;
        for (probe, time) in probes.into_iter().zip(&mut times) {
            let begin = Instant::now();
            probe(gpu, &volume, &known)?;
            time.1 += begin.elapsed();
        }
    }
    Ok(times)
}

/// Paths whose answers are known.
struct Known {
    paths: Vec<String>,
    answers: Vec<Found>,
}

impl Known {
    fn expect(&mut self, path: impl Into<String>, code: Code, found: Option<(FileKind, Ino)>) {
        let (kind, ino) = found.map_or((0, 0), |(kind, ino)| (kind as u32, ino.0));
        self.paths.push(path.into());
        self.answers.push(Found { code, kind, ino });
    }

    fn found(&mut self, path: impl Into<String>, kind: FileKind, ino: Ino) {
        self.expect(path, Code::Success, Some((kind, ino)));
    }

    /// Fills a volume.
    fn new(volume: &Volume) -> Result<Known> {
        let mut known = Known { paths: Vec::new(), answers: Vec::new() };
        let (who, root) = (Caller::OWNER, volume.root());
        let file =
            |dir, name: &str| volume.create_file(&who, dir, name.as_bytes(), 0o644).map(|attr| attr.ino);
        let mkdir = |dir, name: &str| volume.mkdir(&who, dir, name.as_bytes(), 0o755).map(|attr| attr.ino);
        let link = |dir, name: &str, to: &str| {
            volume.symlink(&who, dir, name.as_bytes(), to.as_bytes()).map(|attr| attr.ino)
        };
        let many = mkdir(root, "many")?;
        for number in 0..MANY {
            let name = match number % 2 {
                0 => format!("file {number}"),
                _ => format!("a file of many with the number {number:0width$}", width = number % 60),
            };
            // All of them: the lowest of a region tells a wrong step in the tree.
            known.found(format!("/many/{name}"), FileKind::File, file(many, &name)?);
            if number % 7 == 0 {
                known.expect(format!("/many/not {name}"), Code::NotFound, None);
            }
        }
        let [there, not_there] = SAME_HASH;
        known.found(format!("/many/{there}"), FileKind::File, file(many, there)?);
        known.expect(format!("/many/{not_there}"), Code::NotFound, None);
        let few = mkdir(root, "few")?;
        known.found("//few/./../few/link", FileKind::Symlink, link(few, "link", "elsewhere")?);
        known.expect("/few/link/", Code::NotFound, None);
        known.found("few//", FileKind::Directory, few);
        known.found("/", FileKind::Directory, root);
        known.expect("", Code::NotFound, None);
        known.expect("/none/file", Code::ComponentNotFound, None);
        let one = file(few, "file")?;
        known.found("/few/file", FileKind::File, one);
        known.expect("/few/file/", Code::NotDirectory, None);
        known.expect("/few/file/more", Code::NotDirectory, None);
        known.expect(format!("/few/{}", "n".repeat(256)), Code::NotResident, None);
        let links = mkdir(root, "links")?;
        link(links, "m", "..")?;
        link(links, "n", "m/few/")?;
        known.found("/links/n/file", FileKind::File, one);
        known.found("/links/m/links/n/../few", FileKind::Directory, few);
        // Links are followed before the last place only, where nobody asks for more: 40 of them, to a directory.
        link(links, "1", "/few")?;
        for number in 2..=41 {
            link(links, &number.to_string(), &(number - 1).to_string())?;
        }
        known.found("/links/40/file", FileKind::File, one);
        known.expect("/links/41/file", Code::SymlinkLoop, None);
        Ok(known)
    }

    /// Asks all of them: how many went through the tree.
    fn ask(&self, mirrored: &Mirrored<'_, '_>, kernel: &'static str) -> Result<usize> {
        let question = mirrored.question(&ResolveOptions { follow: false, ..ResolveOptions::default() });
        let (found, notes) = mirrored.found(&question, &self.paths)?;
        for ((path, expected), found) in self.paths.iter().zip(&self.answers).zip(found) {
            if found != *expected {
                let size = question.inode_size.bytes();
                return wrong(
                    kernel,
                    format!("{path:?} with inodes of {size} B: {found:?}, not {expected:?}"),
                );
            }
        }
        Ok(notes.len())
    }
}

fn wrong<T>(kernel: &'static str, what: String) -> Result<T> {
    Err(Error::Wrong { kernel, what })
}

fn lookup(gpu: &Gpu, volume: &Volume, known: &Known) -> Result<()> {
    let mirrored = gpu.mirror(volume, &MirrorOptions { cache: 0.0, ..MirrorOptions::default() })?;
    known.ask(&mirrored, LOOKUP.name)?;
    // Who may search a directory: its owner, its group, others.
    let who = Caller::OWNER;
    for (i, perm) in [0o100, 0o010, 0o001].into_iter().enumerate() {
        let name = format!("for {perm:o}");
        let made = volume.mkdir(&who, volume.root(), name.as_bytes(), perm)?.ino;
        volume.create_file(&who, made, b"file", 0)?;
        let owned = SetAttr { uid: Some(7), gid: Some(8), ..SetAttr::default() };
        volume.setattr(&who, made, &owned)?;
        for (class, user) in
            [(0, (7, 8, [0, 0])), (1, (9, 8, [0, 0])), (1, (9, 9, [5, 8])), (2, (9, 9, [5, 7]))]
        {
            let caller = Caller::user(user.0, user.1, &user.2);
            let question = mirrored.question(&ResolveOptions { caller, ..ResolveOptions::default() });
            let found = mirrored.found(&question, &[format!("/{name}/file")])?.0;
            let expected = if class == i { Code::Success } else { Code::AccessDenied };
            if found.iter().any(|found| found.code != expected) {
                return wrong(LOOKUP.name, format!("{user:?} in a directory {name}: {found:?}"));
            }
        }
        volume.remove_all_with(&who, volume.root(), name.as_bytes(), |_, done| done)?;
    }
    Ok(())
}

fn fill(gpu: &Gpu, volume: &Volume, known: &Known) -> Result<()> {
    let mirrored = gpu.mirror(volume, &MirrorOptions::default())?;
    let through_tree = known.ask(&mirrored, LOOKUP.name)?;
    let again = known.ask(&mirrored, FILL.name)?;
    if mirrored.cache_bytes() != 0 && again * 1000 > through_tree * MISSING {
        return wrong(FILL.name, format!("of {through_tree} entries {again} are not in the cache"));
    }
    // What is in the cache and not in the volume any more.
    let (who, root) = (Caller::OWNER, volume.root());
    let few = volume.lookup(&who, root, b"few")?.0;
    volume.rename(&who, few, b"file", few, b"another", RenameMode::Replace)?;
    let question = mirrored.question(&ResolveOptions::default());
    let found = mirrored.found(&question, &["/few/file", "/few/another"])?.0;
    volume.rename(&who, few, b"another", few, b"file", RenameMode::Replace)?;
    if found.iter().map(|found| found.code).ne([Code::NotFound, Code::Success]) {
        return wrong(LOOKUP.name, format!("after a rename: {found:?}"));
    }
    Ok(())
}

fn warm(gpu: &Gpu, volume: &Volume, known: &Known) -> Result<()> {
    let mirrored = gpu.mirror(volume, &MirrorOptions::default())?;
    mirrored.warm()?;
    let missing = known.ask(&mirrored, WARM.name)?;
    if mirrored.cache_bytes() != 0 && missing * 1000 > known.paths.len() * MISSING {
        return wrong(
            WARM.name,
            format!("of {} paths {missing} do not find all in the cache", known.paths.len()),
        );
    }
    Ok(())
}

fn find(gpu: &Gpu, volume: &Volume, _: &Known) -> Result<()> {
    let mirrored = gpu.mirror(volume, &MirrorOptions { cache: 0.0, ..MirrorOptions::default() })?;
    let (who, root) = (Caller::OWNER, volume.root());
    let dir = volume.mkdir(&who, root, b"found", 0o755)?.ino;
    let make = |name: &str, size: usize, time: i64| -> Result<Ino> {
        let ino = volume.write_file(format!("/found/{name}"), vec![0; size])?.ino;
        volume.setattr(&who, ino, &SetAttr { mtime: Some(Time(time)), ..SetAttr::default() })?;
        Ok(ino)
    };
    // Each of the others differs from the first in one thing; the last one has a name only where nobody looks.
    let first = make("what is looked for", 7, -5)?;
    for name in
        ["what is looked fox", "xhat is looked for", "what is lookedfor", "what is looked for ", "what"]
    {
        make(name, 7, -5)?;
    }
    for (number, (size, time)) in [(6, -5), (8, -5), (7, -6), (7, -4), (7, 5)].into_iter().enumerate() {
        make(&format!("what is looked {number} for"), size, time)?;
    }
    volume.symlink(&who, dir, b"what is a link, looked for", b"a link.")?;
    let unnamed = volume.create_unnamed(&who, dir, 0o600)?.ino;
    let mut filter = Filter { kinds: vec![FileKind::File], size: 7..=7, mtime: -5..=-5, ..Filter::default() };
    let is_pattern = filter.names.and("[v-w]?a*lo*ked *f*r", false);
    let asked = mirrored.find(&filter)?;
    let files = Filter { kinds: vec![FileKind::File], ..Filter::default() };
    let all = mirrored.find(&files)?;
    volume.release(unnamed, 1)?;
    volume.remove_all_with(&who, root, b"found", |_, done| done)?;
    if !is_pattern || asked.0.iter().map(|entry| entry.ino).ne([first]) {
        return wrong(FIND.name, format!("one file is looked for: {:?}", asked.0));
    }
    if asked.1.by_host + all.1.by_host != 0 {
        return wrong(FIND.name, "leaf blocks were left to the host".into());
    }
    let (many, _) = volume.lookup(&who, root, b"many")?;
    let there = volume.readdir(&who, many, 0, 2 * MANY)?;
    let mut found = all.0.iter().filter(|entry| entry.dir == many);
    let is_found = |entry: &DirEntry| {
        found.next().is_some_and(|found| (found.ino, &found.name) == (entry.ino, &entry.name))
    };
    if !there.iter().all(is_found) || found.next().is_some() {
        return wrong(FIND.name, format!("{} files are not found as they are", there.len()));
    }
    Ok(())
}

fn leaves(gpu: &Gpu, volume: &Volume, _: &Known) -> Result<()> {
    let mirrored = gpu.mirror(volume, &MirrorOptions { cache: 0.0, ..MirrorOptions::default() })?;
    let who = Caller::OWNER;
    let mut dirs = vec![volume.root()];
    for name in ["many", "few", "links"] {
        dirs.push(volume.lookup(&who, volume.root(), name.as_bytes())?.0);
    }
    let (listed, report) = mirrored.list(&dirs, false);
    for (dir, listed) in dirs.iter().zip(listed) {
        let there = volume.readdir(&who, *dir, 0, 2 * MANY)?;
        if !listed?.iter().map(|one| &one.entry).eq(&there) {
            return wrong(LEAVES.name, format!("{} entries are not listed as they are", there.len()));
        }
    }
    if report.by_host != 0 {
        return wrong(LEAVES.name, format!("{} directories were left to the host", report.by_host));
    }
    Ok(())
}

fn stat(gpu: &Gpu, volume: &Volume, _: &Known) -> Result<()> {
    let mirrored = gpu.mirror(volume, &MirrorOptions { cache: 0.0, ..MirrorOptions::default() })?;
    let (dir, _) = volume.lookup(&Caller::OWNER, volume.root(), b"many")?;
    let inos: Vec<u64> =
        volume.readdir(&Caller::OWNER, dir, 0, 100)?.iter().map(|entry| entry.ino.0).chain([0]).collect();
    let cores = mirrored.with_mirror(|mirror| mirrored.cores_of(mirror, &inos))?;
    for (ino, core) in inos.iter().zip(cores) {
        let (found, there) = (Attr::of_inode(Ino(*ino), &core), volume.getattr(Ino(*ino)).ok());
        if found != there {
            return wrong(STAT.name, format!("inode {ino}: {found:?}, not {there:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanefs::format::{HashSeed, half_md4};

    #[test]
    fn the_two_names_have_the_same_hash() {
        let [one, other] = SAME_HASH.map(|name| half_md4(HashSeed::from_bytes(SEED), name.as_bytes()));
        assert_eq!(one, other);
    }
}
