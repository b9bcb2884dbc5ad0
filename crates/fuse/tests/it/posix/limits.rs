//! Bounds that the kernel and the file system share: limits of a process, ends of files, kinds of files. The
//! host's own file system is the oracle.

use crate::posix::support::{Mounted, host_directory};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::process::Command;

/// Runs a shell script in a directory; returns its output, errors included.
fn output(dir: &Path, script: &str) -> String {
    let all = format!("exec 2>&1\n{script}");
    let shell = Command::new("sh").args(["-c", &all]).current_dir(dir).env("LC_ALL", "C").output().unwrap();
    String::from_utf8(shell.stdout).unwrap()
}

#[test]
fn a_limit_of_file_sizes_holds_for_each_way_to_grow_a_file() {
    // dash counts in units of 512 bytes. A process that ignores the signal gets an error.
    let script = "trap '' XFSZ
        head -c 1000 /dev/zero > old; head -c 9000 /dev/zero > large
        ulimit -f 4
        head -c 4096 /dev/zero > written; echo $?; stat -c %s written
        truncate -s 2048 old; echo $?; truncate -s 2049 old; echo $?; stat -c %s old
        truncate -s 5000 large; echo $?; stat -c %s large
        fallocate -l 2048 allocated; echo $?; fallocate -l 4096 allocated; echo $?; stat -c %s allocated
        fallocate -n -l 8192 kept; echo $?; stat -c %s kept
        dd if=/dev/zero of=sparse bs=1 count=1 seek=2048 status=none; echo $?; stat -c %s sparse
        dd if=/dev/zero of=direct oflag=direct bs=4096 count=1 status=none; echo $?; stat -c %s direct";
    let (m, host) = (Mounted::new(), host_directory());
    let (seen, expected) = (output(m.dir.path(), script), output(host.path(), script));
    assert!(expected.contains("File too large"), "{expected}");
    assert_eq!(seen, expected);
    m.end();
}

/// Returns the result of `copy_file_range` in every odd case, and the sizes afterwards.
fn odd_copies(dir: &Path) -> Vec<String> {
    let mut all = Vec::new();
    let path = |name: &str| dir.join(name);
    fs::write(path("from"), [7; 10_000]).unwrap();
    fs::create_dir(path("d")).unwrap();
    rustix::fs::mknodat(CWD, path("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let both = || OpenOptions::new().read(true).write(true).create(true).truncate(false).to_owned();
    let mut copy = |what: &str, from: &File, mut read: u64, to: &File, mut write: u64, len: usize| {
        let done = rustix::fs::copy_file_range(from, Some(&mut read), to, Some(&mut write), len);
        let size = to.metadata().ok().filter(|meta| meta.is_file()).map(|meta| meta.len());
        all.push(format!("{what}: {done:?}, then {read}, {write}, size {size:?}"));
    };
    let (from, to) = (File::open(path("from")).unwrap(), both().open(path("to")).unwrap());
    copy("at the end", &from, 10_000, &to, 0, 100);
    copy("past the end", &from, 20_000, &to, 0, 100);
    copy("across the end", &from, 9_000, &to, 0, 5_000);
    copy("nothing", &from, 0, &to, 0, 0);
    copy("beyond all files", &from, 0, &to, i64::MAX as u64, 10);
    copy("a source that wraps", &from, i64::MAX as u64 - 5, &to, 0, 10);
    let same = both().open(path("from")).unwrap();
    copy("overlapping", &same, 0, &same, 100, 1_000);
    copy("on itself", &same, 0, &same, 0, 1_000);
    copy("touching", &same, 0, &same, 1_000, 1_000);
    copy("after itself", &same, 0, &same, 10_000, 1_000);
    let unreadable = OpenOptions::new().write(true).open(path("from")).unwrap();
    copy("not readable", &unreadable, 0, &to, 0, 10);
    copy("not writable", &same, 0, &from, 0, 10);
    let appending = OpenOptions::new().append(true).open(path("to")).unwrap();
    copy("for appending", &from, 0, &appending, 0, 10);
    let directory = File::open(path("d")).unwrap();
    copy("from a directory", &directory, 0, &to, 0, 10);
    copy("to a directory", &from, 0, &directory, 0, 10);
    let pipe = File::from(rustix::fs::open(path("pipe"), OFlags::RDWR, Mode::empty()).unwrap());
    copy("from a pipe", &pipe, 0, &to, 0, 10);
    copy("to a pipe", &from, 0, &pipe, 0, 10);
    let device = both().open("/dev/zero").unwrap();
    copy("from a character device", &device, 0, &to, 0, 10);
    copy("to a character device", &from, 0, &device, 0, 10);
    let gone = rustix::fs::open(path("from"), OFlags::PATH, Mode::empty()).unwrap();
    copy("a handle of a path", &File::from(gone), 0, &to, 0, 10);
    all
}

#[test]
fn copies_of_ranges_are_bounded_as_by_the_hosts_file_system() {
    let (m, host) = (Mounted::new(), host_directory());
    let (seen, expected) = (odd_copies(m.dir.path()), odd_copies(host.path()));
    let refused = format!("{:?}", Errno::INVAL);
    assert!(expected.iter().any(|line| line.contains(&refused)), "{expected:#?}");
    for (seen, expected) in seen.iter().zip(&expected) {
        assert_eq!(seen, expected);
    }
    m.end();
}
