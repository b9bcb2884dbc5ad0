//! Records of devices: what earlier starts have learned of a device, in the user's cache. A record says that
//! the kernels of this build passed their probes with this driver, and has the driver's compiled kernels, so
//! that the next start neither probes nor compiles. Beside it lies what the device cost, which the default
//! engine reads before it opens any.
//!
//! A record counts only if all of its bytes are as they were written, and if device, driver and kernels are
//! the same. It lies in a directory that only this user may write to: a driver trusts the compiled kernels
//! that it is given.

use crate::kernels::Kernels;
use crate::vulkan::{Device, DeviceInfo};
use crc32c::crc32c;
use lanefs::host_path::{private_dir, private_dir_in, user_cache};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, renameat, unlinkat};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// First bytes of a record, and of a record of costs; the digit is the version of this layout: these bytes,
/// bytes of the identity (4), the identity, the content, CRC-32C of all before (4). The content is the
/// compiled kernels, or nanoseconds (8) and picoseconds (8). Numbers are little-endian.
const MAGIC: &[u8; 16] = b"LaneFS device 1\n";
const COSTS_MAGIC: &[u8; 16] = b"LaneFS costs 1\n\n";
/// End of the names of records of costs.
const COSTS: &str = ".costs";
/// Costs beyond these are not believed.
const LEAST_OPENING: Duration = Duration::from_millis(10);
const MOST_OPENING: Duration = Duration::from_secs(60);
/// Directory of the records in the user's cache.
const DIRECTORY: &str = "devices";
/// Most bytes of a record. The 20 kernels take some hundred KiB.
const MAX_BYTES: u64 = 64 << 20;
const LENGTH: usize = size_of::<u32>();
const CHECKSUM: usize = size_of::<u32>();

/// Where the record of a device lies.
pub(crate) struct DeviceRecord {
    directory: OwnedFd,
    /// Name in the directory. A device has one record, which another driver or build replaces.
    name: String,
    /// Device, driver and kernels, in words.
    identity: String,
}

impl DeviceRecord {
    /// Finds the place of a device's record in the user's cache. `None` where the user has none, or one that
    /// others may use: then every start probes.
    pub(crate) fn of(device: &Device, kernels: &Kernels) -> Option<DeviceRecord> {
        Self::below(&user_cache().ok()?, device, kernels).ok()
    }

    /// As [`of`](Self::of), in a directory for caches.
    ///
    /// # Errors
    /// The host's; `PermissionDenied` where others may use the directory.
    fn below(cache: &Path, device: &Device, kernels: &Kernels) -> io::Result<DeviceRecord> {
        let directory = private_dir_in(&private_dir(cache)?, DIRECTORY)?;
        let info = &device.info;
        let (version, code) = (env!("CARGO_PKG_VERSION"), kernels.checksum());
        let identity = format!(
            "lanefs {version}, kernels {code:08x}; {}, vendor {:#x}, Vulkan {:?}, {} {:?}",
            info.name, info.vendor, info.version, info.driver, info.driver_build,
        );
        Ok(DeviceRecord { directory, name: info.uuid.to_string(), identity })
    }

    /// Returns the compiled kernels of a device whose kernels have passed their probes, in the driver's own
    /// form. `None` without a record, or for one of another driver or build, or a damaged one.
    pub(crate) fn read(&self) -> Option<Vec<u8>> {
        let (identity, pipelines) = read_sealed(&self.directory, &self.name, MAGIC)?;
        (identity == self.identity.as_bytes()).then_some(pipelines)
    }

    /// Records that the kernels have passed their probes, as far as the host lets it: a start without a
    /// record probes. A record appears complete, by a rename.
    pub(crate) fn write(&self, pipelines: &[u8]) {
        write_sealed(&self.directory, &self.name, MAGIC, self.identity.as_bytes(), pipelines);
    }

    /// Forgets what was recorded: a kernel has answered wrongly.
    pub(crate) fn remove(&self) {
        let _ = unlinkat(&self.directory, &*self.name, AtFlags::empty());
    }
}

/// The costs of a device, by which the default engine decides whether to open one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceCosts {
    /// From the start to the first batch: the device is opened, a volume mirrored, both engines measured.
    pub(crate) opening: Duration,
    /// A path of a large batch, in picoseconds.
    pub(crate) path_ps: u64,
}

