//! A publication as a device, on which a volume is opened for reading.

use super::device::VersionDevice;
use super::fetch::Counts;
use super::join::JoinDevice;
use lanefs::{Device, IoBufMut, Origins, Read, ReadErrors};
use std::io;

/// The bytes of a version. Blocks that are not published read as zeros. The device cannot be written.
pub struct PublicationDevice(pub(crate) AnyDevice);

/// A version of one volume, or a join.
pub(crate) enum AnyDevice {
    Version(VersionDevice),
    Join(JoinDevice),
}

impl PublicationDevice {
    /// Returns counts of the requests to the store.
    pub fn counts(&self) -> Counts {
        match &self.0 {
            AnyDevice::Version(device) => device.counts(),
            AnyDevice::Join(device) => device.counts(),
        }
    }

    fn below(&self) -> &dyn Device {
        match &self.0 {
            AnyDevice::Version(device) => device,
            AnyDevice::Join(device) => device,
        }
    }
}

impl Device for PublicationDevice {
    fn len(&self) -> u64 {
        self.below().len()
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn is_for_closed_volumes(&self) -> bool {
        true
    }

    fn given(&self) -> u64 {
        self.counts().given()
    }

    fn engine(&self) -> String {
        self.below().engine()
    }

    fn origins(&self) -> Option<&dyn Origins> {
        self.below().origins()
    }

    fn read_at(&self, at: u64, buffer: IoBufMut<'_>) -> io::Result<()> {
        self.below().read_at(at, buffer)
    }

    fn read_many(&self, requests: &mut [Read<'_>]) -> Result<(), ReadErrors> {
        self.below().read_many(requests)
    }

    fn read_batch(&self, requests: &mut [Read<'_>]) -> Result<(), ReadErrors> {
        self.below().read_batch(requests)
    }
}
