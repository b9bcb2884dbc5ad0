//! Code of all tests of the GPU engine: volumes with all forms of directories, paths of every kind.

#![allow(dead_code, unreachable_pub, reason = "a module of each test, which uses some of it")]

use lanefs::{
    BatchReport, Caller, Code, CreateOptions, Engine, InodeSize, NameSet, NamesUnder, PathSet, Resolution,
    Resolutions, ResolveOptions, Volume,
};
use lanefs_gpu::twin::kernels::lookup::LookupQuery;
use lanefs_gpu::{Gpu, GpuOptions, MirrorOptions, Probes};
use lanefs_testkit::seeded::Seeded;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, OnceLock};

pub const CALLER: Caller = Caller::OWNER;

/// Two names that have the same hash with the seed of [`options`]; the first one exists.
pub const SAME_HASH: [&str; 2] = ["collision-0061688", "collision-0088900"];

/// Returns the sources of this crate: texts as people have them.
pub fn sources() -> Vec<Vec<u8>> {
    let (mut folders, mut files) = (vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("sources") {
            let path = entry.expect("a source").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(std::fs::read(path).expect("a source"));
            }
        }
    }
    files
}

/// Returns llvmpipe, or the best device. The tests of a program share one for each size of workgroups:
/// opening one compiles and probes every kernel, which takes longer than most tests. Over copies one serves
/// all of them: no copy depends on the size.
pub fn gpu(workgroup: u32) -> Arc<Gpu> {
    let workgroup = if is_own_memory() { 64 } else { workgroup };
    static OPEN: Mutex<BTreeMap<u32, Arc<Gpu>>> = Mutex::new(BTreeMap::new());
    let mut open_devices = OPEN.lock();
    Arc::clone(open_devices.entry(workgroup).or_insert_with(|| Arc::new(open(workgroup))))
}

/// Opens a device of one's own.
pub fn open(workgroup: u32) -> Gpu {
    let options = GpuOptions {
        workgroup: Some(workgroup),
        guards: true,
        own_memory: is_own_memory(),
        ..GpuOptions::default()
    };
    Gpu::open_with(&options).expect(
        "a Vulkan device is needed (Debian: apt install libvulkan1 mesa-vulkan-drivers; make setup does it)",
    )
}

/// Returns a device whose memory the host does not map. The tests of a program share it.
pub fn over_copies() -> &'static Gpu {
    static OPEN: OnceLock<Gpu> = OnceLock::new();
    OPEN.get_or_init(|| {
        let options = GpuOptions { guards: true, own_memory: true, ..GpuOptions::default() };
        Gpu::open_with(&options).expect("a Vulkan device")
    })
}

/// Tells whether [`own_memory`](crate::own_memory) executes this program, on a device whose memory the host
/// does not map.
pub fn is_own_memory() -> bool {
    std::env::var_os(crate::own_memory::SWITCH).is_some()
}

/// A mirror with a directory cache.
pub fn cached() -> MirrorOptions {
    MirrorOptions::default()
}

/// A mirror without one.
pub fn uncached() -> MirrorOptions {
    MirrorOptions { cache: 0.0, ..MirrorOptions::default() }
}

pub fn options(inode_size: InodeSize) -> CreateOptions {
    CreateOptions { size: 48 << 20, inode_size, seed: Some([7; 16]), ..CreateOptions::default() }
}

/// Returns a device with other code of a kernel, if it passes these probes. All are one device, for which the
/// driver compiles the other kernels once.
pub fn planted(kernel: &str, code: &[u8], probes: Probes<'_>) -> lanefs_gpu::Result<Gpu> {
    static SOUND: OnceLock<Gpu> = OnceLock::new();
    let sound = SOUND.get_or_init(|| {
        let options = GpuOptions { probes: Probes::None, ..GpuOptions::default() };
        Gpu::open_with(&options).expect("a Vulkan device")
    });
    sound.with_kernel(kernel, code, probes)
}

/// Compiles the kernel with a part of its source replaced.
pub fn faulty(kernel: &str, file: &str, right: &str, wrong: &str) -> Vec<u8> {
    let shaders = Path::new(env!("CARGO_MANIFEST_DIR")).join("shaders");
    let dir = tempfile::tempdir().expect("a directory for temporary files");
    for source in std::fs::read_dir(&shaders).expect("shaders") {
        let source = source.expect("a shader").path();
        std::fs::copy(&source, dir.path().join(source.file_name().expect("named"))).expect("copied");
    }
    let source = std::fs::read_to_string(shaders.join(file)).expect("source");
    assert_eq!(source.matches(right).count(), 1, "{right}");
    std::fs::write(dir.path().join(file), source.replace(right, wrong)).expect("written");
    let out = dir.path().join("faulty.spv");
    let mut glslc = Command::new("glslc");
    glslc
        .args(["--target-env=vulkan1.2", "-O0", "-o"])
        .arg(&out)
        .arg(dir.path().join(kernel).with_extension("comp"));
    assert!(glslc.status().expect("glslc").success());
    std::fs::read(&out).expect("compiled")
}

