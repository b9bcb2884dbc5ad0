//! The memory that this process may use: the machine's, or what its control groups leave of it. A container
//! is such a group, and a program that takes more than its limit is killed.

use std::path::{Path, PathBuf};

/// Limits as the kernel gives them where there are none: the largest number of whole pages.
const UNLIMITED: u64 = i64::MAX as u64 - 0xffff;

/// Returns the bytes of memory that this process may use.
pub(crate) fn usable_bytes() -> u64 {
    // Miri has neither this system call nor control groups.
    if cfg!(miri) {
        return 4 << 30;
    }
    let info = rustix::system::sysinfo();
    let machine = (info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1)));
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    limit(Path::new("/sys/fs/cgroup"), &groups).map_or(machine, |limit| limit.min(machine))
}

/// Returns the smallest limit of the groups that `/proc/self/cgroup` names, and of those above them, below
/// the directory where control groups are mounted. In a container that directory may begin at its own group,
/// and the names at another one: groups that are not there are left out.
fn limit(mounted: &Path, groups: &str) -> Option<u64> {
    // A line is "number:controllers:path"; version 2 has the number 0 and no controllers.
    let files = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        match (parts.next()?, parts.next()?) {
            ("", path) => Some((mounted.to_owned(), "memory.max", path)),
            (controllers, path) if controllers.split(',').any(|one| one == "memory") => {
                Some((mounted.join("memory"), "memory.limit_in_bytes", path))
            }
            _ => None,
        }
    });
    files.filter_map(|(mounted, file, path)| smallest(&mounted, file, path)).min()
}

/// Returns the smallest limit of a group and those above it.
fn smallest(mounted: &Path, file: &str, path: &str) -> Option<u64> {
    let group = PathBuf::from(path.trim_start_matches('/'));
    let limits = group.ancestors().filter_map(|group| {
        let text = std::fs::read_to_string(mounted.join(group).join(file)).ok()?;
        text.trim().parse::<u64>().ok().filter(|limit| *limit < UNLIMITED)
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_smallest_limit_of_a_group_and_those_above_it_counts() {
        let dir = tempfile::tempdir().expect("a directory");
        let set = |file: &str, limit: &str| {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().expect("a directory")).expect("a group");
            fs::write(path, format!("{limit}\n")).expect("a limit");
        };
        assert_eq!(limit(dir.path(), "0::/none\n"), None);
        set("pods/one/memory.max", "max");
        assert_eq!(limit(dir.path(), "0::/pods/one\n"), None);
        set("pods/memory.max", "3000");
        assert_eq!(limit(dir.path(), "0::/pods/one\n"), Some(3000));
        set("pods/one/memory.max", "1000");
        assert_eq!(limit(dir.path(), "0::/pods/one\n"), Some(1000));
        // A container sees its own group as the root, or names of groups outside of it.
        set("memory.max", "500");
        assert_eq!(limit(dir.path(), "0::/\n"), Some(500));
        assert_eq!(limit(dir.path(), "0::/docker/0123\n"), Some(500));
        assert_eq!(limit(dir.path(), "0::/../../other\n"), Some(500));
    }

    #[test]
    fn limits_of_version_1_count_too() {
        let dir = tempfile::tempdir().expect("a directory");
        let group = dir.path().join("memory/docker/0123");
        fs::create_dir_all(&group).expect("a group");
        let groups = "12:cpu,cpuacct:/docker/0123\n5:memory:/docker/0123\n1:name=systemd:/x\n0::/y\n";
        fs::write(group.join("memory.limit_in_bytes"), "9223372036854771712\n").expect("no limit");
        assert_eq!(limit(dir.path(), groups), None);
        fs::write(group.join("memory.limit_in_bytes"), "2048\n").expect("a limit");
        assert_eq!(limit(dir.path(), groups), Some(2048));
    }

    #[test]
    fn this_process_may_use_some_memory() {
        assert!(usable_bytes() > 1 << 20);
    }
}
