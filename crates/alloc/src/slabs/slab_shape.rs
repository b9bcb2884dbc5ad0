//! Where the objects of each class lie in a slab.

use super::class::{CLASSES, LARGEST, SIZES};
use crate::bitmap;
use crate::host::os;
use crate::memory::unit::{HEADER_BYTES, UNIT};

/// Bits of a reciprocal after the binary point.
pub(crate) const SHIFT: u32 = 40;

/// Layout of the slabs of a class.
#[derive(Clone, Copy)]
pub(crate) struct SlabShape {
    /// Offset of the first object.
    pub(crate) first: u32,
    /// Number of objects.
    pub(crate) capacity: u32,
    /// Reciprocal of an object's size.
    pub(crate) reciprocal: u64,
}

/// The layout for each class.
pub(crate) const SHAPES: [SlabShape; CLASSES] = {
    let mut shapes = [SlabShape { first: 0, capacity: 0, reciprocal: 0 }; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        let size = SIZES[class] as usize;
        // Objects are aligned to the largest power of two in their size, up to a page.
        let lowest = size & size.wrapping_neg();
        let align = if lowest > os::PAGE_BYTES { os::PAGE_BYTES } else { lowest };
        let most = UNIT / size;
        let bitmap = most.div_ceil(bitmap::WORD) * size_of::<u64>();
        let first = (HEADER_BYTES + bitmap).next_multiple_of(align);
        shapes[class] = SlabShape {
            first: first as u32,
            capacity: ((UNIT - first) / size) as u32,
            reciprocal: (1 << SHIFT) / size as u64 + 1,
        };
        class += 1;
    }
    shapes
};

const _: () = {
    // offset / size = offset * reciprocal >> SHIFT holds as long as the error of the reciprocal, below 1,
    // times the largest offset is smaller than the distance of offset / size to the next integer, 1 / size at
    // least.
    assert!(UNIT * LARGEST <= 1 << SHIFT, "a reciprocal is exact for every offset in a unit");
    assert!((UNIT as u128) * ((1 << SHIFT) / 8 + 1) <= u64::MAX as u128, "a product fits a word");
    let mut class = 0;
    while class < CLASSES {
        let (shape, size) = (SHAPES[class], SIZES[class] as usize);
        assert!(shape.first as usize + shape.capacity as usize * size <= UNIT, "objects lie in their unit");
        assert!(shape.capacity >= 7, "the largest objects waste an eighth of a unit at most");
        class += 1;
    }
};
