//! The facts that roots of both kinds state: that of one volume, and that of a join.

/// Facts of a version that its root states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// UUID of the volume.
    pub uuid: [u8; 16],
    /// Size of the volume in bytes.
    pub volume_bytes: u64,
    /// Sequence number of the volume's superblock.
    pub sequence: u64,
    /// Blocks of the volume that are published.
    pub blocks: u64,
    /// Stored bytes of the pieces of windows with metadata.
    pub metadata_bytes: u64,
    /// Stored bytes of all other pieces of windows.
    pub data_bytes: u64,
}
