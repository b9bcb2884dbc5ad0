//! The terms of a sync from a directory of the host: all on which it depends which names a sync finds, and
//! what it may read of them.

use crate::on_host::change_times::file_system_with_change_times;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, StatxFlags, fstat, statx};
use std::os::unix::ffi::OsStringExt;

/// The rights of this thread in its own words: without some of them the host keeps attributes back.
const RIGHTS: [&[u8]; 4] = [b"Uid:", b"Gid:", b"Groups:", b"CapEff:"];

/// The terms that the directory `top` and this process set; `None` where the host does not tell them, or its
/// times do not tell every change.
pub(super) fn of_host(top: &OwnedFd) -> Option<Vec<Vec<u8>>> {
    let file_system = file_system_with_change_times(top)?;
    let stat = fstat(top).ok()?;
    // The widths of the fields differ between architectures.
    #[allow(clippy::unnecessary_cast, clippy::cast_lossless)]
    let words = [file_system, stat.st_dev as u64, stat.st_ino as u64];
    let mut terms: Vec<Vec<u8>> = words.iter().map(|word| word.to_le_bytes().to_vec()).collect();
    terms.push(mount(top)?);
    terms.extend(rights()?);
    Some(terms)
}

/// The mount of a directory with its options. Its numbers, which change with each start, are left out.
fn mount(top: &OwnedFd) -> Option<Vec<u8>> {
    let found = statx(top, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    if found.stx_mask & StatxFlags::MNT_ID.bits() == 0 {
        return None;
    }
    let (id, all) = (format!("{} ", found.stx_mnt_id), std::fs::read("/proc/self/mountinfo").ok()?);
    let line = all.split(|byte| *byte == b'\n').find(|line| line.starts_with(id.as_bytes()))?;
    line.splitn(3, |byte| *byte == b' ').nth(2).map(<[u8]>::to_vec)
}

/// The user, the capabilities and the user namespace of this thread.
fn rights() -> Option<Vec<Vec<u8>>> {
    let status = std::fs::read("/proc/thread-self/status").ok()?;
    let lines = || status.split(|byte| *byte == b'\n');
    let line = |name: &&[u8]| lines().find(|line| line.starts_with(name)).map(<[u8]>::to_vec);
    let mut rights = RIGHTS.iter().map(line).collect::<Option<Vec<_>>>()?;
    rights.push(std::fs::read_link("/proc/self/ns/user").ok()?.into_os_string().into_vec());
    Some(rights)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rights_of_a_thread_are_terms() {
        let mine = rights().expect("proc");
        assert_eq!(mine.len(), 5);
        assert_eq!(rights(), Some(mine.clone()));
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: only root may become another user");
            return;
        }
        let of_other = std::thread::spawn(|| {
            rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65534)).expect("root may");
            rights()
        });
        assert_ne!(of_other.join().expect("no panic"), Some(mine));
    }

    #[test]
    fn another_directory_has_other_terms_and_one_of_proc_has_none() {
        let temp = tempfile::tempdir().expect("a directory");
        let open = |path: &std::path::Path| OwnedFd::from(std::fs::File::open(path).expect("a directory"));
        assert_eq!(of_host(&open("/proc/self".as_ref())), None);
        let below = temp.path().join("d");
        std::fs::create_dir(&below).expect("a directory");
        let Some(terms) = of_host(&open(temp.path())) else {
            eprintln!("SKIPPED: the times of the file system for temporary files do not tell every change");
            return;
        };
        assert_eq!(of_host(&open(temp.path())), Some(terms.clone()));
        assert_ne!(of_host(&open(&below)), Some(terms));
    }
}