impl DeviceCosts {
    /// Returns the costs of the device of this machine, as an earlier start of this version has measured
    /// them; of several the one that takes longest to open.
    pub(crate) fn known() -> Option<DeviceCosts> {
        Self::known_below(&user_cache().ok()?)
    }

    fn known_below(cache: &Path) -> Option<DeviceCosts> {
        let directory = private_dir_in(&private_dir(cache).ok()?, DIRECTORY).ok()?;
        let entries = Dir::read_from(&directory).ok()?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str().ok().map(String::from));
        let costs = names.filter(|name| name.ends_with(COSTS) && !name.starts_with('.')).filter_map(|name| {
            let (identity, content) = read_sealed(&directory, &name, COSTS_MAGIC)?;
            let is_own = identity.starts_with(Self::version().as_bytes());
            let (opening, path_ps) = content.split_first_chunk::<8>()?;
            let costs = DeviceCosts {
                opening: Duration::from_nanos(u64::from_le_bytes(*opening)),
                path_ps: u64::from_le_bytes(path_ps.try_into().ok()?),
            };
            (is_own && (LEAST_OPENING..=MOST_OPENING).contains(&costs.opening)).then_some(costs)
        });
        costs.max_by_key(|costs| costs.opening)
    }

    /// Records the costs of a device, as far as the host lets it.
    pub(crate) fn write(self, info: &DeviceInfo) {
        if let Ok(cache) = user_cache() {
            let _ = self.write_below(&cache, info);
        }
    }

    fn write_below(self, cache: &Path, info: &DeviceInfo) -> io::Result<()> {
        let directory = private_dir_in(&private_dir(cache)?, DIRECTORY)?;
        let identity = format!("{}{}, {} {:?}", Self::version(), info.name, info.driver, info.driver_build);
        let opening = u64::try_from(self.opening.as_nanos()).unwrap_or(u64::MAX);
        let content = [opening.to_le_bytes(), self.path_ps.to_le_bytes()].concat();
        let name = format!("{}{COSTS}", info.uuid);
        write_sealed(&directory, &name, COSTS_MAGIC, identity.as_bytes(), &content);
        Ok(())
    }

    /// First words of the identity: another version has other costs.
    fn version() -> String {
        format!("lanefs {}; ", env!("CARGO_PKG_VERSION"))
    }
}

/// Returns identity and content of a file; `None` without one, or for a damaged one.
fn read_sealed(directory: &OwnedFd, name: &str, magic: &[u8; 16]) -> Option<(Vec<u8>, Vec<u8>)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(directory, name, flags, Mode::empty()).ok()?;
    let mut bytes = Vec::new();
    File::from(file).take(MAX_BYTES + 1).read_to_end(&mut bytes).ok()?;
    if bytes.len() as u64 > MAX_BYTES {
        return None;
    }
    let (sealed, checksum) = bytes.split_last_chunk::<CHECKSUM>()?;
    if crc32c(sealed) != u32::from_le_bytes(*checksum) {
        return None;
    }
    let (length, rest) = sealed.strip_prefix(magic)?.split_first_chunk::<LENGTH>()?;
    let (identity, content) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some((identity.to_vec(), content.to_vec()))
}

