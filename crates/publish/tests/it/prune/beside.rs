//! A publisher beside prunes: what happens between two of its requests.

use super::*;

/// A store on which something happens before the first write or replacement of an object that begins so.
struct Hooked {
    memory: Arc<Memory>,
    object: &'static str,
    happens: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Hooked {
    fn at(&self, object: &str) {
        if object.starts_with(self.object) {
            let happens = self.happens.lock().take();
            happens.into_iter().for_each(|happens| happens());
        }
    }
}

impl Store for Hooked {
    fn name(&self) -> String {
        self.memory.name()
    }

    fn read(&self, object: &str, range: Range<u64>) -> Outcome<Vec<u8>> {
        self.memory.read(object, range)
    }

    fn read_all(&self, object: &str, most: u64) -> Outcome<(Vec<u8>, Stamp)> {
        self.memory.read_all(object, most)
    }

    fn write(&self, object: &str, bytes: Vec<u8>) -> Outcome<()> {
        self.at(object);
        self.memory.write(object, bytes)
    }

    fn replace(&self, object: &str, expected: Option<&Stamp>, bytes: Vec<u8>) -> Outcome<()> {
        self.at(object);
        self.memory.replace(object, expected, bytes)
    }

    fn delete(&self, object: &str) -> Outcome<()> {
        self.memory.delete(object)
    }

    fn list(&self, folder: &str) -> Outcome<Vec<Listed>> {
        self.memory.list(folder)
    }
}

/// Publishes a version again, under another tag. Before an object is written, the tag `latest` is deleted,
/// and two prunes run with the grace period between them.
fn publish_beside_prunes(object: &'static str) -> (Arc<Memory>, Result<Hash, Error>) {
    let (image, memory) = (small_volume(), clocked());
    image.publish(&memory).expect("publish");
    let volume = image.open();
    advance(&memory, 3 * GRACE as i64);
    let store = memory.clone();
    let happens = move || {
        let store_dyn: Arc<dyn Store> = store.clone();
        delete_tag(&store_dyn, "latest").expect("deleted");
        prune_with(&store, &options());
        advance(&store, GRACE as i64);
        prune_with(&store, &options());
    };
    let happens: Box<dyn FnOnce() + Send> = Box::new(happens);
    let hooked = Arc::new(Hooked { memory: memory.clone(), object, happens: Mutex::new(Some(happens)) });
    let options = PublishOptions { level: 1, ..PublishOptions::default() };
    let published = publish(&volume, hooked, "draft", &options, &|_, _| true);
    (memory, published.map(|report| report.version))
}

#[test]
fn a_publisher_sees_a_prune_before_its_root() {
    let (memory, refused) = publish_beside_prunes("versions/");
    assert!(matches!(refused, Err(Error::Condemned(_))), "{refused:?}");
    let store: Arc<dyn Store> = memory.clone();
    assert_eq!(tags(&store).expect("tags").len(), 0);
}

#[test]
fn a_prune_sees_a_root_before_its_tag() {
    let (memory, published) = publish_beside_prunes("tags/");
    assert!(is_whole(&memory, published.expect("published")));
}

#[test]
fn a_version_that_was_published_beside_its_condemnation_stays_whole_for_the_grace_period() {
    let (image, memory) = (small_volume(), clocked());
    // Packs that no tag needs, and that a publisher for a new tag reuses.
    image.publish(&memory).expect("publish");
    let dyn_store: Arc<dyn Store> = memory.clone();
    delete_tag(&dyn_store, "latest").expect("deleted");
    advance(&memory, 3 * GRACE as i64);
    image.change(|volume| write(volume, "/d/1", b"another"));
    let volume = image.open();
    let store = memory.clone();
    let happens: Box<dyn FnOnce() + Send> = Box::new(move || {
        let condemned = prune_with(&store, &options()).condemned;
        assert!(condemned.packs > 0, "the packs that the publisher has found");
    });
    let happens = Mutex::new(Some(happens));
    // Before its packs: the publisher has read that there is no list.
    let hooked = Arc::new(Hooked { memory: memory.clone(), object: "packs/", happens });
    let publish_options = PublishOptions { level: 1, ..PublishOptions::default() };
    let published = publish(&volume, hooked, "draft", &publish_options, &|_, _| true).expect("publish");
    assert!(published.kept_pieces > 0, "the pieces of condemned packs");
    // The list is due, and the version lost its tag a moment ago.
    advance(&memory, GRACE as i64 + 1);
    delete_tag(&dyn_store, "draft").expect("deleted");
    prune_with(&memory, &options());
    assert!(is_whole(&memory, published.version), "readers have the grace period");
    // It is condemned then, and deleted as any other.
    advance(&memory, GRACE as i64);
    prune_with(&memory, &options());
    assert!(!is_whole(&memory, published.version));
}
