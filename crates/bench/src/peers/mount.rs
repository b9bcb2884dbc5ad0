//! File systems that the benchmark makes and mounts itself, as root.

use super::command::run_command;
use super::probe::{FileSystem, ext4_features, probe};
use super::{Host, Medium, Need};
use crate::machine::available_memory;
use crate::stop::Stop;
use crate::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Journal of an own ext4 in MiB: what mkfs gives the file system of a whole disk (128 GiB and more). The smaller one
/// that an image of this size would get makes ext4 wait for checkpoints.
const JOURNAL_MIB: u64 = 1024;

/// Times that an unmount is tried: a scanner of the desktop may hold a new mount for a moment.
const UNMOUNT_TRIES: u32 = 20;

/// Where Linux has a tmpfs that any program may use.
const MEMORY_DIRECTORY: &str = "/dev/shm";

/// A mount that ends with its value, whatever else happens.
#[derive(Debug)]
pub(super) struct Mount {
    /// Holds the mount point (and, while an image is being made, the image); dropped after the unmount.
    temp: TempDir,
}

impl Mount {
    fn point(&self) -> PathBuf {
        self.temp.path().join("mnt")
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Not stopped by Ctrl-C: this is what Ctrl-C is to bring about.
        let stop = Stop::default();
        let point = self.point();
        let point = point.to_string_lossy();
        let mut result = run_command("umount", &[&point], &stop);
        for _ in 1..UNMOUNT_TRIES {
            if result.is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
            result = run_command("umount", &[&point], &stop);
        }
        if let Err(error) = result {
            eprintln!("{error}; it is detached now and goes when its last user does");
            let _ = run_command("umount", &["-l", &point], &stop);
        }
    }
}

/// Makes an ext4 image with room for `need`, and mounts it through a loop device. The image loses its name as soon as
/// it is mounted, so its space is free again with the unmount even where this process is killed.
pub(super) fn ext4(need: Need, medium: Medium, stop: &Stop) -> Result<Host> {
    let (inodes, bytes) = image_size(need);
    let in_memory = medium == Medium::Memory && memory_has_room(bytes);
    let made = if in_memory {
        TempDir::with_prefix_in("lanefs-bench-", MEMORY_DIRECTORY)
    } else {
        TempDir::with_prefix("lanefs-bench-")
    };
    let temp = made.map_err(Error::host("a temporary directory"))?;
    let image = temp.path().join("ext4.img");
    check_room(temp.path(), bytes)?;
    let file = fs::File::create(&image).map_err(Error::host("an ext4 image"))?;
    file.set_len(bytes).map_err(Error::host("an ext4 image"))?;
    drop(file);
    let name = image.to_string_lossy();
    // Tables are written now rather than by a kernel thread while something is measured.
    let (inodes, journal) = (inodes.to_string(), format!("size={JOURNAL_MIB}"));
    let options = ["-q", "-F", "-b", "4096", "-I", "256", "-N", &inodes, "-J", &journal];
    let now = ["-E", "lazy_itable_init=0,lazy_journal_init=0", &name];
    run_command("mkfs.ext4", &[&options[..], &now[..]].concat(), stop)?;
    let about = ext4_features(&run_command("dumpe2fs", &["-h", &name], stop)?);
    let mount = mount(temp, &["-o", "loop", &name], stop)?;
    let _ = fs::remove_file(&image);
    Host::on_mount("ext4", &mount.point(), about, in_memory, mount)
}

/// Mounts a tmpfs without limits of its own.
pub(super) fn tmpfs(stop: &Stop) -> Result<Host> {
    let temp = TempDir::with_prefix("lanefs-bench-").map_err(Error::host("a temporary directory"))?;
    let mount = mount(temp, &["-t", "tmpfs", "-o", "size=90%,nr_inodes=0", "lanefs-bench"], stop)?;
    let about = FileSystem { kind: "tmpfs".into(), journal: None, inode_bytes: 0 };
    Host::on_mount("tmpfs", &mount.point(), about, true, mount)
}

fn mount(temp: TempDir, arguments: &[&str], stop: &Stop) -> Result<Mount> {
    let point = temp.path().join("mnt");
    fs::create_dir(&point).map_err(Error::host("a mount point"))?;
    run_command("mount", &[arguments, &[&point.to_string_lossy()]].concat(), stop)?;
    Ok(Mount { temp })
}

/// Inodes and bytes of an image for `need`: a tenth more, the tables, the journal, and room to breathe (mkfs refuses a
/// journal larger than half of its file system). The file is sparse.
fn image_size(need: Need) -> (u64, u64) {
    let inodes = need.inodes + need.inodes / 10 + 10_000;
    let bytes = need.bytes + need.bytes / 10 + inodes * 256 + 3 * (JOURNAL_MIB << 20);
    (inodes, bytes.next_multiple_of(1 << 20))
}

/// Whether an image may be kept in memory: at most half of what is available, as the caches of what is in it come to
/// the same again.
fn memory_has_room(bytes: u64) -> bool {
    let directory = Path::new(MEMORY_DIRECTORY);
    probe(directory).is_ok_and(|found| found.kind == "tmpfs")
        && check_room(directory, bytes).is_ok()
        && bytes <= available_memory() / 2
}

/// An image that outgrows its host would fail half-way, with an I/O error that names nothing.
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
        let need = Need { inodes: 1_000_000, bytes: 1 << 30 };
        let (inodes, bytes) = image_size(need);
        assert!(inodes > need.inodes);
        assert!(bytes > need.bytes + inodes * 256);
        assert_eq!(bytes % 4096, 0);
        let (_, smallest) = image_size(Need { inodes: 0, bytes: 0 });
        assert!(smallest > 2 * (JOURNAL_MIB << 20));
    }

    #[test]
    fn too_little_room_says_what_to_do() {
        let error = check_room(Path::new("/"), u64::MAX).unwrap_err().to_string();
        assert!(error.contains("TMPDIR"), "{error}");
    }
}