/// Directories of every form, below one another, with links; all paths in them.
pub fn fill(volume: &Volume, numbers: &mut Seeded) -> Vec<Vec<u8>> {
    let mut dirs = vec![(volume.root(), Vec::new())];
    let [there, _] = SAME_HASH.map(str::as_bytes);
    volume.create_file(&CALLER, volume.root(), there, 0o644).expect("file");
    // Links within links, with a remaining path after each.
    for (name, to) in [("m", "."), ("n", "m/m/dir-0/../"), ("o", "n/m/n")] {
        volume.symlink_at(&CALLER, volume.root(), name.as_bytes(), to.as_bytes()).expect("symlink");
    }
    let mut paths = vec![[b"/", there].concat()];
    for (number, files) in [0, 1, 7, 8, 9, 27, 28, 29, 200, 256, 257, 700, 3000].into_iter().enumerate() {
        let (parent, above) = numbers.pick(&dirs).clone();
        let name = format!("dir-{number}").into_bytes();
        let made = volume.mkdir(&CALLER, parent, &name, 0o755).expect("mkdir").ino;
        let path = [&above[..], b"/", &name].concat();
        for file in 0..files {
            let long = numbers.length(200) as usize;
            let name = [format!("{file}-").into_bytes(), vec![b'a' + (file % 26) as u8; long]].concat();
            paths.push([&path[..], b"/", &name].concat());
            match numbers.below(10) {
                0 => {
                    let to = target(&paths, &name, numbers);
                    volume.symlink_at(&CALLER, made, &name, &to).expect("symlink");
                }
                1 => drop(volume.mkdir(&CALLER, made, &name, 0o700).expect("mkdir")),
                _ => drop(volume.create_file(&CALLER, made, &name, 0o644).expect("file")),
            }
        }
        paths.push(path.clone());
        dirs.push((made, path));
    }
    paths
}

/// Returns the target of a link: a path that exists, a relative one, one through other links, the link
/// itself, none.
fn target(paths: &[Vec<u8>], name: &[u8], numbers: &mut Seeded) -> Vec<u8> {
    let path = numbers.pick(paths);
    let text = match numbers.below(12) {
        0 => name.to_vec(),
        1 => b"/dir-0/../dir-1".to_vec(),
        2 => b"..".to_vec(),
        3 => b"../".to_vec(),
        4 => b".//".to_vec(),
        5 => b"/".to_vec(),
        6 => [&path[..], b"/"].concat(),
        7 => [b"..".as_slice(), path].concat(),
        8 => [&path[..], b"/../."].concat(),
        9 => b"no such file".to_vec(),
        _ => path.clone(),
    };
    text[..text.len().min(1000)].to_vec()
}

/// Resolves paths as names under directories: each directory is there once, and the numbers come in no order.
pub fn by_names<E: Engine + ?Sized>(
    engine: &E,
    options: &ResolveOptions,
    asked: &[Vec<u8>],
) -> lanefs::Result<(Vec<Resolution>, BatchReport)> {
    let set: PathSet = asked.iter().collect();
    let cut = NameSet::of_paths(set.view());
    let view = cut.view();
    let directory =
        |index| view.directories().get(view.number(index).expect("a number")).expect("a directory");
    let all: BTreeSet<&[u8]> = (0..view.len()).map(directory).collect();
    let directories: PathSet = all.iter().copied().collect();
    let number_of: BTreeMap<&[u8], u32> = all.into_iter().zip(0..).collect();
    let numbers: Vec<u32> = (0..view.len()).map(|index| number_of[directory(index)]).collect();
    let names = NamesUnder::new(&directories, &numbers, view.names()).expect("names");
    let mut list = vec![Resolution::failed(Code::NotResident); asked.len()];
    let mut rows = Resolutions { list: &mut list, attributes: options.attributes };
    let report = engine.resolve_names(options, names, &mut rows)?;
    Ok((list, report))
}

/// Hits, misses, and texts that are not a path.
pub fn questions(paths: &[Vec<u8>], count: usize, numbers: &mut Seeded) -> Vec<Vec<u8>> {
    let mut asked: Vec<Vec<u8>> = vec![Vec::new(), b"/".into(), b"//".into(), b".".into(), b"../..".into()];
    asked.extend(["/n/dir-0", "/o/dir-0", "/o/n/dir-0/../o/", "/o/dir-0/none", "n/none/n"].map(Into::into));
    asked.extend(SAME_HASH.map(|name| [b"/", name.as_bytes()].concat()));
    while asked.len() < count {
        let path = numbers.pick(paths);
        let other = numbers.pick(paths);
        let cut = numbers.below(path.len() as u64 + 1) as usize;
        asked.push(match numbers.below(14) {
            0 | 1 => [&path[..], b"/"].concat(),
            12 => [&path[..], b"x"].concat(),
            13 => [&path[..], b"/../", other.rsplit(|byte| *byte == b'/').next().unwrap_or(b"")].concat(),
            2 => path[..cut].to_vec(),
            3 => [&path[..], b"/below"].concat(),
            4 => [&path[..], b"/..", other].concat(),
            5 => [b"/./".as_slice(), path].concat(),
            6 => {
                path.iter().flat_map(|byte| if *byte == b'/' { vec![b'/'; 3] } else { vec![*byte] }).collect()
            }
            7 => path.iter().skip(1).copied().collect(),
            8 => [&path[..cut], b"\0", &path[cut..]].concat(),
            9 => [&path[..], &b"/n".repeat(numbers.below(3000) as usize)].concat(),
            _ => path.clone(),
        });
    }
    asked
}

/// A question of the twins from the root directory of a volume with inodes of 256 bytes.
pub fn query_of_root(volume: &Volume) -> LookupQuery {
    LookupQuery {
        root: volume.root().0,
        base: volume.root().0,
        seed: volume.superblock().seed,
        inode_size: InodeSize::B256,
        follow: true,
        user: None,
        fuel: 1 << 20,
    }
}
