//! Stores that fail or lie: a clear error, never wrong bytes.

mod planted;

use crate::support::{Image, Memory, assert_same, change_at_random, content, open, open_with, text, volume};
use lanefs::{Device, Volume};
use lanefs_publish::{
    Cache, Error, Hash, Publication, PublishOptions, ReadOptions, Reference, StoreError, publish,
};
use lanefs_testkit::seeded::Seeded;
use parking_lot::Mutex;
use std::sync::Arc;

/// Bytes of the volumes.
const SIZE: u64 = 64 << 20;

fn published() -> (Image, Arc<Memory>) {
    let mut random = Seeded::new(21);
    let image = Image::new(SIZE, |volume| change_at_random(volume, &mut random, 120));
    let store = Arc::new(Memory::default());
    image.publish(&store).unwrap();
    (image, store)
}

/// Without reading ahead and without memory, so that each read asks the store.
fn forgetful() -> ReadOptions {
    ReadOptions { ahead: 0, memory: 0, ..ReadOptions::default() }
}

/// Reads all of the device, 64 KiB at a time; `None` where the read failed.
fn read_all(publication: &Publication) -> Vec<Option<Vec<u8>>> {
    let device = publication.device();
    let read = |at: u64| {
        let mut bytes = vec![0xee; 64 << 10];
        device.read_slice(at, &mut bytes).ok().map(|()| bytes)
    };
    (0..device.len() / (64 << 10)).map(|i| read(i * (64 << 10))).collect()
}

/// Compares what could be read with the truth. Returns the number of failed reads.
fn assert_never_wrong(read: &[Option<Vec<u8>>], truth: &[Option<Vec<u8>>]) -> usize {
    assert_eq!(read.len(), truth.len());
    for (at, (read, truth)) in read.iter().zip(truth).enumerate() {
        assert!(read.is_none() || read == truth, "wrong bytes at window {at}");
    }
    read.iter().filter(|read| read.is_none()).count()
}

#[test]
fn wrong_and_missing_bytes_are_errors_and_never_returned() {
    let (_image, store) = published();
    let truth = read_all(&open(&store).unwrap());
    assert!(truth.iter().all(Option::is_some));
    type Spoil = fn(&str, Vec<u8>) -> Result<Vec<u8>, StoreError>;
    let spoils: [(&str, Spoil); 6] = [
        ("a flipped bit", |_, mut bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 4;
            Ok(bytes)
        }),
        ("a short read", |_, mut bytes| {
            bytes.truncate(bytes.len() / 2);
            Ok(bytes)
        }),
        ("more bytes than were asked for", |_, mut bytes| {
            bytes.insert(0, 0);
            Ok(bytes)
        }),
        ("no bytes", |_, _| Ok(Vec::new())),
        ("a missing object", |_, _| Err(StoreError::Missing)),
        ("a failure", |_, _| Err(StoreError::Failed("status 500".into()))),
    ];
    for (what, spoil) in spoils {
        let publication = open_with(store.clone(), &forgetful()).unwrap();
        let mut reads = 0;
        store.plant(move |object, _, bytes| {
            reads += 1;
            if reads % 3 == 0 { spoil(object, bytes) } else { Ok(bytes) }
        });
        assert_never_wrong(&read_all(&publication), &truth);
        store.plant(move |object, _, bytes| spoil(object, bytes));
        let failed = assert_never_wrong(&read_all(&publication), &truth);
        assert!(failed > 0, "{what}: reads fail");
        store.heal();
        assert_eq!(
            assert_never_wrong(&read_all(&publication), &truth),
            0,
            "{what}: a store that is well again"
        );
    }
}

#[test]
fn bytes_that_are_wrong_once_are_read_again() {
    let (image, store) = published();
    let publication = open_with(store.clone(), &forgetful()).unwrap();
    // The first bytes of each request are wrong the first time; the second request is for these alone.
    let device = publication.device();
    let mut bytes = vec![0; 4096];
    store.plant({
        let mut count = 0;
        move |_, _, mut bytes| {
            count += 1;
            if count % 2 == 1 {
                bytes[0] ^= 1;
            }
            Ok(bytes)
        }
    });
    device.read_slice(0, &mut bytes).unwrap();
    store.heal();
    assert_same(&image, &publication);
}

