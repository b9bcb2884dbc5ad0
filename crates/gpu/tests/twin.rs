//! A kernel and its twin give the same bits, also for bytes that make no sense, and the twin's reads are counted.

mod support;

use lanefs::{InodeSize, Volume};
use lanefs_gpu::twin::Memory;
use lanefs_gpu::twin::lookup::{Question, lookup};
use lanefs_gpu::{Choice, Error, Gpu};
use lanefs_testkit::mutate::{bases, hostile};
use lanefs_testkit::seeded::Seeded;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::process::Command;
use support::{HostCopy, WHO, fill, gpu, options, questions};

fn question(volume: &Volume, follow: bool) -> Question {
    let superblock = volume.superblock();
    let root = volume.root().0;
    Question { root, base: root, seed: superblock.seed, inode_size: superblock.inode_size, follow }
}

fn compare(gpu: &Gpu, volume: &Volume, asked: &[Vec<u8>], what: &str) {
    let copy = HostCopy::of(volume);
    for follow in [false, true] {
        let question = question(volume, follow);
        let found = gpu.mirror(volume, None).and_then(|mut mirrored| mirrored.found(&question, asked));
        for (path, found) in asked.iter().zip(found.expect("the device")) {
            assert_eq!(found, lookup(&copy, &question, path), "{what}: {}", path.escape_ascii());
        }
    }
}

#[test]
fn the_kernel_is_equal_to_its_twin_on_sound_volumes() {
    let gpu = gpu(64);
    for (seed, size) in [(1, InodeSize::B128), (2, InodeSize::B256)] {
        let numbers = &mut Seeded::new(seed);
        let volume = Volume::create_memory(&options(size)).expect("volume");
        let paths = fill(&volume, numbers);
        compare(&gpu, &volume, &questions(&paths, 5000, numbers), "sound");
    }
}

#[test]
fn the_kernel_is_equal_to_its_twin_on_hostile_images() {
    let gpu = gpu(64);
    let bases = bases().expect("sound volumes can be made");
    let mut opened = 0;
    for seed in 0..250 {
        let base = &bases[seed as usize % bases.len()];
        let Ok(volume) = Volume::from_bytes(hostile(base, seed)) else { continue };
        let _ = volume.load_metadata(&|_, _| true);
        let numbers = &mut Seeded::new(seed);
        let paths = [base.paths.clone(), vec![b"/d/no such file".to_vec()]].concat();
        let asked = questions(&paths, 400, numbers);
        compare(&gpu, &volume, &asked, &format!("{} {seed}", base.name));
        opened += 1;
    }
    assert!(opened > 100, "only {opened} images could be opened");
}

/// Counts the sectors of 32 B that were read.
struct Counting<'m> {
    memory: &'m HostCopy,
    sectors: RefCell<BTreeSet<u64>>,
}

impl Memory for Counting<'_> {
    fn word(&self, at: u64) -> Option<u32> {
        self.sectors.borrow_mut().insert(at / 32);
        self.memory.word(at)
    }
}

/// Bytes that a name of up to 24 bytes needs, through tree and region index: at most ten sectors, whatever the directory's size.
#[test]
fn a_lookup_reads_few_sectors_whatever_the_size_of_the_directory() {
    for files in [1, 28, 29, 256, 2_000, 20_000] {
        let volume = Volume::create_memory(&options(InodeSize::B256)).expect("volume");
        let dir = volume.mkdir(&WHO, volume.root(), b"d", 0o755).expect("mkdir").ino;
        let name = |number: u32| format!("a-file-numbered-{number:06}");
        for number in 0..files {
            volume.create_file(&WHO, dir, name(number).as_bytes(), 0o644).expect("file");
        }
        let memory = HostCopy::of(&volume);
        let question = Question { base: dir.0, ..question(&volume, true) };
        let mut sum = 0;
        for number in (0..files).step_by(files.div_ceil(500) as usize) {
            let counting = Counting { memory: &memory, sectors: RefCell::default() };
            let found = lookup(&counting, &question, name(number).as_bytes());
            assert_eq!(found.code, lanefs::Code::Success);
            // One is that of the inode which was found.
            sum += counting.sectors.into_inner().len() - 1;
        }
        let mean = sum as f64 / f64::from(files.min(500));
        eprintln!("{files} files: {mean:.2} sectors");
        assert!(mean <= 10.0, "{files} files: {mean:.2} sectors");
    }
}

/// Compiles the kernel with a part of its source replaced.
fn faulty(right: &str, wrong: &str) -> Vec<u8> {
    let shaders = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("shaders");
    let source = std::fs::read_to_string(shaders.join("lookup.comp")).expect("source");
    assert_eq!(source.matches(right).count(), 1, "{right}");
    let dir = tempfile::tempdir().expect("a directory for temporary files");
    let (file, out) = (dir.path().join("faulty.comp"), dir.path().join("faulty.spv"));
    std::fs::write(&file, source.replace(right, wrong)).expect("written");
    let mut glslc = Command::new("glslc");
    glslc.args(["--target-env=vulkan1.2", "-O", "-I"]).arg(&shaders).arg("-o").arg(&out).arg(&file);
    assert!(glslc.status().expect("glslc").success());
    std::fs::read(&out).expect("compiled")
}

#[test]
fn a_kernel_with_a_wrong_comparison_does_not_pass_its_probe() {
    for (right, wrong) in [
        ("uint(word) != hash || entry_length != length", "uint(word) == hash || entry_length != length"),
        ("& mask) != 0u", "& mask) == 1u"),
        ("if (tag != hash >> 24) {", "if (tag == hash >> 24) {"),
        ("there) <= hash; k++", "there) < hash; k++"),
        ("is_last ? CODE_NOT_FOUND : CODE_COMPONENT_NOT_FOUND", "CODE_NOT_FOUND"),
        ("return failed(CODE_NOT_DIRECTORY);\n    }\n    return Answer", "}\n    return Answer"),
    ] {
        let opened = Gpu::with_code(&Choice::Best, 64, &faulty(right, wrong));
        assert!(matches!(opened, Err(Error::Wrong { kernel: "lookup", .. })), "{wrong} passes the probe");
    }
}
