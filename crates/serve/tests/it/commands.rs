//! Commands reach a service by its socket, without a mount.

use crate::client::Client;
use lanefs::{CreateOptions, FileSystem, MemoryDevice, Volume};
use lanefs_serve::command::client::MountedVolume;
use lanefs_serve::command::{CommandRequest, CommandSocket, Executor, RemoteSnapshot, RemoteVolume};
use lanefs_serve::{Error, Groups, NodeId, Requester, ServeOptions, Statistics};
use lanefs_testkit::posix::PosixFs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};

/// Executes nothing, and counts as text.
struct Counters;

impl Executor for Counters {
    fn execute(&self, _: &Volume, _: CommandRequest) -> u8 {
        7
    }

    fn statistics(&self, _: &Volume, counters: &Statistics, versions: usize) -> String {
        let requests: u64 = counters.snapshot().iter().map(|one| one.count).sum();
        format!("{versions} {}", requests > 0)
    }
}

/// Opens the socket of a service, and makes the client's end by the address that the root directory gives.
fn socket(client: &Client, prepared: &Arc<AtomicUsize>) -> (CommandSocket, MountedVolume) {
    let prepared = Arc::clone(prepared);
    let prepare = Box::new(move || {
        prepared.fetch_add(1, SeqCst);
    });
    let socket = CommandSocket::start(Arc::clone(&client.0), Arc::new(Counters), prepare).expect("a socket");
    let own = Requester { uid: rustix::process::geteuid().as_raw(), gid: 0, groups: Groups::Listed(&[]) };
    let address = client.0.getxattr(&own, NodeId::ROOT, b"system.lanefs.commands").expect("the address");
    let mount = MountedVolume::new("/mnt".into(), "v.lane".into(), &address).expect("an address");
    (socket, mount)
}

#[test]
fn a_command_works_on_the_volume_of_a_service() {
    // A snapshot needs a device.
    let device = MemoryDevice::new(vec![0; 64 << 20]);
    let options = CreateOptions { size: 64 << 20, ..CreateOptions::default() };
    let volume = Volume::create_device(Box::new(device), &options).expect("a volume");
    let (client, prepared) = (Client::of(volume, &ServeOptions::default()), Arc::default());
    let (socket, mount) = socket(&client, &prepared);
    assert_eq!(client.walk("f").err(), Some(lanefs_serve::Errno::ENOENT));
    assert_eq!(mount.statistics(|| false).expect("counters"), "1 true");
    let remote = RemoteVolume::open(&mount, || false).expect("a volume");
    let file = remote.create_file(remote.root(), b"f", 0o644).expect("a file");
    assert_eq!(remote.write(file.ino, 0, b"text").expect("written"), 4);
    remote.sync().expect("synced");
    assert_eq!(client.content("f"), b"text");
    assert_eq!(prepared.load(SeqCst), 1);
    drop(remote);
    let snapshot = RemoteSnapshot::take(&mount, 1 << 20, || false);
    assert!(snapshot.is_ok(), "{:?}", snapshot.err());
    drop((snapshot, socket));
    client.end();
}

#[test]
fn calls_that_need_a_connection_are_completed_after_an_interruption() {
    let client = Client::new(64 << 20);
    let (socket, mount) = socket(&client, &Arc::default());
    static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);
    let remote = RemoteVolume::open(&mount, || IS_INTERRUPTED.load(SeqCst)).expect("a volume");
    IS_INTERRUPTED.store(true, SeqCst);
    // The volume has one connection; threads that call at the same time make others.
    let all = Barrier::new(8);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (remote, all) = (&remote, &all);
            scope.spawn(move || {
                all.wait();
                for file in 0..20 {
                    let name = format!("{thread}-{file}");
                    remote.create_file(remote.root(), name.as_bytes(), 0o644).expect("a file");
                }
            });
        }
    });
    assert!(client.walk("7-19").is_ok());
    drop((remote, socket));
    client.end();
}

#[test]
fn a_service_without_commands_gives_counters_only() {
    let options = ServeOptions { takes_commands: false, ..ServeOptions::default() };
    let volume = Client::new(64 << 20).0.volume().expect("serving");
    let client = Client::of(volume, &options);
    let (socket, mount) = socket(&client, &Arc::default());
    assert_eq!(mount.takes_commands(|| false).ok(), Some(false));
    assert!(mount.statistics(|| false).is_ok());
    let refused = RemoteVolume::open(&mount, || false).err();
    assert!(matches!(&refused, Some(Error::Refused { .. })), "{refused:?}");
    drop(socket);
    client.end();
}
