//! Repairs that need space on volumes that have none, and names where all that come to mind are taken.

use crate::check::fixture::{OWNER, fill, options, orphan};
use crate::check::image::{Good, Overlay};
use crate::check::mutations::{metadata_of, mutate};
use crate::check::{Random, names};
use lanefs::format::dir::entry;
use lanefs::*;
use std::sync::Arc;
use std::time::Duration;

/// Names of each kind that are taken.
const TAKEN: u32 = 1200;

/// The bytes of a volume of 16 MiB that `make` has filled.
fn made(make: impl Fn(&Volume)) -> Vec<u8> {
    let device = Overlay::new(&Arc::new(vec![0; 16 << 20]));
    let created = Volume::create_device(Box::new(device.clone()), &options(16 << 20, InodeSize::B256));
    created.expect("create").close().expect("close");
    let options = OpenOptions { commit_every: Duration::from_secs(1 << 20), ..OpenOptions::default() };
    let volume = Volume::open_device(Box::new(device), options).expect("open");
    make(&volume);
    let mut bytes = volume.to_bytes().expect("bytes");
    let block = format::superblock::Superblock { clean: true, ..volume.superblock() }.encode();
    for at in [0, format::SUPERBLOCK_COPY as usize] {
        bytes[at..at + block.len()].copy_from_slice(&block);
    }
    bytes
}

/// Takes all space, that of metadata too.
fn use_up(volume: &Volume) {
    for piece in [64 << 10, 4096, 0] {
        let full = (0..).find_map(|i| volume.write_file(format!("/fill/{piece}-{i}"), vec![1; piece]).err());
        assert_eq!(full.map(|e| e.code()), Some(Code::NoSpace));
    }
}

#[test]
fn a_full_volume_is_mended_as_far_as_its_space_goes_and_then_to_the_end() {
    let images: u64 = std::env::var("LANEFS_CHECK_IMAGES").ok().and_then(|n| n.parse().ok()).unwrap_or(350);
    let good = Good::new(made(|volume| {
        fill(volume, 0);
        orphan(volume);
        volume.mkdir_all("/fill", 0o755).expect("mkdir");
        use_up(volume);
    }));
    let blocks = metadata_of(&good);
    let (mut failures, mut obstructed) = (Vec::new(), 0);
    for seed in 1..=images {
        let mut image = good.image();
        mutate(&mut image, &mut Random(seed), &blocks);
        image.seal();
        let open = |access| Volume::open_device(Box::new(image.device.clone()), access);
        let Ok(volume) = open(Access::Repair) else { continue };
        let report = match volume.check(true, &|_, _| {}) {
            Err(error) if error.to_string().contains("too damaged to mend") => continue,
            Err(error) => {
                failures.push(format!("seed {seed}: {error}"));
                continue;
            }
            Ok(report) if report.findings.iter().all(|finding| finding.repaired) => continue,
            Ok(report) => report,
        };
        obstructed += 1;
        let says = |text: &String| text.contains("space") && text.contains("grow the volume");
        if !report.obstacles.iter().any(says) {
            failures.push(format!("seed {seed}: {:?}, but {:?}", report.obstacles, names(&report)));
        }
        volume.close().expect("close");
        // As the message says: files are removed, and the repair goes on.
        let volume = open(Access::Write).expect("open");
        // The damage may have taken the files out of their directory.
        for path in ["/fill", "/big"] {
            let done = volume.remove_all(path);
            let is_gone = done.as_ref().is_err_and(|error| error.code() == Code::NotFound);
            assert!(done.is_ok() || is_gone, "seed {seed}, {path}: {done:?}");
        }
        volume.close().expect("close");
        let volume = open(Access::Repair).expect("open");
        let again = volume.check(true, &|_, _| {}).expect("check");
        if let Some(left) = again.findings.iter().find(|finding| !finding.repaired) {
            failures.push(format!("seed {seed}, with room: {left:?}, {:?}", again.obstacles));
        }
    }
    let text = failures.join("\n");
    assert!(failures.is_empty(), "{} failed, {obstructed} lacked space:\n{text}", failures.len());
    assert!(obstructed > 0, "no image lacked space");
}

#[test]
fn a_file_without_a_name_gets_one_where_all_that_come_to_mind_are_taken() {
    let number = |stem: &str, i: u32| if i == 0 { stem.to_owned() } else { format!("{stem}-{i}") };
    for taken in ["lost+found", "inode"] {
        let inodes = parking_lot::Mutex::new((0, 0, 0));
        let good = Good::new(made(|volume| {
            let dir = volume.mkdir_all("/dir", 0o755).expect("mkdir").ino;
            let lost = volume.write_file("/dir/lost", b"its content").expect("write").ino;
            let other = volume.write_file("/dir/other", b"").expect("write").ino;
            *inodes.lock() = (dir.0, lost.0, other.0);
            for i in 0..TAKEN {
                let path = match taken {
                    "inode" => format!("/lost+found/{}", number(&format!("inode-{}", lost.0), i)),
                    _ => format!("/{}", number("lost+found", i)),
                };
                if i == 0 && taken == "inode" {
                    volume.mkdir_all("/lost+found", 0o700).expect("mkdir");
                }
                volume.write_file(path, b"").expect("write");
            }
        }));
        let (dir, lost, other) = *inodes.lock();
        let mut image = good.image();
        let at = crate::check::faults::entry_of(&image, dir, lost);
        image.put(at, entry::INODE, other);
        let volume = image.open();
        let report = volume.check(true, &|_, _| {}).expect("check");
        assert!(report.findings.iter().all(|f| f.repaired), "{taken}: {:?}", report.obstacles);
        let found = crate::check::fixture::tree(&volume).into_iter().find(|(_, _, ino)| *ino == lost);
        let path = String::from_utf8(found.expect("a name").0).expect("text");
        assert!(path.starts_with("/lost+found"), "{path}");
        let attr = volume.resolve(&path).expect("resolve");
        let mut content = [0; 11];
        assert_eq!(volume.read(&OWNER, attr.ino, 0, &mut content).expect("read"), 11);
        assert_eq!(&content, b"its content");
    }
}
