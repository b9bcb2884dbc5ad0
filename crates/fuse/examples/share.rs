//! A program that mounts its volume and goes on using it. It needs /dev/fuse, and root or `fusermount3`.

use lanefs::{CreateOptions, Volume};
use lanefs_fuse::{Mount, Options};
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = CreateOptions { size: 64 << 20, ..CreateOptions::default() };
    let volume = Arc::new(Volume::create_memory(&options)?);
    let dir = tempfile::tempdir()?;
    let mount = Mount::start(Arc::clone(&volume), dir.path(), &Options::default())?;

    // Other programs use the directory; this one the volume.
    std::fs::write(dir.path().join("by-mount"), "one")?;
    assert_eq!(volume.read_file("/by-mount")?, b"one");
    volume.write_file("/by-library", "two")?;
    assert_eq!(std::fs::read(dir.path().join("by-library"))?, b"two");

    mount.stop()?;
    assert_eq!(volume.read_dir("/")?.count(), 2);
    Ok(())
}
