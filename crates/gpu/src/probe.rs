//! What each kernel is asked before a device is used: a small volume, and paths whose answers are known.

use crate::engine::{Batch, Gpu};
use crate::error::{Error, Result};
use crate::kernels::LOOKUP;
use crate::twin::lookup::{Found, Question};
use lanefs::format::{Code, FileKind};
use lanefs::{Caller, CreateOptions, InodeSize, Volume};
use std::time::{Duration, Instant};

/// Files of the large directory: several regions, so a tree.
const MANY: usize = 4000;

/// The volume's hash seed, and two names that have the same hash with it: only a comparison of names tells them apart.
const SEED: [u8; 16] = [7; 16];
const SAME_HASH: [&str; 2] = ["collision-0061688", "collision-0088900"];

/// Probes every kernel.
pub(crate) fn all(gpu: &Gpu) -> Result<Vec<(&'static str, Duration)>> {
    let mut times = Vec::new();
    for size in [InodeSize::B128, InodeSize::B256] {
        let begin = Instant::now();
        lookup(gpu, size)?;
        times.push((LOOKUP.name, begin.elapsed()));
    }
    times.dedup_by(|more, first| {
        first.1 += more.1;
        more.0 == first.0
    });
    Ok(times)
}

fn lookup(gpu: &Gpu, inode_size: InodeSize) -> Result<()> {
    let options = CreateOptions { size: 16 << 20, inode_size, seed: Some(SEED), ..CreateOptions::default() };
    let volume = Volume::create_memory(&options)?;
    let who = Caller::OWNER;
    let root = volume.root();
    let (mut paths, mut expected) = (Vec::new(), Vec::new());
    let mut expect = |path: String, code: Code, found: Option<(FileKind, u64)>| {
        let (kind, ino) = found.map_or((0, 0), |(kind, ino)| (kind as u32, ino));
        paths.push(path);
        expected.push(Found { code, kind, ino });
    };
    let many = volume.mkdir(&who, root, b"many", 0o755)?.ino;
    for number in 0..MANY {
        let name = format!("a file of many with the number {number:0width$}", width = number % 60);
        let made = volume.create_file(&who, many, name.as_bytes(), 0o644)?.ino;
        // All of them: the lowest of a region tells a wrong step in the tree.
        expect(format!("/many/{name}"), Code::Success, Some((FileKind::File, made.0)));
        if number % 7 == 0 {
            expect(format!("/many/not {name}"), Code::NotFound, None);
        }
    }
    let [there, not_there] = SAME_HASH;
    let made = volume.create_file(&who, many, there.as_bytes(), 0o644)?.ino;
    expect(format!("/many/{there}"), Code::Success, Some((FileKind::File, made.0)));
    expect(format!("/many/{not_there}"), Code::NotFound, None);
    let few = volume.mkdir(&who, root, b"few", 0o755)?.ino;
    let link = volume.symlink(&who, few, b"link", b"elsewhere")?.ino;
    expect("//few/./../few/link".into(), Code::Success, Some((FileKind::Symlink, link.0)));
    expect("/few/link/".into(), Code::NotResident, None);
    expect("few//".into(), Code::Success, Some((FileKind::Directory, few.0)));
    expect("/".into(), Code::Success, Some((FileKind::Directory, root.0)));
    expect(String::new(), Code::NotFound, None);
    expect("/none/file".into(), Code::ComponentNotFound, None);
    let file = volume.create_file(&who, few, b"file", 0o644)?.ino;
    expect("/few/file".into(), Code::Success, Some((FileKind::File, file.0)));
    expect("/few/file/".into(), Code::NotDirectory, None);
    expect("/few/file/more".into(), Code::NotDirectory, None);
    expect(format!("/few/{}", "n".repeat(256)), Code::NotResident, None);

    let mut mirrored = gpu.mirror(&volume, None)?;
    let superblock = volume.superblock();
    let question = Question { root: root.0, base: root.0, seed: superblock.seed, inode_size, follow: false };
    let found = mirrored.found(&question, &paths)?;
    for ((path, expected), found) in paths.iter().zip(expected).zip(found) {
        if found != expected {
            let what =
                format!("{path:?} with inodes of {} B: {found:?}, not {expected:?}", inode_size.bytes());
            return Err(Error::Wrong { kernel: LOOKUP.name, what });
        }
    }
    Ok(())
}

impl crate::engine::Mirrored<'_, '_> {
    /// What the lookup kernel itself answers, for probes and proofs.
    ///
    /// # Errors
    /// The device's.
    pub fn found<P: AsRef<[u8]>>(&mut self, question: &Question, paths: &[P]) -> Result<Vec<Found>> {
        let (table, kernel, device) = self.ready()?;
        let text = paths.iter().map(|path| path.as_ref().len() as u64).sum();
        let mut batch = Batch::new(device, paths.len(), text, false)?;
        batch.fill(paths);
        batch.run(kernel, table, question, false)?;
        Ok((0..paths.len()).map(|i| batch.found(i)).collect())
    }
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