#[test]
fn an_error_names_object_and_offset() {
    let (_image, store) = published();
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let on_failure: lanefs_publish::OnFailure = Arc::new(move |error, _| tell.lock().push(error.to_string()));
    let options = ReadOptions { on_failure: Some(on_failure), ..forgetful() };
    let publication = open_with(store.clone(), &options).unwrap();
    // The page is known, and the piece is not.
    publication.device().read_slice(0, &mut [0; 4096]).unwrap();
    store.plant(|_, _, mut bytes| {
        bytes[0] ^= 1;
        Ok(bytes)
    });
    let error = publication.device().read_slice(0, &mut [0; 4096]).expect_err("a wrong piece");
    assert!(error.to_string().contains("memory:/packs/"), "{error}");
    assert!(error.to_string().contains("at byte 0"), "{error}");
    assert!(error.to_string().contains("their hash differs"), "{error}");
    assert_eq!(*told.lock(), [error.to_string()]);
}

#[test]
fn a_volume_on_a_failing_store_gives_errors_and_works_again() {
    let (image, store) = published();
    let there = volume(&open_with(store.clone(), &forgetful()).unwrap());
    store.plant(|_, _, _| Err(StoreError::Failed("status 503".into())));
    let error = there.load_metadata(&|_, _| true).expect_err("the store is away");
    assert_eq!(error.code(), lanefs::Code::Io, "{error}");
    store.heal();
    assert!(content(&there) == content(&image.open()));
}

#[test]
fn a_missing_tag_and_a_damaged_one_are_told() {
    let (_image, store) = published();
    let other = Reference::parse("other").unwrap();
    let missing = Publication::open(store.clone(), &other, &ReadOptions::default()).map(drop);
    assert!(matches!(missing, Err(Error::NoTag(_))));
    for at in [0, 8, 12, 16, 64, 100, 127] {
        store.plant(move |object, _, mut bytes| {
            if object.starts_with("tags/") {
                bytes[at] ^= 1;
            }
            Ok(bytes)
        });
        assert!(matches!(open(&store).map(drop), Err(Error::Damaged { .. })), "byte {at}");
    }
}

#[test]
fn a_manifest_of_another_volume_is_refused() {
    let (_image, store) = published();
    let (_other, others) = published();
    let root = others.names().into_iter().find(|name| name.starts_with("versions/")).unwrap();
    let bytes = others.content(&root);
    store.plant(move |object, _, honest| {
        Ok(match object.split('/').next() {
            Some("versions") => bytes.clone(),
            // Without the root after it.
            Some("tags") => honest[..128].to_vec(),
            _ => honest,
        })
    });
    let refused = open(&store).map(drop).expect_err("another root");
    assert!(refused.to_string().contains("their hash differs"), "{refused}");
}

#[test]
fn a_wrong_root_behind_a_tag_is_not_used() {
    let (_image, store) = published();
    let honest = open(&store).unwrap().version();
    let len = store.content("tags/latest").len();
    assert!(len > 128, "the root is small");
    for at in [128, len / 2, len - 1] {
        store.plant(move |object, _, mut bytes| {
            if object.starts_with("tags/") {
                bytes[at] ^= 1;
            }
            Ok(bytes)
        });
        store.reads.lock().clear();
        assert_eq!(open(&store).unwrap().version(), honest);
        let is_read = store.reads.lock().iter().any(|(object, _)| object.starts_with("versions/"));
        assert!(is_read, "byte {at}: the object of the root");
    }
    store.heal();
    let object = format!("versions/{honest}");
    let found = || open(&store).unwrap().verify(&|_, _| true).unwrap().found;
    assert_eq!(found(), 0);
    store.objects.lock().get_mut(&object).unwrap().0[50] ^= 1;
    assert_eq!(found(), 1, "a damaged root, which the tag has too");
    store.objects.lock().remove(&object);
    assert_eq!(found(), 1, "a missing root");
}

