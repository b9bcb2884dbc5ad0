//! The names of a volume: its UUID, for programs, and its label, for people.

use crate::running::volume::Volume;
use crate::vocabulary::error::{Error, ErrorKind, Result};
use lanefs_format::Code;
use lanefs_format::superblock::fields;

/// Converts a label to bytes as the superblock has them. An error describes the problem.
pub(crate) fn label_bytes(label: &str) -> std::result::Result<[u8; fields::LABEL.len], String> {
    let mut bytes = [0; fields::LABEL.len];
    match bytes.get_mut(..label.len()) {
        Some(start) if !label.contains('\0') => start.copy_from_slice(label.as_bytes()),
        Some(_) => return Err("the label contains a NUL".into()),
        None => return Err(format!("the label is longer than {} bytes", fields::LABEL.len)),
    }
    Ok(bytes)
}

/// # Label and UUID
impl Volume {
    /// Changes the volume's UUID, its label or both, durably. Nothing but the superblock is written. 16 zero
    /// bytes are not a UUID.
    ///
    /// # Errors
    /// [`Error::Image`] for a label of more than 64 bytes or with a NUL; [`Code::ReadOnly`]; the device's.
    pub fn set_identity(&self, uuid: Option<[u8; 16]>, label: Option<&str>) -> Result<()> {
        if self.is_read_only() {
            return Err(Code::ReadOnly.into());
        }
        let refuse =
            |why| Error::Image { kind: ErrorKind::InvalidInput, what: "cannot set the label".into(), why };
        let label = label.map(label_bytes).transpose().map_err(refuse)?;
        self.shared.change_superblock(|superblock| {
            superblock.uuid = uuid.unwrap_or(superblock.uuid);
            superblock.label = label.unwrap_or(superblock.label);
        })
    }
}
