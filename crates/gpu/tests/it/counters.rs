//! Counters that need no GPU: registers, spills, scratch memory and code of each kernel, as the compiler of
//! Mesa's driver for AMD gives them, and the memory that a lookup reads, as its twin counts it.
//!
//! `make gpu-report` prints them. (No compiler for NVIDIA runs without its driver, so its devices are not
//! counted here.)

mod radv;

use crate::support::query_of_root;
use lanefs::format::InodeSize;
use lanefs::{Code, Column, ColumnSet, CreateOptions, Volume};
use lanefs_gpu::KERNELS;
use lanefs_gpu::testing::{ColumnLayout, Requests};
use lanefs_gpu::twin::headers::dir_table::DirTable;
use lanefs_gpu::twin::host::{Counting, HostCopy, Reads, SECTOR, WithCache};
use lanefs_gpu::twin::kernels::columns::columns;
use lanefs_gpu::twin::kernels::learn::learn;
use lanefs_gpu::twin::kernels::lookup::{PathResult, lookup};
use lanefs_gpu::twin::kernels::warm::warm;
use radv::Counters;
use std::path::Path;

/// Families of AMD: RDNA 2 and RDNA 3.
const FAMILIES: [&str; 2] = ["navi21", "gfx1100"];

/// Bounds of the numbers of a kernel, by family: today's, rounded up a little, for versions of Mesa differ.
/// They only go down, and the waves, of which there must be as many, only up.
const CEILINGS: &[(&str, [Counters; 2])] = &[
    ("build", [at_most(24, 0, 0, 0, 13_000, 8), at_most(24, 0, 0, 0, 13_000, 8)]),
    ("columns", [at_most(20, 0, 0, 0, 2_300, 32), at_most(28, 0, 0, 0, 2_350, 32)]),
    ("fill", [at_most(44, 0, 0, 0, 3_000, 24), at_most(48, 0, 0, 0, 3_050, 28)]),
    ("find", [at_most(60, 0, 0, 0, 4_700, 16), at_most(64, 0, 0, 0, 4_900, 22)]),
    ("gather", [at_most(32, 0, 0, 0, 21_000, 12), at_most(32, 0, 0, 0, 21_500, 12)]),
    ("hash_join", [at_most(44, 0, 0, 0, 5_500, 22), at_most(48, 0, 0, 0, 5_500, 28)]),
    ("hash_text", [at_most(44, 0, 0, 0, 5_800, 22), at_most(48, 0, 0, 0, 5_800, 28)]),
    ("leaves", [at_most(20, 0, 0, 0, 850, 32), at_most(24, 0, 0, 0, 850, 32)]),
    ("learn", [at_most(28, 0, 0, 0, 2_150, 28), at_most(28, 0, 0, 0, 2_150, 28)]),
    ("lookup", [at_most(44, 0, 0, 0, 4_550, 22), at_most(48, 0, 0, 0, 4_600, 28)]),
    ("merge", [at_most(20, 0, 0, 0, 1_100, 32), at_most(24, 0, 0, 0, 1_100, 32)]),
    ("pack", [at_most(20, 0, 0, 0, 380, 32), at_most(16, 0, 0, 0, 400, 32)]),
    ("scan", [at_most(36, 0, 0, 0, 4_550, 28), at_most(36, 0, 0, 0, 4_600, 32)]),
    ("seek", [at_most(52, 0, 0, 0, 13_400, 18), at_most(52, 0, 0, 0, 13_600, 26)]),
    ("stat", [at_most(20, 0, 0, 0, 1_150, 32), at_most(20, 0, 0, 0, 1_150, 32)]),
    ("walk", [at_most(124, 0, 4, 0, 21_700, 8), at_most(124, 0, 4, 0, 22_200, 12)]),
    ("warm", [at_most(76, 0, 0, 0, 15_200, 12), at_most(76, 0, 0, 0, 15_500, 18)]),
    ("best", [at_most(20, 0, 0, 0, 700, 32), at_most(28, 0, 0, 0, 720, 32)]),
    // The cells in shared memory bound its waves.
    ("score", [at_most(36, 0, 0, 0, 1_250, 8), at_most(40, 0, 0, 0, 1_250, 8)]),
    ("tally", [at_most(12, 0, 0, 0, 500, 14), at_most(16, 0, 0, 0, 500, 14)]),
];

/// Bounds of the reads of a path of six components, on the mean: of its existence, with some of its
/// attributes and with all by the directory-path table and the directory cache, and of its existence by the
/// trees. They only go down.
const READS_EXISTS: Reads = Reads { sectors: 10, loads: 38, bytes: 270 };
const READS_SOME: Reads = Reads { sectors: 14, loads: 45, bytes: 330 };
const READS_ALL: Reads = Reads { sectors: 15, loads: 61, bytes: 442 };
const READS_TREE: Reads = Reads { sectors: 26, loads: 130, bytes: 800 };

/// Files of the volume whose paths are looked up.
const FILES: u32 = 20_000;

