//! Extended attributes of the root directory that tell its owner about the service. No volume has attributes
//! of their name space, and only the user of the service gets them.

use lanefs::FileId;

/// The attribute with the address of the socket for commands.
pub(crate) const ADDRESS: &str = "system.lanefs.commands";
/// The attribute with the [`FileId`] of the image. All versions of this program give it alike.
pub(crate) const IMAGE: &str = "system.lanefs.image";

/// The value of the attribute for an image; `None` for a volume that no file of the host has.
pub(crate) fn image_text(image: Option<FileId>) -> String {
    match image {
        Some(FileId::File { device, inode }) => format!("file {device} {inode}"),
        Some(FileId::Raw(device)) => format!("raw {device}"),
        None => "none".to_owned(),
    }
}

/// Parses the value for an image.
pub(crate) fn parse_image(text: &[u8]) -> Option<Option<FileId>> {
    let words: Vec<&str> = std::str::from_utf8(text).ok()?.split(' ').collect();
    match words[..] {
        ["file", device, inode] => {
            Some(Some(FileId::File { device: device.parse().ok()?, inode: inode.parse().ok()? }))
        }
        ["raw", device] => Some(Some(FileId::Raw(device.parse().ok()?))),
        ["none"] => Some(None),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_come_back_from_text() {
        for image in [Some(FileId::File { device: 7, inode: u64::MAX }), Some(FileId::Raw(1 << 40)), None] {
            assert_eq!(parse_image(image_text(image).as_bytes()), Some(image));
        }
        for bad in ["", "file 1", "file 1 x", "raw", "none 1", "\u{e4}"] {
            assert_eq!(parse_image(bad.as_bytes()), None, "{bad}");
        }
    }
}
