//! A service that moves from version to version of its volume.

use crate::client::{Client, ROOT};
use crate::observers::{Notes, Notified};
use lanefs::{Access, CreateOptions, MemoryDevice, Volume};
use lanefs_serve::{Errno, Error, Groups, NodeId, Observer, Requester, ServeOptions, Served};
use lanefs_testkit::posix::PosixFs;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// Makes a volume with files, and opens it for reading.
fn volume(files: &[(&str, &str)]) -> Arc<Volume> {
    let host = tempfile::tempdir().expect("a directory");
    let image = host.path().join("v.lane");
    let options = CreateOptions { size: 32 << 20, ..CreateOptions::default() };
    let volume = Volume::create(&image, &options).expect("a volume");
    for (path, text) in files {
        if let Some((dir, _)) = path.rsplit_once('/').filter(|(dir, _)| !dir.is_empty()) {
            volume.mkdir_all(dir, 0o755).expect("a directory");
        }
        volume.write_file(*path, text.as_bytes()).expect("a file");
    }
    volume.close().expect("closed");
    let device = MemoryDevice::new(std::fs::read(image).expect("the image"));
    Arc::new(Volume::open_device(Box::new(device), Access::Read).expect("a volume"))
}

#[test]
fn new_lookups_see_the_new_version_and_references_keep_theirs() {
    let client = Client::of(volume(&[("/f", "one"), ("/gone", "x")]), &ServeOptions::default());
    let notes = Arc::new(Notes::default());
    client.0.observe(Arc::clone(&notes) as Arc<dyn Observer>).expect("observed");
    let old = client.walk("f").expect("found");
    let read = |node| {
        let mut text = [0; 8];
        let len = client.0.read(node, 0, &mut text, lanefs_serve::OpenFlags::default()).expect("read");
        String::from_utf8_lossy(&text[..len]).into_owned()
    };
    // A thread that answers requests must not move the service.
    let next = volume(&[("/f", "two"), ("/new", "y")]);
    let served = Arc::clone(&client.0);
    std::thread::spawn(move || served.move_to(next).expect("moved")).join().expect("no panic");
    let all = notes.take();
    for name in ["f", "gone", "new"] {
        assert!(all.contains(&Notified::Name(NodeId::ROOT, name.to_owned())), "{name}: {all:?}");
    }
    assert_eq!(all.last(), Some(&Notified::Node(NodeId::ROOT)));
    let new = client.walk("f").expect("found");
    assert_eq!((read(old.id), read(new.id)), ("one".to_owned(), "two".to_owned()));
    assert_ne!(old.id, new.id, "the numbers tell the versions");
    assert_eq!(client.walk("gone").err(), Some(Errno::ENOENT));
    assert_eq!(client.content("new"), b"y");
    assert_eq!(client.0.version_count(), 2);
    let id = old.id;
    drop(old);
    assert_eq!(client.0.version_count(), 1, "the client has nothing of it");
    assert_eq!(client.0.getattr(id).err(), Some(Errno::ESTALE));
    drop(new);
    client.end();
}

/// An observer that ends the service when it learns of a name below the root.
struct Ending {
    served: Weak<Served>,
    /// Number of versions that have ended; `None` where the end has waited for the observer.
    ended: Mutex<Vec<Option<usize>>>,
}

impl Observer for Ending {
    fn name_changed(&self, dir: NodeId, _: &[u8]) {
        let Some(served) = self.served.upgrade().filter(|_| dir != NodeId::ROOT) else { return };
        let (sender, ended) = channel();
        std::thread::spawn(move || sender.send(served.end().len()));
        self.ended.lock().expect("no panic").push(ended.recv_timeout(Duration::from_secs(60)).ok());
    }

    fn node_changed(&self, _: NodeId) -> bool {
        true
    }

    fn times_changed(&self, _: NodeId) {}
}

#[test]
fn a_service_ends_while_the_client_is_told_to_drop_names() {
    let client = Client::of(volume(&[("/d/f", "one")]), &ServeOptions::default());
    let ending = Ending { served: Arc::downgrade(&client.0), ended: Mutex::default() };
    let ending = Arc::new(ending);
    client.0.observe(Arc::clone(&ending) as Arc<dyn Observer>).expect("observed");
    let held = [client.walk("d").expect("found"), client.walk("d/f").expect("found")];
    let (served, next) = (Arc::clone(&client.0), volume(&[("/d/f", "two")]));
    let moved = std::thread::spawn(move || {
        served.move_to(next).expect("moved");
        served.end_unused();
    });
    moved.join().expect("no panic");
    assert_eq!(*ending.ended.lock().expect("no panic"), [Some(2)]);
    drop(held);
    client.end();
}

#[test]
fn a_service_that_cannot_move_stays_and_says_why() {
    let client = Client::new(32 << 20);
    let served = Arc::clone(&client.0);
    let moved = std::thread::spawn(move || served.move_to(volume(&[("/f", "x")])));
    let refused = moved.join().expect("no panic");
    assert!(matches!(refused, Err(Error::Move(_))), "{refused:?}");
    assert_eq!(client.walk("f").err(), Some(Errno::ENOENT));
    client.end();
}

#[test]
fn only_the_user_of_the_service_learns_of_the_image() {
    let client = Client::new(32 << 20);
    let own = Requester { uid: rustix::process::geteuid().as_raw(), gid: 0, groups: Groups::Listed(&[]) };
    let other = Requester { uid: own.uid + 1, ..ROOT };
    let ask = |by: &Requester<'_>| client.0.getxattr(by, NodeId::ROOT, b"system.lanefs.image");
    assert_eq!(ask(&own), Ok(b"none".to_vec()));
    assert_eq!(ask(&other), Err(Errno::EPERM));
    client.end();
}
