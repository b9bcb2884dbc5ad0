//! The nodes of `/dev` by which drivers reach a device. Reading their names takes microseconds, where
//! Vulkan's loader, which starts every driver, takes tenths of a second.

use std::fs;
use std::path::Path;

/// Beginnings of the names of nodes: NVIDIA's driver, also on Tegra; WSL; Mali, Adreno and PowerVR with their
/// makers' drivers. All drivers of the Linux kernel's own have a render node in `dri`.
const NODES: [&str; 7] = ["nvidiactl", "nvhost", "nvgpu", "dxg", "mali", "kgsl", "pvr"];

/// Tells whether this machine, or this container, can have a device that is hardware. In doubt it can.
pub(crate) fn may_have_hardware() -> bool {
    may_have_hardware_in(Path::new("/dev"))
}

fn may_have_hardware_in(dev: &Path) -> bool {
    has_name(dev, |name| NODES.iter().any(|node| name.starts_with(node)))
        || (dev.join("dri").exists() && has_name(&dev.join("dri"), |name| name.starts_with("renderD")))
}

/// Tells whether a directory has such a name, or cannot be read.
fn has_name(directory: &Path, is_such: impl Fn(&str) -> bool) -> bool {
    let Ok(mut entries) = fs::read_dir(directory) else { return true };
    entries.any(|entry| entry.is_ok_and(|entry| entry.file_name().to_str().is_some_and(&is_such)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_has_a_node() {
        let dev = tempfile::tempdir().expect("a directory");
        let has = || may_have_hardware_in(dev.path());
        let node = |name: &str| fs::write(dev.path().join(name), "").expect("a node");
        node("null");
        assert!(!has());
        // A display without a processor for more.
        fs::create_dir(dev.path().join("dri")).expect("a directory");
        node("dri/card0");
        assert!(!has());
        node("dri/renderD128");
        assert!(has());
        fs::remove_dir_all(dev.path().join("dri")).expect("removed");
        for name in ["nvidiactl", "dxg", "mali0", "kgsl-3d0"] {
            node(name);
            assert!(has(), "{name}");
            fs::remove_file(dev.path().join(name)).expect("removed");
        }
        assert!(!has());
        assert!(may_have_hardware_in(&dev.path().join("none")), "nobody knows");
    }
}
