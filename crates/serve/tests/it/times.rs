//! Times of access by the rules of a mount.

use crate::client::Client;
use crate::observers::{Notes, Notified};
use lanefs::{AccessTimes, CreateOptions, SetAttr, Time, Volume};
use lanefs_serve::{NodeId, Observer, OpenFlags, Operation, ServeOptions};
use lanefs_testkit::posix::{PosixFs, User};
use rustix::fs::OFlags;
use std::sync::Arc;

/// A service by a rule, with a file of which no reading is an access by the rule of `relatime`.
fn served(access_times: AccessTimes, directory_access_times: bool) -> Client {
    let volume = Volume::create_memory(&CreateOptions { size: 64 << 20, ..CreateOptions::default() });
    let options = ServeOptions { access_times, directory_access_times, ..ServeOptions::default() };
    let client = Client::of(volume.expect("a volume"), &options);
    client.mkdir(&User::ROOT, "d", 0o755).expect("mkdir");
    client.make("d/f", 0o644, b"text");
    let ahead = Time::from_parts(1 << 32, 5);
    let set = SetAttr { atime: Some(ahead), mtime: Some(Time::from_parts(1000, 0)), ..SetAttr::default() };
    for path in ["d", "d/f"] {
        client.set(&User::ROOT, path, &set).expect("utimensat");
    }
    client
}

fn access_times(client: &Client) -> [lanefs_testkit::engine::Stamp; 2] {
    ["d", "d/f"].map(|path| client.stat(path).expect("stat").times[0])
}

#[test]
fn each_reading_counts_and_directories_do_not_where_options_say_so() {
    for (rule, directories, file_changes, directory_changes) in [
        (AccessTimes::Relative, true, false, false),
        (AccessTimes::Always, true, true, true),
        (AccessTimes::Always, false, true, false),
        (AccessTimes::Never, true, false, false),
    ] {
        let client = served(rule, directories);
        let before = access_times(&client);
        let file = client.walk("d/f").expect("found");
        client.0.read(file.id, 0, &mut [0; 4], OpenFlags::default()).expect("read");
        let mut names = Vec::new();
        client.list("d", &mut |name| names.push(name.to_owned())).expect("listed");
        assert_eq!(names, ["f"]);
        let after = access_times(&client);
        let changed = (after[1] != before[1], after[0] != before[0]);
        assert_eq!(changed, (file_changes, directory_changes), "{rule:?}, directories: {directories}");
        drop(file);
        client.end();
    }
}

#[test]
fn an_open_for_reading_counts_where_each_reading_does_and_the_observer_learns_of_it() {
    let (client, notes) = (served(AccessTimes::Always, true), Arc::new(Notes::default()));
    client.0.observe(Arc::clone(&notes) as Arc<dyn Observer>).expect("observed");
    let (dir, file) = (client.walk("d").expect("found"), client.walk("d/f").expect("found"));
    let opens = || client.0.statistics().snapshot()[Operation::Open as usize].count;
    let (before, opens_before) = (access_times(&client), opens());
    // None of these is an access.
    for flags in [OFlags::WRONLY, OFlags::NOATIME] {
        client.0.file_opened(file.id, OpenFlags(flags.bits() as i32));
    }
    client.0.directory_opened(dir.id, OpenFlags(OFlags::NOATIME.bits() as i32));
    assert_eq!((access_times(&client), notes.take()), (before, Vec::new()));
    client.0.file_opened(file.id, OpenFlags::default());
    client.0.directory_opened(dir.id, OpenFlags::default());
    let after = access_times(&client);
    assert!(after[0] != before[0] && after[1] != before[1]);
    assert_eq!(notes.take(), [Notified::Times(file.id), Notified::Times(dir.id)]);
    assert_eq!(opens(), opens_before + 2);
    drop((dir, file));
    // By other rules opens are not requests at all.
    client.0.set_access_times(AccessTimes::Relative, true);
    client.0.file_opened(NodeId::ROOT, OpenFlags::default());
    assert_eq!(opens(), opens_before + 2);
    client.end();
}
