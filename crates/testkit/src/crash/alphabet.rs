//! The alphabet of short workloads, and the tree that they start from.
//!
//! The tree has a file of several blocks with two names, one that fits into its inode, a symbolic link, an
//! empty and a full directory. The operations meet all of them, each in the ways that differ for a journal:
//! names that are added, removed, moved and exchanged, within a directory and across; content that grows, is
//! overwritten, truncated and punched, in the inode and in blocks.

use super::op::{CrashOp, some_attributes};
use lanefs::{Allocate, RenameMode};

/// Files of the prepared tree, and their sizes.
pub(super) const FILES: [(&str, usize); 4] =
    [("/a/file", 13_000), ("/a/small", 60), ("/b/file", 20_000), ("/b/full/x", 500)];
/// Its directories.
pub(super) const DIRECTORIES: [&str; 4] = ["/a", "/b", "/a/sub", "/b/full"];
/// A name that it has from the start as a link to the first file.
pub(super) const HARD_LINK: &str = "/b/hard";
/// Its symbolic link.
pub(super) const SYMLINK: (&str, &str) = ("/b/sym", "../a/file");
/// An extended attribute of the first file.
pub(super) const XATTR: &str = "user.old";

fn path(text: &str) -> String {
    text.to_owned()
}

fn names() -> Vec<CrashOp> {
    let rename = |from: &str, to: &str, mode| CrashOp::Rename(path(from), path(to), mode);
    let replace = |from: &str, to: &str| rename(from, to, RenameMode::Replace);
    let exchange = |from: &str, to: &str| rename(from, to, RenameMode::Exchange);
    let whiteout = |from: &str, to: &str| rename(from, to, RenameMode::Whiteout);
    let long = "/a/".to_owned() + &"n".repeat(200);
    vec![
        CrashOp::Create(path("/a/new")),
        CrashOp::Create(path("/b/new")),
        CrashOp::Create(long),
        CrashOp::Whole(path("/a/new"), 100),
        CrashOp::Whole(path("/b/new"), 9000),
        CrashOp::Whole(path("/b/full/new"), 40_000),
        CrashOp::Mkdir(path("/a/newdir")),
        CrashOp::Mkdir(path("/b/full/newdir")),
        CrashOp::Symlink(path("/a/new"), path("file")),
        CrashOp::Symlink(path("/b/new"), "t".repeat(500)),
        CrashOp::Link(path("/a/file"), path("/b/new")),
        CrashOp::Link(path("/a/small"), path("/a/new")),
        CrashOp::Unlink(path("/a/file")),
        CrashOp::Unlink(path("/b/hard")),
        CrashOp::Unlink(path("/b/file")),
        CrashOp::Unlink(path("/a/small")),
        CrashOp::Unlink(path("/b/sym")),
        CrashOp::Unlink(path("/a/new")),
        CrashOp::Rmdir(path("/a/sub")),
        CrashOp::Rmdir(path("/a/newdir")),
        CrashOp::Hold(path("/b/file")),
        CrashOp::Hold(path("/a/sub")),
        CrashOp::Orphan(path("/a/file")),
        CrashOp::Orphan(path("/b/hard")),
        CrashOp::Orphan(path("/b/file")),
        CrashOp::Orphan(path("/a/small")),
        CrashOp::Orphan(path("/a/sub")),
        CrashOp::WriteOrphan(3000, 6000),
        CrashOp::Release,
        replace("/a/file", "/a/new"),
        replace("/a/new", "/a/file"),
        replace("/a/file", "/b/file"),
        replace("/a/small", "/a/file"),
        replace("/b/file", "/b/full/x"),
        replace("/b/sym", "/a/new"),
        replace("/a/sub", "/b/moved"),
        replace("/b/full", "/a/sub"),
        replace("/b/full", "/a/newdir"),
        exchange("/a/file", "/b/file"),
        exchange("/a/small", "/a/sub"),
        exchange("/a/sub", "/b/full"),
        exchange("/a/file", "/a/small"),
        whiteout("/a/file", "/a/new"),
        whiteout("/a/small", "/b/file"),
        whiteout("/a/sub", "/b/moved"),
    ]
}

fn content() -> Vec<CrashOp> {
    let write = |file: &str, at: u64, len| CrashOp::Write(path(file), Some(at), len);
    let append = |file: &str, len| CrashOp::Write(path(file), None, len);
    let cut = |file: &str, size| CrashOp::Truncate(path(file), size);
    let allocate = |file: &str, mode, at, len| CrashOp::Fallocate(path(file), mode, at, len);
    vec![
        append("/a/file", 3000),
        append("/a/small", 20),
        append("/a/small", 200),
        append("/a/new", 50),
        append("/a/new", 6000),
        append("/b/full/x", 100),
        write("/a/file", 100, 5000),
        write("/a/file", 4096, 4096),
        write("/a/file", 30_000, 700),
        write("/a/small", 10, 20),
        write("/a/small", 5000, 30),
        write("/b/file", 0, 20_000),
        write("/b/hard", 8000, 6000),
        cut("/a/file", 0),
        cut("/a/file", 5000),
        cut("/a/file", 12_000),
        cut("/a/file", 40_000),
        cut("/a/small", 0),
        cut("/a/small", 30),
        cut("/a/small", 3000),
        cut("/a/new", 10_000),
        cut("/b/file", 8192),
        allocate("/a/file", Allocate::Extend, 13_000, 8000),
        allocate("/a/file", Allocate::KeepSize, 16_384, 8192),
        allocate("/a/file", Allocate::PunchHole, 4096, 4096),
        allocate("/a/file", Allocate::PunchHole, 1000, 6000),
        allocate("/a/file", Allocate::ZeroRange, 2000, 9000),
        allocate("/a/small", Allocate::Extend, 0, 9000),
        allocate("/a/file", Allocate::CollapseRange, 0, 4096),
        allocate("/a/file", Allocate::InsertRange, 4096, 8192),
        allocate("/b/file", Allocate::CollapseRange, 4096, 8192),
        allocate("/b/file", Allocate::PunchHole, 0, 20_000),
        allocate("/b/file", Allocate::ZeroRange, 0, 24_000),
        CrashOp::Copy(path("/b/file"), 0, path("/a/file"), 0, 20_000),
        CrashOp::Copy(path("/a/file"), 100, path("/b/file"), 5000, 12_000),
        CrashOp::Copy(path("/b/file"), 0, path("/a/small"), 0, 20_000),
        CrashOp::Copy(path("/a/small"), 0, path("/b/file"), 20_000, 60),
    ]
}

fn attributes() -> Vec<CrashOp> {
    vec![
        CrashOp::SetAttr(path("/a/file"), some_attributes(3)),
        CrashOp::SetAttr(path("/b/full"), some_attributes(1)),
        CrashOp::SetAttr(path("/b/sym"), some_attributes(2)),
        CrashOp::SetXattr(path("/a/file"), "user.new", 20),
        CrashOp::SetXattr(path("/a/file"), XATTR, 3000),
        CrashOp::SetXattr(path("/a/sub"), "user.new", 100),
        CrashOp::SetXattr(path("/a/small"), "user.new", 9000),
        CrashOp::RemoveXattr(path("/a/file"), XATTR),
    ]
}

/// Every operation of the alphabet.
pub(super) fn alphabet() -> Vec<CrashOp> {
    let mut all = names();
    all.extend(content());
    all.extend(attributes());
    all
}
