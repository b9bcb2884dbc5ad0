//! A device with the bytes of an image. Blocks that nobody has changed are those of the base, which all
//! devices share: a copy of all bytes takes longer than what a volume reads of them.

use super::image::{Image, ZERO_BLOCK};
use crate::naive::Source;
use lanefs::{Device, IoBuf, IoBufMut};
use lanefs_format::BLOCK;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// A device in memory with the bytes of an image. Clones are the same device.
#[derive(Clone)]
pub struct ImageDevice(Arc<RwLock<ImageBytes>>);

struct ImageBytes {
    base: Arc<BTreeMap<u64, Vec<u8>>>,
    /// Size of the base in bytes.
    base_size: u64,
    /// Blocks that differ from the base, by number.
    changed: BTreeMap<u64, Vec<u8>>,
    /// Size in bytes.
    size: u64,
    /// A block past the end of the base.
    beyond: Vec<u8>,
}

/// The part of a range that lies in one block.
struct BlockPart {
    /// Number of the block.
    block: u64,
    inside: Range<usize>,
    /// Offset from the start of the range.
    to: usize,
}

impl ImageBytes {
    fn block(&self, number: u64) -> &[u8] {
        match self.changed.get(&number).or_else(|| self.base.get(&number)) {
            Some(block) => block,
            None if number * BLOCK < self.base_size => &ZERO_BLOCK,
            None => &self.beyond,
        }
    }

    /// Divides a range into blocks.
    fn parts(&self, at: u64, len: usize) -> io::Result<impl Iterator<Item = BlockPart> + use<>> {
        let end = at.checked_add(len as u64).filter(|end| *end <= self.size);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok((at / BLOCK..end.div_ceil(BLOCK)).map(move |block| {
            let (first, last) = (at.max(block * BLOCK), end.min((block + 1) * BLOCK));
            let inside = (first - block * BLOCK) as usize..(last - block * BLOCK) as usize;
            BlockPart { block, inside, to: (first - at) as usize }
        }))
    }
}

impl ImageDevice {
    /// Returns a device of `size` bytes with the blocks of `image` and, in their place, those of `changed` by
    /// number. Past the end of the image it has `beyond`, byte for byte.
    pub fn new(image: &Image, mut changed: BTreeMap<u64, Vec<u8>>, size: u64, beyond: u8) -> Self {
        let (base, base_size) = (image.blocks.clone(), image.size);
        changed.retain(|number, _| number * BLOCK < base_size);
        let beyond = vec![beyond; BLOCK as usize];
        ImageDevice(Arc::new(RwLock::new(ImageBytes { base, base_size, changed, size, beyond })))
    }
}

impl Device for ImageDevice {
    fn len(&self) -> u64 {
        self.0.read().size
    }

    fn engine(&self) -> String {
        "memory".into()
    }

    fn read_at(&self, at: u64, mut buffer: IoBufMut<'_>) -> io::Result<()> {
        let bytes = self.0.read();
        for BlockPart { block, inside, to } in bytes.parts(at, buffer.len())? {
            buffer.part(to..to + inside.len()).copy_from(&bytes.block(block)[inside]);
        }
        Ok(())
    }

    fn write_at(&self, at: u64, data: IoBuf<'_>) -> io::Result<()> {
        let mut bytes = self.0.write();
        for BlockPart { block, inside, to } in bytes.parts(at, data.len())? {
            let before = bytes.changed.remove(&block);
            let mut changed = before.unwrap_or_else(|| bytes.block(block).to_vec());
            data.part(to..to + inside.len()).copy_to(&mut changed[inside]);
            bytes.changed.insert(block, changed);
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _at: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// As a raw device, which has its room already.
    fn resize(&self, len: u64) -> io::Result<()> {
        if len <= self.len() { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
    }
}

impl Source for ImageDevice {
    fn block(&self, at: u64) -> Option<Vec<u8>> {
        let mut block = vec![0; BLOCK as usize];
        self.read_at(at, IoBufMut::from(&mut block[..])).is_ok().then_some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Editor, bases};
    use super::*;
    use crate::seeded::Seeded;

    #[test]
    fn the_device_has_the_bytes_of_the_image() {
        let bases = bases().expect("sound volumes can be made");
        let base = bases.iter().find(|base| base.name == "small-256").expect("the base");
        let size = base.image.size;
        for (seed, size) in [(1, size), (2, size + 5000), (3, size - 5000), (4, 100), (5, size + 1)] {
            let made = || {
                let mut editor = Editor::new(&base.image);
                editor.edit(BLOCK)[7] = 9;
                editor.edit(base.image.size - BLOCK)[0] = 1;
                editor.resize(size);
                (editor, Seeded::new(seed))
            };
            let ((one, mut numbers), (other, mut same)) = (made(), made());
            let mut bytes = one.into_bytes(&mut numbers);
            let device = other.into_device(&mut same);
            assert_eq!((device.len(), numbers.bits()), (bytes.len() as u64, same.bits()));
            for round in 0..200 {
                let at = numbers.below(size + 10) as usize;
                let len = numbers.below(9000) as usize;
                let part = bytes.get_mut(at..at + len);
                let mut found = vec![0xa5; len];
                assert_eq!(device.read_slice(at as u64, &mut found).is_ok(), part.is_some());
                let written = vec![round as u8; len];
                if let Some(part) = part {
                    assert!(*part == found, "{len} bytes at {at} of {size}");
                    part.copy_from_slice(&written);
                    device.write_slice(at as u64, &written).expect("inside");
                } else {
                    device.write_slice(at as u64, &written).expect_err("outside");
                }
            }
            let mut all = vec![0; bytes.len()];
            device.read_slice(0, &mut all).expect("all of it");
            assert!(all == bytes, "{size} bytes");
        }
    }
}
