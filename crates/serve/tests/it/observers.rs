//! The client that caches replies, and what it learns.

use crate::client::{Client, ROOT};
use lanefs::{SetAttr, Volume};
use lanefs_serve::{Error, Lookup, NodeId, Observer, ServeOptions};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notified {
    Name(NodeId, String),
    Node(NodeId),
    Times(NodeId),
}

/// An observer that notes everything, and does not know an inode at the first calls.
#[derive(Default)]
pub(crate) struct Notes {
    all: Mutex<Vec<Notified>>,
    unknown: AtomicUsize,
}

impl Notes {
    fn add(&self, notified: Notified) {
        self.all.lock().expect("no panic").push(notified);
    }

    pub(crate) fn take(&self) -> Vec<Notified> {
        std::mem::take(&mut self.all.lock().expect("no panic"))
    }
}

impl Observer for Notes {
    fn name_changed(&self, dir: NodeId, name: &[u8]) {
        self.add(Notified::Name(dir, String::from_utf8_lossy(name).into_owned()));
    }

    fn node_changed(&self, node: NodeId) -> bool {
        self.add(Notified::Node(node));
        let less = |unknown: usize| unknown.checked_sub(1);
        self.unknown.fetch_update(SeqCst, SeqCst, less).is_err()
    }

    fn times_changed(&self, node: NodeId) {
        self.add(Notified::Times(node));
    }
}

/// Changes the volume in a thread that answers no requests, as a command does.
fn beside(client: &Client, change: impl FnOnce(&Volume) + Send) {
    let volume = client.0.volume().expect("serving");
    std::thread::scope(|scope| scope.spawn(|| change(&volume)).join().expect("no panic"));
    client.0.flush_notifications();
}

fn observed() -> (Client, Arc<Notes>) {
    let (client, notes) = (Client::new(64 << 20), Arc::new(Notes::default()));
    client.0.observe(Arc::clone(&notes) as Arc<dyn Observer>).expect("observed");
    (client, notes)
}

#[test]
fn an_observer_learns_of_changes_that_no_request_makes_and_of_no_others() {
    let (client, notes) = observed();
    beside(&client, |volume| drop(volume.write_file("/f", b"text")));
    let root = [Notified::Name(NodeId::ROOT, "f".to_owned()), Notified::Node(NodeId::ROOT)];
    let all = notes.take();
    assert!(root.iter().all(|one| all.contains(one)), "{all:?}");
    let file = client.walk("f").expect("found");
    beside(&client, |volume| drop(volume.write_file("/f", b"longer")));
    assert!(notes.take().contains(&Notified::Node(file.id)));
    let set = SetAttr { perm: Some(0o600), ..SetAttr::default() };
    client.0.setattr(&ROOT, file.id, &set, None).expect("changed");
    client.0.unlink(NodeId::ROOT, b"f").expect("removed");
    client.0.flush_notifications();
    assert_eq!(notes.take(), [], "the client has requested these");
    drop(file);
    // Nothing of a file that the client does not know.
    beside(&client, |volume| {
        volume.mkdir_all("/d", 0o755).expect("made");
        volume.write_file("/d/g", b"text").expect("written");
    });
    let all = notes.take();
    let of_root =
        |one: &Notified| matches!(one, Notified::Name(NodeId::ROOT, _) | Notified::Node(NodeId::ROOT));
    assert!(!all.is_empty() && all.iter().all(of_root), "{all:?}");
    client.end();
}

#[test]
fn an_inode_that_the_client_does_not_know_yet_is_tried_again_while_it_is_held() {
    let (client, notes) = observed();
    beside(&client, |volume| drop(volume.write_file("/f", b"text")));
    let file = client.walk("f").expect("found");
    notes.take();
    notes.unknown.store(3, SeqCst);
    beside(&client, |volume| drop(volume.write_file("/f", b"longer")));
    let tries = notes.take().iter().filter(|one| **one == Notified::Node(file.id)).count();
    assert!(tries >= 4, "{tries}");
    drop(file);
    client.end();
}

#[test]
fn replies_may_be_cached_once_there_is_an_observer() {
    let client = Client::new(64 << 20);
    let validity = |client: &Client| {
        let missing = match client.0.lookup(NodeId::ROOT, b"none").expect("a reply") {
            Lookup::Missing(validity) => validity,
            Lookup::Found(entry) => panic!("{entry:?}"),
        };
        (missing, client.0.getattr(NodeId::ROOT).expect("a reply").validity)
    };
    assert_eq!(validity(&client), (Duration::ZERO, Duration::ZERO));
    client.0.observe(Arc::new(Notes::default())).expect("observed");
    let (missing, found) = validity(&client);
    assert!(missing > Duration::from_secs(1 << 20) && missing == found);
    client.end();
}

#[test]
fn a_volume_has_one_observer() {
    let (client, notes) = observed();
    let other = Client::of(client.0.volume().expect("serving"), &ServeOptions::default());
    let refused = other.0.observe(Arc::new(Notes::default()));
    assert!(matches!(refused, Err(Error::Observed)), "{refused:?}");
    other.end();
    beside(&client, |volume| drop(volume.write_file("/f", b"text")));
    assert!(!notes.take().is_empty(), "the end of the other service leaves it");
    client.end();
}
