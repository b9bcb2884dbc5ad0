//! A volume as `std::fs`: each step stands beside the call of the standard library in docs/rust.md.

use lanefs::{CreateOptions, ErrorKind, File, FileMode, Volume};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let volume = Volume::create_memory(&CreateOptions { size: 64 << 20, ..CreateOptions::default() })?;

    // Directories and whole files. A file that is replaced has its old content or the new one, at any moment.
    volume.mkdir_all("/data/2026", 0o755)?;
    volume.write_file("/data/2026/a.txt", "one\ntwo\n")?;
    volume.write_file(Path::new("/data/2026/b.txt"), b"three")?;
    assert_eq!(volume.read_file("/data/2026/a.txt")?, b"one\ntwo\n");

    // Names.
    volume.rename("/data/2026/b.txt", "/data/c.txt")?;
    volume.hard_link("/data/c.txt", "/data/d.txt")?;
    volume.symlink("c.txt", "/data/link")?;
    assert_eq!(volume.read_link("/data/link")?, b"c.txt");
    assert_eq!(volume.metadata("/data/link")?.links, 2);
    let mut names = Vec::new();
    for entry in volume.read_dir("/data")? {
        names.push(String::from_utf8_lossy(&entry?.name).into_owned());
    }
    names.sort();
    assert_eq!(names, ["2026", "c.txt", "d.txt", "link"]);

    // Attributes.
    volume.set_permissions("/data/c.txt", 0o600)?;
    volume.set_xattr("/data/c.txt", "user.origin", "example")?;
    assert_eq!(volume.xattr("/data/d.txt", "user.origin")?, b"example");

    // Open files have the traits of the standard library.
    let mut file = File::create(&volume, "/data/log")?;
    writeln!(file, "a line")?;
    file.seek(SeekFrom::Start(2))?;
    let mut rest = String::new();
    file.read_to_string(&mut rest)?;
    assert_eq!(rest, "line\n");
    let mut log = FileMode::default().append(true).open(&volume, "/data/log")?;
    log.write_all(b"another one\n")?;
    let lines: Result<Vec<String>, _> = BufReader::new(File::open(&volume, "/data/log")?).lines().collect();
    assert_eq!(lines?, ["a line", "another one"]);

    // Errors have a kind, and become those of the standard library.
    let error = volume.remove_file("/data/none").expect_err("there is no such file");
    assert!(error.is_not_found() && error.kind() == ErrorKind::NotFound);
    assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::NotFound);

    drop((file, log));
    volume.remove_all("/data")?;
    assert!(!volume.exists("/data")?);
    volume.close()?;
    Ok(())
}
