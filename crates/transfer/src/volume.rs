//! Calls of the volume that all transfers share.

use crate::error::{Error, Result};
use crate::name::shown;
use lanefs::format::BLOCK;
use lanefs::{Attr, Code, FileSystem, MkdirAll, Seek};

/// Returns the directory `dest` of the volume; makes it and its parents where they do not exist.
pub(crate) fn destination(volume: &dyn FileSystem, dest: &[u8]) -> Result<Attr> {
    volume.mkdir_all(MkdirAll::default(), dest).map_err(|source| {
        Error::volume(format!("cannot make the directory '{}' in the volume", shown(dest)), source)
    })
}

/// Returns the ranges of a file that hold data as `(start, end)`: none is empty, and they ascend without
/// overlap.
pub(crate) fn data_ranges(volume: &dyn FileSystem, attr: &Attr) -> lanefs::Result<Vec<(u64, u64)>> {
    // Small files lie inside the inode and have no blocks; a file with all its blocks has no holes.
    if attr.size <= BLOCK || attr.blocks.saturating_mul(BLOCK) >= attr.size {
        return Ok(if attr.size == 0 { Vec::new() } else { vec![(0, attr.size)] });
    }
    let mut ranges = Vec::new();
    let mut offset = 0;
    while offset < attr.size {
        let data = match volume.seek(attr.ino, offset, Seek::Data) {
            Ok(data) => data.max(offset),
            Err(error) if error.code() == Code::NoSuchRange => break,
            Err(error) => return Err(error),
        };
        // The file of a mounted volume may have grown since `attr` was read.
        if data >= attr.size {
            break;
        }
        // The lower bound lets the loop advance on a damaged volume too.
        let hole = volume.seek(attr.ino, data, Seek::Hole)?.clamp(data + 1, attr.size);
        ranges.push((data, hole));
        offset = hole;
    }
    debug_assert!(ranges.iter().all(|(start, end)| start < end), "no range is empty");
    debug_assert!(ranges.is_sorted_by(|a, b| a.1 <= b.0), "ranges ascend without overlap");
    Ok(ranges)
}
