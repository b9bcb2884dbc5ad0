//! Every system under measurement does the same work: it executes the requests of a row, and a wrong answer
//! has no time.

use lanefs_bench::Error;
use lanefs_bench::measure::stop::Stop;
use lanefs_bench::systems::lane::Lane;
use lanefs_bench::systems::peers::{Host, Medium, Peers, SpaceRequest};
use lanefs_bench::systems::system::{Create, Expect, Named, System};
use lanefs_bench::systems::workload::{Strings, Tree, flat_names, subdirectory_name};

/// Runs all methods at small sizes; checks no time.
fn does_everything(system: &dyn System) {
    let stop = Stop::default();
    let tree = Tree::new(500);
    system.make_tree(&tree, &stop).unwrap();
    for threads in [1, 2] {
        system.resolve(None, &tree.requests(), threads, Expect::Found, &stop).unwrap();
        system.resolve(None, &tree.absent_requests(), threads, Expect::Absent, &stop).unwrap();
    }
    let wrong = system.resolve(None, &tree.absent_requests(), 1, Expect::Found, &stop);
    assert!(matches!(wrong, Err(Error::Wrong { found: 0, expected: 500, .. })));
    let wrong = system.resolve(None, &tree.requests(), 1, Expect::Absent, &stop);
    assert!(matches!(wrong, Err(Error::Wrong { found: 0, .. })));

    let names = flat_names(3_000);
    for how in [Create::Open, Create::Node] {
        system.make_directory(c"flat").unwrap();
        let before = system.used_bytes().unwrap();
        system.create_files(c"flat", &names, how, &stop).unwrap();
        system.settle().unwrap();
        let after = system.used_bytes().unwrap();
        // In a directory of the host others may free space meanwhile; LaneFS keeps metadata chunks for the
        // next files.
        let alone = system.name() != "host";
        assert!(!alone || before.zip(after).is_none_or(|(before, after)| after >= before));
        system.resolve(Some(c"flat"), &names, 1, Expect::Found, &stop).unwrap();
        system.list_and_stat(c"flat", 3_000, &stop).unwrap();
        assert!(matches!(system.list_and_stat(c"flat", 3_001, &stop), Err(Error::Wrong { .. })));
        assert!(system.create_files(c"flat", &names, how, &stop).is_err(), "a file twice");
        system.unlink_files(c"flat", &names, &stop).unwrap();
        system.resolve(Some(c"flat"), &names, 1, Expect::Absent, &stop).unwrap();
        system.list_and_stat(c"flat", 0, &stop).unwrap();
        system.remove_directory(c"flat").unwrap();
    }

    let names: Strings = (0..300).map(subdirectory_name).collect();
    system.make_directory(c"wide").unwrap();
    system.make_subdirectories(c"wide", &names, &stop).unwrap();
    system.resolve(Some(c"wide"), &names, 1, Expect::Found, &stop).unwrap();
    assert!(system.remove_directory(c"wide").is_err(), "not empty");
    system.remove_subdirectories(c"wide", &names, &stop).unwrap();
    system.remove_directory(c"wide").unwrap();

    for depth in [1, 2_000, 2_001, 4_000] {
        system.make_directory(c"chain").unwrap();
        system.make_chain(c"chain", depth, &stop).unwrap();
        system.resolve_chain(c"chain", depth, 3, &stop).unwrap();
        assert!(system.resolve_chain(c"chain", depth + 1, 1, &stop).is_err(), "deeper than it is");
        system.remove_chain(c"chain", depth, &stop).unwrap();
        system.remove_directory(c"chain").unwrap();
    }

    stop.set();
    assert!(system.create_files(c"flat", &names, Create::Open, &stop).is_err());
    assert!(matches!(system.resolve(None, &tree.requests(), 2, Expect::Found, &stop), Err(Error::Stopped)));
}

#[test]
fn a_directory_of_the_host_does_everything_and_goes() {
    let temp = tempfile::tempdir().unwrap();
    let host = Host::in_directory("host", temp.path()).unwrap();
    does_everything(&host);
    let path = host.path().to_path_buf();
    assert!(path.exists());
    drop(host);
    assert!(!path.exists(), "left behind, with a tree in it");
}

#[test]
fn lanefs_does_everything() {
    does_everything(&Lane::new(1 << 30).unwrap());
}

/// As root the benchmark makes file systems of its own, with a journal, and removes them. Without root a note
/// names each missing one with the remedy.
#[test]
fn own_file_systems_come_and_go() {
    let need = SpaceRequest { inodes: 20_000, bytes: 64 << 20 };
    let ready = Peers::default().fresh(need, Medium::Memory, &Stop::default()).unwrap();
    let points: Vec<_> = ready.hosts.iter().map(|host| host.path().to_path_buf()).collect();
    for host in &ready.hosts {
        does_everything(host);
        if host.name() == "ext4" {
            assert_eq!(host.journal(), Some(true));
        }
    }
    let left_out =
        ["ext4", "tmpfs"].into_iter().filter(|name| ready.hosts.iter().all(|host| host.name() != *name));
    for name in left_out {
        assert!(
            ready.notes.iter().any(|note| note.starts_with(&format!("{name} is left out"))),
            "{:?}",
            ready.notes
        );
    }
    drop(ready);
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    for point in points {
        assert!(!mounts.contains(&*point.to_string_lossy()), "{} is still mounted", point.display());
        assert!(!point.exists());
    }
}

#[test]
fn a_directory_on_another_file_system_is_refused_by_name() {
    let peers = Peers { ext4: Some("/proc".into()), tmpfs: None };
    let refused = peers.check().unwrap_err();
    assert!(refused.to_string().contains("proc, not ext4"), "{refused}");
    assert_eq!(refused.exit_code(), 2);
}
