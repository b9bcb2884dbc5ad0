//! Writes the seed corpora again: `cargo run --example seeds` in `fuzz/`. It runs `xz`, `bzip2` and `lz4`.

use lanefs::{Access, Caller, CreateOptions, InodeSize, MemoryDevice, SetAttr, Volume, XattrMode};
use lanefs_publish::{
    Directory, JoinOptions, PublishOptions, Receipt, family_seed, join, publish_shard, testing,
};
use lanefs_testkit::volume::options;
use lanefs_transfer::{ArchiveTarget, Control, ExportOptions, Silent, export_archive};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Size of a shard.
const SHARD_BYTES: u64 = 16 << 20;

fn archives(folder: &Path) {
    let volume =
        Volume::create_memory(&options(lanefs_format::MIN_VOLUME, InodeSize::B256)).expect("a volume");
    volume.mkdir_all("/t/d", 0o755).expect("a directory");
    let file = volume.write_file("/t/d/file", b"content".as_slice()).expect("a file").ino;
    volume.setxattr(&Caller::OWNER, file, b"user.a", b"1", XattrMode::Set).expect("an attribute");
    let dir = volume.resolve("/t").expect("a directory").ino;
    volume.link(&Caller::OWNER, file, dir, b"link").expect("a link");
    volume.symlink_at(&Caller::OWNER, dir, b"symlink", b"d/file").expect("a symbolic link");
    let sparse = volume.create_file(&Caller::OWNER, dir, b"sparse", 0o600).expect("a file").ino;
    volume.write(&Caller::OWNER, sparse, 1 << 20, b"end").expect("bytes after a hole");
    let longer = SetAttr { size: Some(2 << 20), ..SetAttr::default() };
    volume.setattr(&Caller::OWNER, sparse, &longer).expect("a hole at the end");
    for name in ["tree.tar", "tree.tar.gz", "tree.tar.zst"] {
        let path = folder.join(name);
        let control = Control { interrupt: &|| false, progress: &Silent };
        let options = ExportOptions { overwrite: true, ..ExportOptions::default() };
        export_archive(&volume, b"/t", ArchiveTarget::File(&path), &options, control).expect("an archive");
    }
    // LaneFS reads these and does not write them.
    for (program, ending) in [("xz", "xz"), ("bzip2", "bz2"), ("lz4", "lz4")] {
        let plain = std::fs::File::open(folder.join("tree.tar")).expect("the archive");
        let packed = Command::new(program).arg("-c").stdin(plain).output().expect(program);
        assert!(packed.status.success(), "{program}: {}", String::from_utf8_lossy(&packed.stderr));
        std::fs::write(folder.join(format!("tree.tar.{ending}")), packed.stdout).expect("a seed");
    }
}

fn control(folder: &Path) {
    let frame = |kind: u8, content: &[u8]| {
        let mut frame = (content.len() as u32).to_le_bytes().to_vec();
        frame.push(kind);
        frame.extend_from_slice(content);
        frame
    };
    let request = |purpose: u8, content: &[u8]| {
        frame(2, &[b"lanefs-c\x05\0\0\0", &[0; 16][..], &[purpose], content].concat())
    };
    let line = b"\0\0\0\0\x02\0\0\0\x02\0\0\0ls\x02\0\0\0/a";
    let volume =
        Volume::create_memory(&options(lanefs_format::MIN_VOLUME, InodeSize::B256)).expect("a volume");
    let root = volume.root().0.to_le_bytes();
    let name = b"\x01\0\0\0d";
    let mkdir = frame(7, &[&[6][..], &root, name, &[0xed, 1]].concat());
    let lookup = frame(7, &[&[2][..], &root, name].concat());
    let write = frame(7, &[&[102][..], &root, &[0; 8], b"text"].concat());
    for (seed, bytes) in [
        ("execute", [request(2, line), frame(4, &[2, 1, 0, 0, 0, 0, 0, 0, 0]), frame(5, b"")].concat()),
        ("statistics", request(1, b"")),
        ("calls", [request(3, b""), frame(7, &[100]), mkdir, lookup, write, frame(7, &[105])].concat()),
    ] {
        std::fs::write(folder.join(seed), bytes).expect("a seed");
    }
}

/// A root of a join with two shards, and a piece in frames.
fn publication(folder: &Path) {
    let home = tempfile::tempdir().expect("a directory");
    let store = Arc::new(Directory::new(home.path()));
    let publish_options = PublishOptions { level: 3, now: 5, ..PublishOptions::default() };
    let receipt = |prefix: &str| {
        let (seed, uuid) = (Some(family_seed("seeds")), Some([prefix.len() as u8; 16]));
        let options = CreateOptions { seed, uuid, ..options(SHARD_BYTES, InodeSize::B256) };
        let device = MemoryDevice::new(vec![0; SHARD_BYTES as usize]);
        let volume = Volume::create_device(Box::new(device.clone()), &options).expect("a volume");
        volume.mkdir_all("/d", 0o755).expect("a directory");
        volume.close().expect("closed");
        let volume = Volume::open_device(Box::new(device), Access::Read).expect("a volume");
        let shard = publish_shard(&volume, store.clone(), &publish_options, &|_, _| true).expect("a shard");
        let (version, uuid) = (shard.version, shard.facts.uuid);
        Receipt { prefix: prefix.into(), version, uuid, files: 1, bytes: 4096 }
    };
    let receipts = [receipt("/a"), receipt("/a/d")];
    let options = JoinOptions { now: 7, ..JoinOptions::default() };
    let joined = join(store.clone(), "latest", &receipts, &options, &|_, _| true).expect("a join");
    for (name, version) in [("join", joined.version), ("shard", receipts[0].version)] {
        let root = home.path().join(format!("versions/{version}"));
        std::fs::copy(root, folder.join(name)).expect("a seed");
    }
    std::fs::write(folder.join("frames"), testing::frames_seed()).expect("a seed");
}

/// Numbers that fall on everything.
fn noise(folder: &Path, count: u8, len: usize) {
    for seed in 0..count {
        let mut numbers = lanefs_testkit::seeded::Seeded::new(seed.into());
        let bytes: Vec<u8> = (0..len).map(|_| numbers.bits() as u8).collect();
        std::fs::write(folder.join(format!("noise-{seed}")), bytes).expect("a seed");
    }
}

fn main() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let folder = |name: &str| {
        let folder = corpus.join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        folder
    };
    archives(&folder("archive"));
    control(&folder("control"));
    publication(&folder("publication"));
    noise(&folder("image"), 8, 40);
    noise(&folder("journal"), 8, 40);
    noise(&folder("answers"), 8, 200);
    let lines =
        ["ls -l '/a b'", "cp -r \"x\\\"y\" \\x41z # comment", "find / -name '*.rs' --json", "mkfs v.lane 1G"];
    for (number, line) in lines.iter().enumerate() {
        std::fs::write(folder("words").join(format!("line-{number}")), line).expect("a seed");
    }
}
