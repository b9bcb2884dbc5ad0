//! The device's answers are the CPU engine's, and each kernel's are its twin's.

use lanefs::{Caller, CreateOptions, InodeSize, ResolveOptions, Volume};
use lanefs_gpu::{Choice, Gpu};

const WHO: Caller = Caller::OWNER;

#[test]
fn a_device_answers_as_the_cpu_engine() {
    let gpu = Gpu::open(&Choice::Best).expect("a Vulkan device (Debian: apt install mesa-vulkan-drivers)");
    eprintln!("{:?} {:?}", gpu.info(), gpu.probes());
    let options = CreateOptions { size: 64 << 20, inode_size: InodeSize::B256, ..CreateOptions::default() };
    let volume = Volume::create_memory(&options).expect("volume");
    let mut paths = Vec::new();
    for dir in 0..20 {
        let path = format!("/d{dir}/e/f{dir}");
        volume.mkdir_all(&path, 0o755).expect("mkdir");
        for file in 0..dir * 100 {
            paths.push(format!("{path}/file-{file}"));
            volume.write_file(paths.last().expect("a path"), b"").expect("file");
        }
    }
    paths.push("/d1/../d2/./e".into());
    paths.push("/d1/none/e".into());
    volume.symlink(&WHO, volume.root(), b"link", b"/d3/e").expect("link");
    paths.push("/link/f3/file-7".into());
    for attributes in [false, true] {
        let options = ResolveOptions { attributes, ..ResolveOptions::default() };
        let mut mirrored = gpu.mirror(&volume, None).expect("mirror");
        let begin = std::time::Instant::now();
        let (found, report) = mirrored.resolve_batch(&options, &paths).expect("resolved");
        eprintln!("{:?} {report:?}", begin.elapsed());
        let begin = std::time::Instant::now();
        let (_, report) = mirrored.resolve_batch(&options, &paths).expect("resolved");
        eprintln!("{:?} {report:?}", begin.elapsed());
        let expected = volume.resolve_batch(&options, &paths).expect("resolved");
        for ((path, found), expected) in paths.iter().zip(&found).zip(&expected) {
            assert_eq!(found, expected, "{path}");
        }
        assert_eq!(report.by_host, 1);
    }
}
