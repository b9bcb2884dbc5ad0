//! The const assertions that tie constants together, seen to fail: a copy of the crate with one constant
//! changed does not compile.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A stand-in for the one dependency, whose numbers play no part in constants.
const CRC32C: &str =
    "pub fn crc32c(_: &[u8]) -> u32 { 0 }\npub fn crc32c_append(_: u32, _: &[u8]) -> u32 { 0 }\n";

/// File, text, the text in its place, and a part of the assertion that must refuse it.
const PLANTED: &[(&str, &str, &str, &str)] = &[
    ("geometry.rs", "CHUNK: u64 = 2 << 20", "CHUNK: u64 = 1 << 20", "a chunk's table has one entry"),
    (
        "geometry.rs",
        "CHUNKS_PER_GROUP: u64 = 63",
        "CHUNKS_PER_GROUP: u64 = 62",
        "a group's bitmap has one bit",
    ),
    ("geometry.rs", "MAX_MAP_DEPTH: u8 = 5", "MAX_MAP_DEPTH: u8 = 4", "reaches the end of the largest file"),
    (
        "geometry.rs",
        "MAX_FILE_SIZE: u64 = 1 << 57",
        "MAX_FILE_SIZE: u64 = 1 << 58",
        "reaches the end of the largest file",
    ),
    (
        "geometry.rs",
        "MAX_VOLUME: u64 = 1 << 51",
        "MAX_VOLUME: u64 = 1 << 52",
        "the position in a slot reaches",
    ),
    ("geometry.rs", "UNIT: u64 = 16", "UNIT: u64 = 8", "a leaf's bitmap has one bit"),
    ("numbers.rs", "        255", "        256", "the length of a name fits"),
    ("dir.rs", "REGION_MAX: usize = 256", "REGION_MAX: usize = 504", "a full region leaves free slots"),
    (
        "dir.rs",
        "REGION_MERGED: usize = 160",
        "REGION_MERGED: usize = 256",
        "a merged region does not divide again",
    ),
    ("dir.rs", "REGION_LOW: usize = 48", "REGION_LOW: usize = 90", "low on entries become one"),
    (
        "dir.rs",
        "TREE_MAX: usize = 255",
        "TREE_MAX: usize = 256",
        "a hash, a form and a position for each child",
    ),
    ("dir.rs", "MAX_TREE_LEVEL: u8 = 5", "MAX_TREE_LEVEL: u8 = 4", "a region for each hash"),
    ("dir.rs", "BUCKETS: usize = 63", "BUCKETS: usize = 64", "all of its slots"),
    ("dir.rs", "LEAF_ROOM: usize = 64", "LEAF_ROOM: usize = 16", "takes the longest name"),
    (
        "inodes.rs",
        "INODE_DEPTH_MASK: u16 = 0xf",
        "INODE_DEPTH_MASK: u16 = 0x3",
        "fits the flags of the inode",
    ),
    (
        "inodes.rs",
        "INODE_EXTENTS_MASK: u16 = 0xf << INODE",
        "INODE_EXTENTS_MASK: u16 = 0x7 << INODE",
        "the number of extents fits",
    ),
    (
        "inodes.rs",
        "INODE_EXTENTS_SHIFT: u32 = 12",
        "INODE_EXTENTS_SHIFT: u32 = 11",
        "flags of an inode do not overlap",
    ),
    ("inodes.rs", "B128 = 128", "B128 = 160", "fills the inode"),
    ("inodes.rs", "TAGS: u8, 16, 8;", "TAGS: u8, 16, 4;", "fields must"),
    (
        "journal.rs",
        "SEQUENCE: u64, 16;\n    /// Blocks of the commit before the record: descriptors, copies and revocations\n    BLOCKS: u64, 24;",
        "BLOCKS: u64, 16;\n    SEQUENCE: u64, 24;",
        "the number of a commit has one position",
    ),
];

/// Compiles the crate in a directory as far as types and constants; the compiler's messages where it refuses.
fn compile(directory: &Path, source: &str, name: &str, arguments: &[&str]) -> Result<(), String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .current_dir(directory)
        .args(["--edition=2024", "--crate-type=lib", "--emit=metadata", "--cap-lints=allow", "--out-dir=."])
        .args(["-Lnative=.", "-L.", "--crate-name", name, source])
        .args(arguments)
        .output()
        .expect("rustc runs");
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// A copy of the crate's sources, in a directory of its own.
fn copy(directory: &Path) {
    let sources = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src");
    for file in std::fs::read_dir(sources).expect("src") {
        let file = file.expect("a source file").path();
        std::fs::copy(&file, directory.join(file.file_name().expect("a name"))).expect("a copy");
    }
    std::fs::write(directory.join("crc32c.rs"), CRC32C).expect("a stand-in");
    compile(directory, "crc32c.rs", "crc32c", &[]).expect("the stand-in compiles");
}

fn format(directory: &Path) -> Result<(), String> {
    compile(directory, "lib.rs", "lanefs_format", &["--extern", "crc32c"])
}

#[test]
fn constants_that_contradict_each_other_do_not_compile() {
    let directory = std::env::temp_dir().join(format!("lanefs-ties-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    copy(&directory);
    format(&directory).expect("the crate as it is compiles");
    for (file, text, planted, assertion) in PLANTED {
        let path = directory.join(file);
        let source = std::fs::read_to_string(&path).expect("a source file");
        assert_eq!(source.matches(text).count(), 1, "`{text}` in {file}");
        std::fs::write(&path, source.replace(text, planted)).expect("a changed copy");
        let errors = format(&directory).expect_err(&format!("`{planted}` compiles"));
        assert!(errors.contains(assertion), "`{planted}` is refused, but not by `{assertion}`:\n{errors}");
        std::fs::write(&path, source).expect("the copy as it was");
    }
    std::fs::remove_dir_all(&directory).expect("the directory goes");
}
