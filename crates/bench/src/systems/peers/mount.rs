//! File systems that the benchmark makes and mounts itself, as root.

use super::command::run_command;
use super::mount_guard::MountGuard;
use super::probe::{FileSystem, ext4_features, probe};
use super::{Host, Medium, SpaceRequest};
use crate::error::{Error, Result};
use crate::measure::machine::available_memory;
use crate::measure::stop::Stop;
use crate::systems::temporary::temp_dir;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Journal of the benchmark's ext4 in MiB, as mkfs sizes it for a whole disk (128 GiB and more). The smaller
/// default for an image of this size makes ext4 wait for checkpoints.
const JOURNAL_MIB: u64 = 1024;

/// Directory of a tmpfs that any program may use.
const MEMORY_DIRECTORY: &str = "/dev/shm";

/// Makes an ext4 image with room for `need`, and mounts it through a loop device. The image is unlinked as
/// soon as it is mounted, so the unmount frees its space even if this process is killed.
pub(super) fn ext4(need: SpaceRequest, medium: Medium, stop: &Stop) -> Result<Host> {
    let (inodes, bytes) = image_size(need);
    let (temp, in_memory) = directory_for_image(bytes, medium)?;
    let image = temp.path().join("ext4.img");
    let file = fs::File::create(&image).map_err(Error::host("an ext4 image"))?;
    file.set_len(bytes).map_err(Error::host("an ext4 image"))?;
    drop(file);
    let name = image.to_string_lossy();
    // The tables are written now, and not by a kernel thread during a measurement.
    let (inodes, journal) = (inodes.to_string(), format!("size={JOURNAL_MIB}"));
    let options = ["-q", "-F", "-b", "4096", "-I", "256", "-N", &inodes, "-J", &journal];
    let now = ["-E", "lazy_itable_init=0,lazy_journal_init=0", &name];
    run_command("mkfs.ext4", &[&options[..], &now[..]].concat(), stop)?;
    let about = ext4_features(&run_command("dumpe2fs", &["-h", &name], stop)?);
    let mount = mount(temp, &["-o", "loop", &name], stop)?;
    let _ = fs::remove_file(&image);
    Host::on_mount("ext4", &mount.point(), about, in_memory, mount)
}

/// Mounts a tmpfs without limits on inodes.
pub(super) fn tmpfs(stop: &Stop) -> Result<Host> {
    let temp = temp_dir()?;
    let mount = mount(temp, &["-t", "tmpfs", "-o", "size=90%,nr_inodes=0", "lanefs-bench"], stop)?;
    let about = FileSystem { kind: "tmpfs".into(), journal: None, inode_bytes: 0 };
    Host::on_mount("tmpfs", &mount.point(), about, true, mount)
}

/// Makes a directory with room for an image: in memory if the medium is, and it has room. Returns whether it
/// is.
pub(super) fn directory_for_image(bytes: u64, medium: Medium) -> Result<(TempDir, bool)> {
    let in_memory = medium == Medium::Memory && memory_has_room(bytes);
    let made = if in_memory {
        TempDir::with_prefix_in("lanefs-bench-", MEMORY_DIRECTORY)
    } else {
        TempDir::with_prefix("lanefs-bench-")
    };
    let temp = made.map_err(Error::host("a temporary directory"))?;
    check_room(temp.path(), bytes)?;
    Ok((temp, in_memory))
}

/// Mounts on a new directory in `temp`.
pub(super) fn mount(temp: TempDir, arguments: &[&str], stop: &Stop) -> Result<MountGuard> {
    let point = temp.path().join("mnt");
    fs::create_dir(&point).map_err(Error::host("a mount point"))?;
    run_command("mount", &[arguments, &[&point.to_string_lossy()]].concat(), stop)?;
    Ok(MountGuard { temp })
}

/// Returns inodes and bytes of an image for `need`: a tenth more, the tables, the journal, and a reserve
/// (mkfs refuses a journal larger than half of its file system). The file is sparse.
fn image_size(need: SpaceRequest) -> (u64, u64) {
    let inodes = need.inodes + need.inodes / 10 + 10_000;
    let bytes = need.bytes + need.bytes / 10 + inodes * 256 + 3 * (JOURNAL_MIB << 20);
    (inodes, bytes.next_multiple_of(1 << 20))
}

/// Returns whether an image fits memory: at most half of the available memory, because the caches of its
/// contents take as much again.
fn memory_has_room(bytes: u64) -> bool {
    let directory = Path::new(MEMORY_DIRECTORY);
    probe(directory).is_ok_and(|found| found.kind == "tmpfs")
        && check_room(directory, bytes).is_ok()
        && bytes <= available_memory() / 2
}

/// Fails if a directory has too little room: an image that outgrows its host fails half-way, with an I/O
/// error that names no cause.
fn check_room(directory: &Path, bytes: u64) -> Result<()> {
    let space = rustix::fs::statvfs(directory).map_err(Error::host(directory.display().to_string()))?;
    let free = space.f_bavail * space.f_frsize;
    if free >= bytes {
        return Ok(());
    }
    let (needed, free, at) = (bytes >> 20, free >> 20, directory.parent().unwrap_or(directory).display());
    Err(Error::Arguments(format!(
        "its image needs {needed} MiB and {at} has {free} MiB free; set TMPDIR to a directory with more room"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_more_room_than_asked_for() {
        let need = SpaceRequest { inodes: 1_000_000, bytes: 1 << 30 };
        let (inodes, bytes) = image_size(need);
        assert!(inodes > need.inodes);
        assert!(bytes > need.bytes + inodes * 256);
        assert_eq!(bytes % 4096, 0);
        let (_, smallest) = image_size(SpaceRequest { inodes: 0, bytes: 0 });
        assert!(smallest > 2 * (JOURNAL_MIB << 20));
    }

    #[test]
    fn too_little_room_says_what_to_do() {
        let error = check_room(Path::new("/"), u64::MAX).unwrap_err().to_string();
        assert!(error.contains("TMPDIR"), "{error}");
    }
}
