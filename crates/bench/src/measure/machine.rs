//! The machine of a benchmark.

use serde::{Deserialize, Serialize};
use std::fs;
use std::process::Command;

/// The machine, as a report names it. Unknown fields are empty or 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Machine {
    /// Processor model.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory in bytes.
    pub memory: u64,
    /// Kernel name and release.
    pub kernel: String,
    /// GPUs by name, separated by commas; empty without one.
    pub gpu: String,
    /// Size of the last-level cache in bytes, as the processor reports it.
    pub last_level_cache: u64,
}

impl Machine {
    /// Detects this machine.
    pub fn detect() -> Self {
        let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name = rustix::system::uname();
        Machine {
            processor: field(&cpu_info, "model name").unwrap_or_default().to_string(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory: memory_bytes("MemTotal"),
            kernel: format!("{} {}", name.sysname().to_string_lossy(), name.release().to_string_lossy()),
            gpu: gpus().join(", "),
            last_level_cache: last_level_cache(),
        }
    }
}

/// Returns the memory in bytes that a new workload may use without evicting other data.
pub fn available_memory() -> u64 {
    memory_bytes("MemAvailable")
}

/// Returns the most memory in bytes that this process has had resident; 0 if the kernel does not say.
pub fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    kib(&status, "VmHWM") * 1024
}

/// Returns the commit of this program's source: the value of `LANEFS_COMMIT` at build time, else the state of
/// git in the build directory, with `+changes` if files differ from the commit; empty if both are unknown.
pub fn commit() -> String {
    if let Some(commit) = option_env!("LANEFS_COMMIT") {
        return commit.to_string();
    }
    let git = |arguments: &[&str]| {
        let output =
            Command::new("git").args(["-C", env!("CARGO_MANIFEST_DIR")]).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    let Some(commit) = git(&["rev-parse", "HEAD"]) else { return String::new() };
    let changed = git(&["status", "--porcelain"]).is_some_and(|list| !list.is_empty());
    if changed { commit + "+changes" } else { commit }
}

/// Returns the number of processes that used or waited for a core, averaged over the last minute.
pub fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

fn memory_bytes(name: &str) -> u64 {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    kib(&info, name) * 1024
}

/// Returns the number of the first `name: number kB` line.
fn kib(text: &str, name: &str) -> u64 {
    field(text, name).and_then(|v| v.split_whitespace().next()).and_then(|v| v.parse().ok()).unwrap_or(0)
}

/// Returns the value of the first `name : value` line.
fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    })
}

fn last_level_cache() -> u64 {
    let sizes = (0..8).filter_map(|index| {
        fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size")).ok()
    });
    sizes.filter_map(|text| cache_bytes(text.trim())).max().unwrap_or(0)
}

/// Converts `32768K` or `32M` to bytes.
fn cache_bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "K" => 1 << 10,
        "M" => 1 << 20,
        _ => 1,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// Returns the names of the GPUs: NVIDIA's driver reports the model; of the others the kernel reports the
/// driver.
fn gpus() -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc/driver/nvidia/gpus").into_iter().flatten().flatten() {
        let text = fs::read_to_string(entry.path().join("information")).unwrap_or_default();
        found.extend(field(&text, "Model").map(str::to_string));
    }
    for entry in fs::read_dir("/sys/class/drm").into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with("renderD") {
            continue;
        }
        let text = fs::read_to_string(entry.path().join("device/uevent")).unwrap_or_default();
        let driver = text.lines().find_map(|line| line.strip_prefix("DRIVER="));
        found.extend(driver.filter(|d| *d != "nvidia").map(|d| format!("{d} device")));
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_cache_sizes_are_read() {
        assert_eq!(field("a : 1\nmodel name\t: X Y\n", "model name"), Some("X Y"));
        assert_eq!(field("a : 1", "b"), None);
        assert_eq!(cache_bytes("32768K"), Some(32 << 20));
        assert_eq!(cache_bytes("2M"), Some(2 << 20));
        assert_eq!(cache_bytes("x"), None);
    }

    #[test]
    fn this_machine_has_cores_and_memory() {
        let machine = Machine::detect();
        assert!(machine.cores > 0);
        assert!(machine.memory > 0 && available_memory() <= machine.memory);
        assert!((1 << 20..machine.memory).contains(&peak_memory()));
        assert!(machine.kernel.starts_with("Linux"));
    }
}