const fn at_most(
    vgprs: u64,
    vgpr_spills: u64,
    sgpr_spills: u64,
    scratch: u64,
    code: u64,
    waves: u64,
) -> Counters {
    Counters { vgprs, vgpr_spills, sgpr_spills, scratch, code, waves }
}

/// Returns the numbers that are worse than their bounds.
fn excess(found: &Counters, bound: &Counters) -> Vec<String> {
    let numbers = |counters: &Counters| {
        let Counters { vgprs, vgpr_spills, sgpr_spills, scratch, code, .. } = *counters;
        [vgprs, vgpr_spills, sgpr_spills, scratch, code]
    };
    let names = ["VGPRs", "spilled VGPRs", "spilled SGPRs", "bytes of scratch memory", "bytes of code"];
    let each = names.into_iter().zip(numbers(found)).zip(numbers(bound));
    let above = each.filter(|((_, found), most)| found > most);
    let mut said: Vec<_> =
        above.map(|((name, found), most)| format!("{found} {name}, at most {most}")).collect();
    if found.waves < bound.waves {
        said.push(format!("{} waves, at least {}", found.waves, bound.waves));
    }
    said
}

fn bound(kernel: &str, family: usize) -> &'static Counters {
    let row = CEILINGS.iter().find(|(name, _)| *name == kernel);
    &row.unwrap_or_else(|| panic!("the kernel {kernel} has no ceilings")).1[family]
}

#[test]
fn radv_counts_in_a_process_of_its_own() {
    radv::count_as_child();
}

#[test]
fn no_kernel_needs_more_than_its_ceilings() {
    let shaders = Path::new(env!("CARGO_MANIFEST_DIR")).join("shaders");
    let mut wrong = Vec::new();
    for (family, name) in FAMILIES.into_iter().enumerate() {
        let (driver, counted) = radv::count(name, &shaders);
        println!("\n{name}, by {driver}, workgroups of {} invocations\n", radv::WORKGROUP);
        println!("| kernel | VGPRs | spilled VGPRs | spilled SGPRs | scratch, bytes | code, bytes | waves |");
        println!("|---|---|---|---|---|---|---|");
        for kernel in KERNELS.iter().map(|kernel| kernel.name) {
            let one = counted.iter().find(|(name, _)| name == kernel);
            let Counters { vgprs, vgpr_spills, sgpr_spills, scratch, code, waves } =
                one.expect("each kernel").1;
            println!(
                "| `{kernel}` | {vgprs} | {vgpr_spills} | {sgpr_spills} | {scratch} | {code} | {waves} |"
            );
        }
        assert_eq!(counted.len(), KERNELS.len(), "a compiled kernel that is not in the list");
        for (kernel, found) in &counted {
            let excess = excess(found, bound(kernel, family));
            wrong.extend(excess.iter().map(|excess| format!("{kernel}, {name}, by {driver}: {excess}")));
        }
    }
    assert_eq!(CEILINGS.len(), KERNELS.len(), "ceilings of a kernel that does not exist");
    assert!(wrong.is_empty(), "the ceilings are of Mesa 22.3.6:\n{}", wrong.join("\n"));
}

