//! Memory of the program on small files that claim to be huge: docs/security.md has the limit.

use crate::common::{TestVolume, ended, program, run, text};
use lanefs::format::superblock::Superblock;
use lanefs::format::{BLOCK, SUPERBLOCK_COPY};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;

/// Bytes of memory that a command may take beyond those that it takes on a small sound volume.
const MOST: u64 = 256 << 20;

/// Commands that are tried. IMAGE and DIR stand for the image or the publication, and a directory.
const READING: &[&str] = &[
    "ls -laR IMAGE /",
    "info IMAGE",
    "stat IMAGE /",
    "find IMAGE / --size +0",
    "du IMAGE -a /",
    "lookup IMAGE --engine cpu --stat / /a",
    "grep IMAGE -c a /",
    "dups IMAGE /",
    "cat IMAGE /a",
    "export IMAGE / DIR/tree",
    "export IMAGE / --tar DIR/all.tar",
    "scrub IMAGE",
    "fsck IMAGE --memory 64M",
    "publish IMAGE file://DIR/store#hostile --level 1",
];

/// Runs a command, and returns the peak of its resident memory in bytes.
fn memory_of(dir: &Path, image: &str, words: &str) -> u64 {
    let words = words.split(' ').map(|word| word.replace("DIR", text(dir)).replace("IMAGE", image));
    let peak = dir.join("peak");
    // The shell reads the peak of its child, which has ended, from the kernel's accounting of children.
    let mut child = program();
    child.args(words).args(["--cache", "32M"]);
    let status = child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child = status.expect("the program starts");
    let _ = peak;
    let used = wait(&child);
    ended(&mut child);
    used
}
