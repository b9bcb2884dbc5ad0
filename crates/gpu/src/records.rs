//! Records of devices: what earlier starts have learned of a device, in the user's cache. A record says that
//! the kernels of this build passed their probes with this driver, and has the driver's compiled kernels, so
//! that the next start neither probes nor compiles.
//!
//! A record counts only if all of its bytes are as they were written, and if device, driver and kernels are
//! the same. It lies in a directory that only this user may write to: a driver trusts the compiled kernels
//! that it is given.

use crate::kernels::Kernels;
use crate::vulkan::Device;
use crc32c::crc32c;
use lanefs::host_path::{private_dir, private_dir_in, user_cache};
use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

/// First bytes of a record; the digit is the version of this layout: `MAGIC`, bytes of the identity (4), the
/// identity, the compiled kernels, CRC-32C of all before (4). Numbers are little-endian.
const MAGIC: &[u8; 16] = b"LaneFS device 1\n";
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
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.directory, &*self.name, flags, Mode::empty()).ok()?;
        let mut bytes = Vec::new();
        File::from(file).take(MAX_BYTES + 1).read_to_end(&mut bytes).ok()?;
        if bytes.len() as u64 > MAX_BYTES {
            return None;
        }
        let (content, checksum) = bytes.split_last_chunk::<CHECKSUM>()?;
        if crc32c(content) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let (length, rest) = content.strip_prefix(MAGIC)?.split_first_chunk::<LENGTH>()?;
        let (identity, pipelines) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        (identity == self.identity.as_bytes()).then(|| pipelines.to_vec())
    }

    /// Records that the kernels have passed their probes, as far as the host lets it: a start without a
    /// record probes. A record appears complete, by a rename.
    pub(crate) fn write(&self, pipelines: &[u8]) {
        let temporary = format!(".{}.{}", self.name, std::process::id());
        let written = self.try_write(&temporary, pipelines);
        if written.is_err() {
            let _ = unlinkat(&self.directory, &*temporary, AtFlags::empty());
        }
    }

    fn try_write(&self, temporary: &str, pipelines: &[u8]) -> io::Result<()> {
        let length = (self.identity.len() as u32).to_le_bytes();
        let mut bytes = [MAGIC, &length[..], self.identity.as_bytes(), pipelines].concat();
        bytes.extend(crc32c(&bytes).to_le_bytes());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.directory, temporary, flags, Mode::RUSR | Mode::WUSR)?;
        File::from(file).write_all(&bytes)?;
        Ok(renameat(&self.directory, temporary, &self.directory, &*self.name)?)
    }

    /// Forgets what was recorded: a kernel has answered wrongly.
    pub(crate) fn remove(&self) {
        let _ = unlinkat(&self.directory, &*self.name, AtFlags::empty());
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