/// Writes a file, which appears complete, by a rename; as far as the host lets it.
fn write_sealed(directory: &OwnedFd, name: &str, magic: &[u8; 16], identity: &[u8], content: &[u8]) {
    let temporary = format!(".{name}.{}", std::process::id());
    let length = (identity.len() as u32).to_le_bytes();
    let mut bytes = [magic, &length[..], identity, content].concat();
    bytes.extend(crc32c(&bytes).to_le_bytes());
    let write = || -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(directory, &*temporary, flags, Mode::RUSR | Mode::WUSR)?;
        File::from(file).write_all(&bytes)?;
        Ok(renameat(directory, &*temporary, directory, name)?)
    };
    if write().is_err() {
        let _ = unlinkat(directory, &*temporary, AtFlags::empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::context::{DeviceContext, GpuOptions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn context() -> DeviceContext {
        DeviceContext::open(&GpuOptions::default()).expect("a Vulkan device")
    }

    #[test]
    fn a_record_comes_back_and_each_changed_byte_is_noticed() {
        let (home, context) = (tempfile::tempdir().expect("a directory"), context());
        let cache = home.path().join("cache");
        let (device, kernels) = (&context.device, &context.kernels);
        let record = DeviceRecord::below(&cache, device, kernels).expect("a record");
        assert_eq!(record.read(), None);
        record.write(b"compiled");
        // Another value stands for another start.
        let again = DeviceRecord::below(&cache, device, kernels).expect("a record");
        assert_eq!(again.read(), Some(b"compiled".to_vec()));
        let path = cache.join(DIRECTORY).join(&record.name);
        let sound = std::fs::read(&path).expect("the record");
        for at in 0..sound.len() {
            let mut damaged = sound.clone();
            damaged[at] ^= 0x10;
            std::fs::write(&path, &damaged).expect("a damaged record");
            assert_eq!(again.read(), None, "byte {at}");
            std::fs::write(&path, &sound[..at]).expect("a record that was cut off");
            assert_eq!(again.read(), None, "{at} bytes");
        }
        std::fs::write(&path, &sound).expect("the sound record");
        assert!(again.read().is_some());
        let other = DeviceRecord { identity: record.identity.clone() + ".", ..again };
        assert_eq!(other.read(), None, "another driver");
        other.write(b"other");
        assert_eq!((other.read(), record.read()), (Some(b"other".to_vec()), None));
        other.remove();
        assert_eq!(other.read(), None);
        let left = std::fs::read_dir(cache.join(DIRECTORY)).expect("the directory").count();
        assert_eq!(left, 0, "temporary files");
    }

    #[test]
    fn the_costs_of_a_device_are_known_to_the_next_start_and_damage_is_noticed() {
        let (home, context) = (tempfile::tempdir().expect("a directory"), context());
        let cache = home.path().join("cache");
        assert_eq!(DeviceCosts::known_below(&cache), None);
        let info = &context.device.info;
        let costs = DeviceCosts { opening: Duration::from_millis(412), path_ps: 7400 };
        costs.write_below(&cache, info).expect("written");
        assert_eq!(DeviceCosts::known_below(&cache), Some(costs));
        // The record of kernels beside it is another file.
        let record = DeviceRecord::below(&cache, &context.device, &context.kernels).expect("a record");
        record.write(b"compiled");
        assert_eq!(
            (DeviceCosts::known_below(&cache), record.read()),
            (Some(costs), Some(b"compiled".to_vec()))
        );
        let path = cache.join(DIRECTORY).join(format!("{}{COSTS}", info.uuid));
        let sound = std::fs::read(&path).expect("the record");
        for at in 0..sound.len() {
            let mut damaged = sound.clone();
            damaged[at] ^= 0x10;
            std::fs::write(&path, &damaged).expect("a damaged record");
            assert_eq!(DeviceCosts::known_below(&cache), None, "byte {at}");
            std::fs::write(&path, &sound[..at]).expect("a record that was cut off");
            assert_eq!(DeviceCosts::known_below(&cache), None, "{at} bytes");
        }
        for opening in [Duration::from_micros(1), Duration::from_secs(3600), Duration::MAX] {
            DeviceCosts { opening, ..costs }.write_below(&cache, info).expect("written");
            assert_eq!(DeviceCosts::known_below(&cache), None, "{opening:?}");
        }
    }

    #[test]
    fn a_directory_that_others_may_use_and_links_are_refused() {
        let (home, context) = (tempfile::tempdir().expect("a directory"), context());
        let cache = home.path().join("cache");
        let below = || DeviceRecord::below(&cache, &context.device, &context.kernels);
        let record = below().expect("a record");
        record.write(b"compiled");
        let (directory, name) = (cache.join(DIRECTORY), record.name);
        std::fs::rename(directory.join(&name), directory.join("elsewhere")).expect("a rename");
        symlink("elsewhere", directory.join(&name)).expect("a link");
        assert_eq!(below().expect("a record").read(), None);
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o777)).expect("a mode");
        assert!(below().is_err());
        std::fs::rename(&directory, cache.join("moved")).expect("a rename");
        symlink("moved", &directory).expect("a link");
        assert!(below().is_err());
    }
}