/// The roots and pages of a hostile store have right hashes, but not right contents.
#[test]
fn mutated_roots_with_right_hashes_do_no_harm() {
    let (_image, store) = published();
    let truth = read_all(&open(&store).unwrap());
    let object = store.names().into_iter().find(|name| name.starts_with("versions/")).unwrap();
    let root = store.content(&object);
    let mut random = Seeded::new(1);
    let mut opened = 0;
    for _ in 0..1500 {
        let mut bytes = root.clone();
        mutate(&mut bytes, &mut random);
        let version = Hash::of(&bytes);
        store.objects.lock().insert(format!("versions/{version}"), (bytes, 1));
        let reference = Reference::Version(version);
        if let Ok(publication) = Publication::open(store.clone(), &reference, &ReadOptions::default()) {
            opened += 1;
            let device = publication.device();
            for at in [0, 2093056, 4 << 20, SIZE - 4096] {
                let mut block = [0; 4096];
                let read = device.read_slice(at, &mut block);
                let right = truth.get((at >> 16) as usize).and_then(Option::as_ref);
                let right = right.map(|part| &part[at as usize % (64 << 10)..][..4096]);
                if read.is_ok() && device.len() == SIZE {
                    let is_zero = block.iter().all(|byte| *byte == 0);
                    assert!(is_zero || right == Some(&block[..]), "wrong bytes at {at}");
                }
            }
            let _ = Volume::open_device(Box::new(publication.device()), lanefs::Access::Read);
        }
        store.objects.lock().remove(&format!("versions/{version}"));
    }
    assert!(opened > 0, "some mutations are harmless");
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Seeded) {
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len() as u64) as usize;
        match random.below(8) {
            0 => bytes.truncate(at.max(1)),
            1 => bytes.extend_from_slice(&random.bits().to_le_bytes()),
            2 => bytes[at] = 0xff,
            3 => bytes[at] = 0,
            4 => {
                let end = bytes.len().min(at + 8);
                bytes[at..end].copy_from_slice(&random.bits().to_le_bytes()[..end - at]);
            }
            _ => bytes[at] ^= 1 << random.below(8),
        }
    }
}

#[test]
fn a_cache_is_shared_and_its_damage_is_fetched_again() {
    let (image, store) = published();
    let path = image.home.path().join("cache");
    let with_cache = || {
        let cache = Some(Arc::new(Cache::open(&path, 0).expect("a cache")));
        open_with(store.clone(), &ReadOptions { cache, memory: 0, ..ReadOptions::default() }).unwrap()
    };
    let first = with_cache();
    assert_same(&image, &first);
    // Without the store: all that was read is there, in another process as in this one.
    let second = with_cache();
    store.plant(|_, _, _| Err(StoreError::Failed("away".into())));
    assert_same(&image, &second);
    store.heal();

    let mut random = Seeded::new(4);
    let mut damaged = 0;
    for folder in std::fs::read_dir(&path).unwrap() {
        for file in std::fs::read_dir(folder.unwrap().path()).unwrap() {
            let file = file.unwrap().path();
            let mut bytes = std::fs::read(&file).unwrap();
            mutate(&mut bytes, &mut random);
            std::fs::write(&file, bytes).unwrap();
            damaged += 1;
        }
    }
    assert!(damaged > 10);
    let third = with_cache();
    assert_same(&image, &third);
    assert!(third.device().counts().requests > 0, "damage is fetched again");
    let fourth = with_cache();
    assert_same(&image, &fourth);
    assert_eq!(fourth.device().counts().requests, 0, "and kept");
}

#[test]
fn a_cache_that_cannot_be_written_does_no_harm() {
    let (image, store) = published();
    let path = image.home.path().join("cache");
    let cache = Arc::new(Cache::open(&path, 0).expect("a cache"));
    std::fs::remove_dir_all(&path).unwrap();
    let options = ReadOptions { cache: Some(cache), ..ReadOptions::default() };
    assert_same(&image, &open_with(store, &options).unwrap());
}

