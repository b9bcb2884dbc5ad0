//! The facts that roots of both kinds state, in the words of their heads: that of one volume, and that of a
//! join.

use super::layout::root;
use super::words::{Bad, get, uuid};
use lanefs::format::{BLOCK, MAX_VOLUME, MIN_VOLUME};

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

impl Facts {
    /// Parses the head of a root.
    pub(super) fn parse(head: &[u8]) -> Result<Facts, Bad> {
        let facts = Facts {
            uuid: uuid(root::UUID.offset, head)?,
            volume_bytes: get(root::VOLUME_BYTES, head)?,
            sequence: get(root::SEQUENCE, head)?,
            blocks: get(root::BLOCKS, head)?,
            metadata_bytes: get(root::METADATA_BYTES, head)?,
            data_bytes: get(root::DATA_BYTES, head)?,
        };
        let bytes = facts.volume_bytes;
        if !(MIN_VOLUME..=MAX_VOLUME).contains(&bytes) || !bytes.is_multiple_of(BLOCK) {
            return Err("has an impossible size of the volume");
        }
        Ok(facts)
    }

    /// Writes them to the head of a root.
    pub(super) fn write(&self, head: &mut [u8]) {
        head[root::UUID.offset..][..self.uuid.len()].copy_from_slice(&self.uuid);
        root::VOLUME_BYTES.write(head, self.volume_bytes);
        root::SEQUENCE.write(head, self.sequence);
        root::BLOCKS.write(head, self.blocks);
        root::METADATA_BYTES.write(head, self.metadata_bytes);
        root::DATA_BYTES.write(head, self.data_bytes);
    }
}
