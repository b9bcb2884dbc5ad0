//! UUID and label of a volume as text.

use lanefs::format::superblock::{Superblock, fields};

/// Longest label in bytes.
pub const MAX_LABEL: usize = fields::LABEL.len;

/// Parses a label.
///
/// # Errors
/// It is too long or contains a NUL.
pub fn parse_label(text: &str) -> Result<String, String> {
    match text.len() {
        0..=MAX_LABEL if !text.contains('\0') => Ok(text.to_string()),
        bytes => Err(format!("a label has at most {MAX_LABEL} bytes, this one has {bytes}")),
    }
}

/// Parses a UUID.
///
/// # Errors
/// Tells how to write it.
pub fn parse_uuid(text: &str) -> Result<[u8; 16], String> {
    uuid::Uuid::parse_str(text)
        .map(uuid::Uuid::into_bytes)
        .map_err(|_| "write it like 01234567-89ab-cdef-0123-456789abcdef".to_string())
}

/// The UUID of a volume; `None` where it has none.
pub fn uuid(superblock: &Superblock) -> Option<String> {
    let uuid = uuid::Uuid::from_bytes(superblock.uuid);
    (!uuid.is_nil()).then(|| uuid.to_string())
}

/// The label of a volume, empty where it has none.
pub fn label(superblock: &Superblock) -> String {
    let end = superblock.label.iter().position(|b| *b == 0).unwrap_or(superblock.label.len());
    String::from_utf8_lossy(&superblock.label[..end]).into_owned()
}
