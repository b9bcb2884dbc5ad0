//! Open files and their attributes.

use super::{pattern, refused};
use crate::engine::Stamp;
use crate::posix::{PosixFs, User};
use lanefs::{SetAttr, Time};
use rustix::fs::OFlags;
use rustix::io::Errno;

const ROOT: User = User::ROOT;

/// A file without a name keeps its content, takes more, and its inode is not used again.
pub fn an_open_file_lives_on_without_a_name(fs: &impl PosixFs) {
    let file = fs.open(&ROOT, "f", OFlags::CREATE | OFlags::RDWR, 0o644).expect("create");
    assert_eq!(fs.write(&ROOT, &file, 0, b"here"), Ok(4));
    fs.unlink("f").expect("unlink");
    assert_eq!(refused(fs.stat("f")), Errno::NOENT);
    for number in 0..100 {
        fs.make(&number.to_string(), 0o644, &[b'x'; 5000]);
    }
    assert_eq!(fs.write(&ROOT, &file, 4, b" and there"), Ok(10));
    assert_eq!(fs.read(&file, 0, 100).expect("read"), b"here and there");
    assert_eq!(fs.fstat(&file).expect("fstat").links, 0);
}

/// A directory that was removed while somebody has it open takes no names.
pub fn nothing_is_made_in_a_directory_without_a_name(fs: &impl PosixFs) {
    fs.mkdir(&ROOT, "d", 0o755).expect("mkdir");
    let dir = fs.open(&ROOT, "d", OFlags::RDONLY | OFlags::DIRECTORY, 0).expect("open");
    fs.rmdir("d").expect("rmdir");
    fs.mkdir(&ROOT, "e", 0o755).expect("mkdir");
    assert_eq!(fs.fstat(&dir).expect("fstat").links, 0);
    assert_eq!(refused(fs.mkdir(&ROOT, "d/g", 0o755)), Errno::NOENT);
    assert_ne!(fs.fstat(&dir).expect("fstat").id, fs.stat("e").expect("stat").id, "it is not used again");
}

/// Two writers with `O_APPEND` write after each other, whatever the other has written.
pub fn appending_writers_follow_each_other(fs: &impl PosixFs) {
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::APPEND;
    let [one, two] = [(); 2].map(|()| fs.open(&ROOT, "f", flags, 0o644).expect("open"));
    for (file, text) in [(&one, "a"), (&two, "bb"), (&one, "ccc"), (&two, "d")] {
        assert_eq!(fs.append(&ROOT, file, text.as_bytes()), Ok(text.len()));
    }
    assert_eq!(fs.content("f"), b"abbcccd");
}

/// `O_CREAT`, `O_EXCL` and `O_TRUNC` do what open(2) says.
pub fn opening_makes_truncates_and_refuses(fs: &impl PosixFs) {
    assert_eq!(refused(fs.open(&ROOT, "f", OFlags::RDONLY, 0)), Errno::NOENT);
    fs.make("f", 0o644, &pattern(10_000));
    assert_eq!(refused(fs.open(&ROOT, "f", OFlags::CREATE | OFlags::EXCL, 0o600)), Errno::EXIST);
    let id = fs.stat("f").expect("stat").id;
    let file = fs.open(&ROOT, "f", OFlags::CREATE | OFlags::RDWR, 0o600).expect("open");
    let stat = fs.fstat(&file).expect("fstat");
    assert_eq!((stat.id, stat.size, stat.perm), (id, 10_000, 0o644), "the file that is there");
    let file = fs.open(&ROOT, "f", OFlags::TRUNC | OFlags::RDWR, 0).expect("open");
    assert_eq!(fs.fstat(&file).expect("fstat").size, 0);
    fs.set(&ROOT, "f", &SetAttr { size: Some(5000), ..SetAttr::default() }).expect("truncate");
    assert_eq!(fs.read(&file, 0, 9000).expect("read"), [0; 5000], "a file grows by zeros");
    let long = "n".repeat(256);
    assert_eq!(refused(fs.open(&ROOT, &long, OFlags::CREATE | OFlags::RDWR, 0o644)), Errno::NAMETOOLONG);
}

/// Times before and after 1970 come back as they were set.
pub fn times_are_kept_to_the_nanosecond(fs: &impl PosixFs) {
    fs.make("f", 0o644, b"");
    for (seconds, nanoseconds) in
        [(0, 0), (1, 1), (-1, 999_999_999), (-2, 1), (-3_000_000_000, 0), (5_000_000_000, 7)]
    {
        let time = Time::from_parts(seconds, nanoseconds);
        let set = SetAttr { atime: Some(time), mtime: Some(time), ..SetAttr::default() };
        fs.set(&ROOT, "f", &set).expect("utimensat");
        assert_eq!(fs.stat("f").expect("stat").times[..2], [Stamp::Exactly(time); 2]);
    }
}