#[test]
fn threads_that_need_the_same_piece_fetch_it_once() {
    let image = Image::new(64 << 20, |volume| {
        volume.write_file("/file", text(&mut Seeded::new(8), 200_000)).unwrap();
    });
    let store = Arc::new(Memory::default());
    image.publish(&store).unwrap();
    let publication = open_with(store.clone(), &ReadOptions { ahead: 0, ..ReadOptions::default() }).unwrap();
    let barrier = Arc::new(std::sync::Barrier::new(8));
    store.reads.lock().clear();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                barrier.wait();
                publication.device().read_slice(0, &mut [0; 4096]).unwrap();
            });
        }
    });
    // One read of the page, and one of the piece.
    assert_eq!(store.reads.lock().len(), 2);
}

#[test]
fn verification_reads_each_of_the_pieces_with_the_same_bytes() {
    // All windows inside the file have zeros, which no window borrows, and so their pieces are the same, and
    // all of their frames.
    for (frame_bytes, blocks, least) in [(0, 64, 7), (32 << 10, 8, 56)] {
        verify_copies(frame_bytes, &vec![0; blocks * 4096], least);
    }
}

/// Publishes a file of zeros, and damages each copy of the part that has these zeros.
fn verify_copies(frame_bytes: u32, zeros: &[u8], least: usize) {
    let part = zstd::bulk::compress(zeros, 1).unwrap();
    let image = Image::new(SIZE, |volume| {
        volume.write_file("/a", vec![0; 512 * 4096]).unwrap();
    });
    let store = Arc::new(Memory::default());
    let options = PublishOptions { level: 1, frame_bytes, ..PublishOptions::default() };
    publish(&image.open(), store.clone(), "latest", &options, &|_, _| true).unwrap();
    let mut copies = Vec::new();
    for object in store.names().into_iter().filter(|name| name.starts_with("packs/")) {
        let content = store.content(&object);
        let is_there = |at: &usize| content[*at..].starts_with(&part);
        copies.extend((0..content.len()).filter(is_there).map(|at| (object.clone(), at)));
    }
    assert!(copies.len() >= least, "{copies:?}");
    let publication = open(&store).unwrap();
    for (object, at) in copies {
        let flip = || store.objects.lock().get_mut(&object).unwrap().0[at] ^= 1;
        flip();
        assert_eq!(publication.verify(&|_, _| true).unwrap().found, 1, "{object} at {at}");
        flip();
    }
    assert_eq!(publication.verify(&|_, _| true).unwrap().found, 0);
}

#[test]
fn a_damaged_piece_is_fetched_a_few_times_for_all_its_blocks() {
    let random = text(&mut Seeded::new(5), 1 << 20);
    let image = Image::new(SIZE, |volume| volume.write_file("/large", &random).map(drop).expect("written"));
    let store = Arc::new(Memory::default());
    image.publish(&store).unwrap();
    let volume = volume(&open_with(store.clone(), &forgetful()).unwrap());
    let ino = volume.resolve("/large").expect("there").ino;
    store.plant(|object, _, mut bytes| {
        if object.starts_with("packs/") {
            bytes.iter_mut().for_each(|byte| *byte ^= 1);
        }
        Ok(bytes)
    });
    store.reads.lock().clear();
    let mut buffer = vec![0; random.len()];
    volume.read(&lanefs::Caller::OWNER, ino, 0, &mut buffer).expect_err("wrong bytes");
    let mut counts = std::collections::HashMap::new();
    store.reads.lock().iter().for_each(|read| *counts.entry(read.clone()).or_insert(0) += 1);
    // Twice for the first reads, and twice for all of their blocks.
    let most = counts.values().max().copied();
    assert!(matches!(most, Some(1..=4)), "{most:?} requests for the same bytes");
}

#[test]
fn a_damaged_superblock_is_damage_of_the_volume() {
    let (_image, store) = published();
    let publication = open_with(store.clone(), &forgetful()).unwrap();
    store.plant(|_, _, _| Ok(Vec::new()));
    let error =
        publication.volume(lanefs::OpenOptions { access: lanefs::Access::Read, ..Default::default() });
    let Err(Error::Volume(error)) = error else { panic!("the volume opens") };
    assert_eq!(error.kind(), lanefs::ErrorKind::Damaged, "{error}");
}
