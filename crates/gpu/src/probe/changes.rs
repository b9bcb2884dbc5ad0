//! Probes of the kernels that change directories: known names, and random batches, whose results must be
//! the twins'.

use super::known::{KnownPaths, wrong};
use crate::error::Result;
use crate::kernels::context::DeviceContext;
use crate::kernels::{SEEK, names_probed_by};
use crate::lookups::mirrored::{MirrorOptions, Mirrored};
use crate::probe::random_batches::Maker;
use crate::twin::KernelSettings;
use crate::twin::change::{rebuilt, seen};
use crate::twin::host::HostCopy;
use lanefs::bulk::{DirEngine, LookupRequest, Rebuilt, Undecided};
use lanefs::format::Code;
use lanefs::{Caller, Ino, Volume};

/// Batches of the probe.
const BATCHES: u64 = 4;

fn setting(context: &DeviceContext, volume: &Volume) -> KernelSettings {
    let superblock = volume.superblock();
    KernelSettings {
        seed: superblock.seed,
        inode_size: superblock.inode_size,
        fuel: context.fuel(),
        workgroup: context.kernels.gather.workgroup,
    }
}

/// Makes a copy of the volume's metadata, and a mirror.
fn begin<'v>(context: &DeviceContext, volume: &'v Volume) -> Result<(HostCopy, Mirrored<'v>)> {
    let copy = HostCopy::of(volume)?;
    Ok((copy, Mirrored::new(context, volume, &MirrorOptions { cache: 0.0, ..MirrorOptions::default() })?))
}

pub(crate) fn seek(context: &DeviceContext, volume: &Volume, known: &KnownPaths) -> Result<()> {
    let (copy, mirrored) = begin(context, volume)?;
    let setting = setting(context, volume);
    let mut asked = vec![(LookupRequest { dir: 0, name: b"in a directory to be made" }, Some(None))];
    // No directory.
    asked.push((LookupRequest { dir: u64::MAX / 3, name: b"anything" }, None));
    for dir in ["many", "few", "links"] {
        let (ino, _) = volume.lookup(&Caller::OWNER, volume.root(), dir.as_bytes())?;
        for (path, found) in known.paths.iter().zip(&known.answers) {
            let name = path.strip_prefix(&format!("/{dir}/")).filter(|name| !name.contains('/'));
            if let Some(name) = name.filter(|name| name.len() < 200)
                && matches!(found.code, Code::Success | Code::NotFound)
            {
                let request = LookupRequest { dir: ino.0, name: name.as_bytes() };
                let entry = (found.code == Code::Success).then_some((found.ino, found.kind));
                asked.push((request, Some(entry)));
            }
        }
    }
    let mut changes = mirrored.changes();
    let names: Vec<LookupRequest<'_>> = asked.iter().map(|(request, _)| *request).collect();
    let found = changes.refresh().and_then(|()| changes.seek_each(&names));
    drop(changes);
    let found = answered(&mirrored, SEEK, found)?;
    for ((request, expected), found) in asked.iter().zip(found) {
        let entry = found.map(|seen| seen.entry.map(|(_, ino, kind)| (ino, kind as u32)));
        if entry != *expected || found != seen(&copy, &setting, request) {
            return wrong(SEEK, format!("{request:?}: {found:?}"));
        }
    }
    Ok(())
}

pub(crate) fn rebuild(context: &DeviceContext, volume: &Volume, _: &KnownPaths) -> Result<()> {
    let kernels = names_probed_by("changes::rebuild");
    let caller = Caller::OWNER;
    let empty = volume.mkdir(&caller, volume.root(), b"empty", 0o755)?.ino;
    let (copy, mirrored) = begin(context, volume)?;
    let setting = setting(context, volume);
    let mut dirs = vec![empty, volume.root()];
    for dir in ["many", "few", "links"] {
        dirs.push(volume.lookup(&caller, volume.root(), dir.as_bytes())?.0);
    }
    for seed in 0..BATCHES {
        let mut maker = Maker::new(&copy, setting.inode_size, seed);
        for Ino(dir) in &dirs {
            maker.add(dir * setting.inode_size.bytes());
        }
        let batch = maker.batch();
        let expected = sorted(rebuilt(&copy, &setting, &batch));
        let mut changes = mirrored.changes();
        let found = changes.refresh().and_then(|()| sorted(changes.rebuild(&batch)));
        drop(changes);
        if mirrored.failure().is_some() {
            return answered(&mirrored, &kernels, found).map(drop);
        }
        if found != expected {
            return wrong(&kernels, format!("batch {seed} of {} tasks", batch.tasks.len()));
        }
    }
    volume.rmdir(&caller, volume.root(), b"empty")?;
    Ok(())
}

/// Returns an answer, or the device's failure.
fn answered<T>(
    mirrored: &Mirrored<'_>,
    kernel: &str,
    answer: std::result::Result<T, Undecided>,
) -> Result<T> {
    match answer {
        Ok(answer) => Ok(answer),
        Err(Undecided) => wrong(kernel, mirrored.failure().unwrap_or_else(|| "no answer".into())),
    }
}

/// Sorts the words.
fn sorted(rebuilt: std::result::Result<Rebuilt, Undecided>) -> std::result::Result<Rebuilt, Undecided> {
    rebuilt.map(|mut rebuilt| {
        rebuilt.words.sort_unstable();
        rebuilt
    })
}