#[test]
fn a_large_array_in_a_kernel_is_seen() {
    let right = "    Positions(p.answers).quad[i] = block_at(";
    let wrong = "    uint64_t large[256];
    for (uint k = 0u; k < 256u; k++) {
        large[(k * 17u + p.count) % 256u] = request.map + uint64_t(k);
    }
    Positions(p.answers).quad[i] = large[depth % 256u] + block_at(";
    let code = crate::support::faulty("leaves", "leaves.comp", right, wrong);
    let dir = tempfile::tempdir().expect("a directory for temporary files");
    std::fs::write(dir.path().join("leaves.spv"), code).expect("written");
    for (family, name) in FAMILIES.into_iter().enumerate() {
        let (_, counted) = radv::count(name, dir.path());
        let [(kernel, found)] = &counted[..] else { panic!("{counted:?}") };
        let excess = excess(found, bound(kernel, family)).concat();
        assert!(excess.contains("scratch memory"), "{name}: {found:?} is not seen: {excess}");
    }
}

/// The path of a file, of six components.
fn path(file: u32) -> String {
    let (set, class, part) = (file % 20, file / 20 % 20, file / 400 % 2);
    format!("/data/train/set-{set:02}/class-{class:02}/part-{part}/sample-{file:06}.bin")
}

/// Reads of the lookups of several paths.
#[derive(Default)]
struct Sum {
    reads: Reads,
    paths: u32,
}

impl Sum {
    /// Adds the reads of a path: by the twin, and those that the twin does not make.
    fn add(&mut self, parts: &[Reads]) {
        for part in parts {
            self.reads.sectors += part.sectors;
            self.reads.loads += part.loads;
            self.reads.bytes += part.bytes;
        }
        self.paths += 1;
    }

    fn means(&self) -> [f64; 3] {
        numbers(&self.reads).map(|sum| sum as f64 / f64::from(self.paths))
    }

    /// Returns the means that are above their bounds.
    fn excess(&self, most: &Reads) -> Vec<String> {
        let each = ["sectors", "loads", "bytes"].into_iter().zip(self.means()).zip(numbers(most));
        let above = each.filter(|((_, mean), most)| *mean > *most as f64);
        above.map(|((name, mean), most)| format!("{mean:.2} {name}, at most {most}")).collect()
    }
}

fn numbers(reads: &Reads) -> [u64; 3] {
    [reads.sectors as u64, reads.loads, reads.bytes]
}

/// Reads of the kernels' input, which the twin has as a slice: offset and length, and the text by words. The
/// path of the directory is read to be hashed and to be compared.
fn of_input(file: u32, path: &str) -> Reads {
    // In the text of a batch the paths lie one after the other, with a byte between them.
    let len = path.len() as u64;
    let start = u64::from(file) * (len + 1);
    let sectors = 1 + (start + len - 1) / SECTOR - start / SECTOR + 1;
    let words = 2 * len.div_ceil(4);
    Reads { sectors: sectors as usize, loads: 1 + words, bytes: 8 + words * 4 }
}

/// Reads of `columns`: the attributes of the inode that was found, and the answer, whose sector two paths
/// share.
fn of_columns(memory: WithCache<'_>, found: PathResult, wanted: ColumnSet) -> Reads {
    let counting = Counting::new(memory);
    let layout = ColumnLayout::new(4, wanted);
    columns(&counting, InodeSize::B256, &layout, &[found]);
    let Reads { sectors, loads, bytes } = counting.reads();
    Reads { sectors: sectors + 1, loads: loads + 1, bytes: bytes + 16 }
}

#[test]
fn a_path_reads_few_sectors() {
    let options = CreateOptions { size: 64 << 20, ..crate::support::options(InodeSize::B256) };
    let volume = Volume::create_memory(&options).expect("volume");
    for path in (0..FILES).map(path) {
        let (dir, _) = path.rsplit_once('/').expect("a directory");
        volume.mkdir_all(dir, 0o755).expect("directories");
        volume.write_file(&path, b"a sample of a few bytes").expect("file");
    }
    let memory = HostCopy::of(&volume).expect("copied");
    let query = query_of_root(&volume);
    let empty = memory.empty_cache(2 * FILES);
    let mut full = empty.clone();
    full.cache.claim += 1;
    warm(&WithCache { memory: &memory, snapshot: &empty }, &query, &mut full.cache, memory.blocks());
    let all: Vec<_> = (0..FILES).map(path).collect();
    full.directories = DirTable::empty(4096);
    let mut walked = Requests::default();
    for path in &all {
        lookup(&WithCache { memory: &memory, snapshot: &full }, &query, path.as_bytes(), &mut walked);
        walked.path += 1;
    }
    learn(&query, &mut full.directories, &all, &walked.learns);
    let none = memory.empty_cache(0);
    let [mut exists, mut some, mut attributes, mut tree] = [(); 4].map(|()| Sum::default());
    let few = ColumnSet::of(&[Column::Mode, Column::Size, Column::Mtime]);
    for file in (0..FILES).step_by(7) {
        let path = path(file);
        let input = of_input(file, &path);
        let reads = |snapshot| {
            let counting = Counting::new(WithCache { memory: &memory, snapshot });
            let mut requests = Requests::default();
            let found = lookup(&counting, &query, path.as_bytes(), &mut requests);
            assert_eq!(found.code, Code::Success, "{path}");
            (found, counting.reads(), requests.walks == 0)
        };
        let (found, by_tables, is_known) = reads(&full);
        assert!(is_known, "{path} is not in the tables");
        exists.add(&[by_tables, input]);
        let memory = || WithCache { memory: &memory, snapshot: &none };
        some.add(&[by_tables, input, of_columns(memory(), found, few)]);
        attributes.add(&[by_tables, input, of_columns(memory(), found, ColumnSet::ALL)]);
        tree.add(&[reads(&none).1, input]);
    }
    println!(
        "\nA path of six components, alone, on a volume of {FILES} files, by the twins of `lookup` and `walk`\n"
    );
    println!("| answer | sectors of {SECTOR} bytes | loads | bytes loaded |");
    println!("|---|---|---|---|");
    for (what, sum, most) in [
        ("existence, by the tables", &exists, &READS_EXISTS),
        ("mode, size and time, by the tables", &some, &READS_SOME),
        ("all attributes, by the tables", &attributes, &READS_ALL),
        ("existence, by the trees", &tree, &READS_TREE),
    ] {
        let [sectors, loads, bytes] = sum.means();
        println!("| {what} | {sectors:.2} | {loads:.2} | {bytes:.1} |");
        assert_eq!(sum.excess(most), [""; 0], "{what}");
    }
    // A cache that finds nothing is seen.
    assert_eq!(tree.excess(&READS_EXISTS).len(), 3);
}
