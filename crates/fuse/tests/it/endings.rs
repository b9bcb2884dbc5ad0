//! Mounts that end otherwise than by their user, and mounts that do not come to be.

use crate::posix::support::Mounted;
use lanefs::{CreateOptions, Volume};
use lanefs_fuse::{Ended, Mount, Transport};
use rustix::mount::{MountFlags, UnmountFlags, unmount};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// Aborts the connection of a mount, by the kernel's file system for that.
fn abort(dir: &Path) {
    let minor = rustix::fs::minor(fs::metadata(dir).unwrap().dev());
    let connections = tempfile::tempdir().unwrap();
    rustix::mount::mount("none", connections.path(), "fusectl", MountFlags::empty(), None).unwrap();
    fs::write(connections.path().join(minor.to_string()).join("abort"), "1").unwrap();
    unmount(connections.path(), UnmountFlags::DETACH).unwrap();
}

#[test]
fn a_mount_whose_connection_is_aborted_counts_as_that_and_not_as_unmounted() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root aborts connections");
        return;
    }
    for is_forced in [false, true] {
        let mut m = Mounted::new();
        fs::write(m.path("f"), b"text").unwrap();
        let file = File::open(m.path("f")).unwrap();
        match is_forced {
            // It aborts the connection, and then finds the mount in use.
            true => assert!(unmount(m.dir.path(), UnmountFlags::FORCE).is_err()),
            false => abort(m.dir.path()),
        }
        assert_eq!(m.mount.take().unwrap().wait().unwrap(), Ended::Aborted, "{is_forced}");
        assert!(fs::read(m.path("f")).is_err());
        drop(file);
        unmount(m.dir.path(), UnmountFlags::DETACH).unwrap();
    }
}

/// Lets statfs(2) by this thread, and by those that it starts, fail.
fn forbid_statfs() {
    let statement = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut program = [
        // The number of the system call is the first word.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_statfs as u32, 0, 1),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EIO as u32, 0, 0),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    rustix::thread::set_no_new_privs(true).unwrap();
    // SAFETY: the kernel copies the program, which lives until the call returns.
    let set = unsafe {
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER as libc::c_ulong, &raw const filter)
    };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn a_mount_that_fails_when_it_is_tried_gives_the_volume_back() {
    let volume = Volume::create_memory(&CreateOptions { size: 16 << 20, ..CreateOptions::default() });
    let (volume, dir) = (Arc::new(volume.unwrap()), tempfile::tempdir().unwrap());
    let started = std::thread::scope(|scope| {
        let start = || {
            forbid_statfs();
            Mount::start(Arc::clone(&volume), dir.path(), &crate::mount_options()).err()
        };
        scope.spawn(start).join().unwrap()
    });
    assert!(started.expect("it fails").to_string().contains("trying the mount"));
    assert_eq!(Arc::strong_count(&volume), 1, "nobody else has the volume");
    // It can be mounted.
    let volume = Arc::into_inner(volume).expect("the only one");
    Mounted::of(volume, &crate::mount_options()).end();
}

#[test]
fn rings_raise_the_limit_of_descriptors_or_say_that_it_is_too_low() {
    let options = crate::mount_options();
    let own = "endings::rings_raise_the_limit_of_descriptors_or_say_that_it_is_too_low";
    if options.transport != Transport::Uring || !crate::is_alone(own) {
        return;
    }
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..before }).unwrap();
    Mounted::new().end();
    let raised = getrlimit(Resource::Nofile);
    assert!(raised.current > Some(64) && raised.maximum == before.maximum, "{raised:?}");
    setrlimit(Resource::Nofile, Rlimit { current: Some(100), maximum: Some(100) }).unwrap();
    let volume = Volume::create_memory(&CreateOptions { size: 16 << 20, ..CreateOptions::default() });
    let dir = tempfile::tempdir().unwrap();
    let refused = Mount::start(volume.unwrap(), dir.path(), &options).err().expect("too low").to_string();
    assert!(refused.contains("rings need a descriptor each") && refused.contains("ulimit"), "{refused}");
}
