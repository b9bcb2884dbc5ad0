//! Size classes.
//!
//! Classes are 8 bytes apart up to 64 bytes. Above, each doubling has eight classes, so an object wastes at
//! most an eighth of its class.

use crate::host::os::PAGE_BYTES;

/// Bytes of the largest object of a slab; a larger one has units of its own.
pub const LARGEST: usize = 32 << 10;

/// Number of classes.
pub(crate) const CLASSES: usize = 80;

/// Bytes of the largest object whose class is in the first table.
pub(crate) const TINY_BYTES: usize = 1024;

/// Distance of sizes in the second table.
const MIDDLE_STEP: usize = 128;

/// Bytes of an object of each class.
pub(crate) const SIZES: [u32; CLASSES] = {
    let mut sizes = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        sizes[class] = if class < 8 {
            (class as u32 + 1) * 8
        } else {
            let doubling = class as u32 / 8 - 1;
            (8 + class as u32 % 8 + 1) << (3 + doubling)
        };
        class += 1;
    }
    sizes
};

const _: () = {
    assert!(SIZES[CLASSES - 1] as usize == LARGEST, "the last class is for the largest object");
    assert!(
        TINY_BYTES.is_multiple_of(8) && TINY_BYTES < LARGEST,
        "the first table has the sizes up to TINY_BYTES"
    );
    assert!(CLASSES <= u8::MAX as usize + 1, "tables hold a class in a byte");
    let mut class = 1;
    while class < CLASSES {
        assert!(
            SIZES[class - 1] < SIZES[class] && SIZES[class].is_multiple_of(8),
            "classes ascend, in words"
        );
        let is_in_second_table = SIZES[class - 1] as usize >= TINY_BYTES;
        assert!(
            !is_in_second_table || (SIZES[class] as usize).is_multiple_of(MIDDLE_STEP),
            "a step has one class"
        );
        class += 1;
    }
};

/// Bytes that a magazine may keep of its class, and the bounds of its capacity.
const MAGAZINE_BYTES: usize = 32 << 10;
const MIN_MAGAZINE: usize = 2;
const MAX_MAGAZINE: usize = 128;

const _: () =
    assert!(MIN_MAGAZINE >= 2 && MIN_MAGAZINE <= MAX_MAGAZINE, "a full magazine gives back its older half");

/// Number of objects for which a magazine of this class has room.
pub(crate) const fn magazine_capacity(class: usize) -> usize {
    let count = MAGAZINE_BYTES / SIZES[class] as usize;
    if count < MIN_MAGAZINE {
        MIN_MAGAZINE
    } else if count > MAX_MAGAZINE {
        MAX_MAGAZINE
    } else {
        count
    }
}

/// Sum of the capacities of all classes.
pub(crate) const MAGAZINE_TOTAL: usize = {
    let (mut sum, mut class) = (0, 0);
    while class < CLASSES {
        sum += magazine_capacity(class);
        class += 1;
    }
    sum
};

const fn class_for(size: usize) -> u8 {
    let mut class = 0;
    while (SIZES[class] as usize) < size {
        class += 1;
    }
    class as u8
}

/// Class by size in words of 8 bytes, for alignments up to 8.
pub(crate) static WORDS: [u8; TINY_BYTES / 8 + 1] = {
    let mut table = [0; TINY_BYTES / 8 + 1];
    let mut words = 0;
    while words < table.len() {
        table[words] = class_for(words * 8);
        words += 1;
    }
    table
};

/// Class by size in words of 8 bytes, for the alignment of C: 16 above a word.
pub(crate) static C_WORDS: [u8; TINY_BYTES / 8 + 1] = {
    let mut table = [0; TINY_BYTES / 8 + 1];
    let mut words = 2;
    while words < table.len() {
        let mut class = class_for(words * 8);
        while !SIZES[class as usize].is_multiple_of(16) {
            class += 1;
        }
        table[words] = class;
        words += 1;
    }
    table
};

static MIDDLE: [u8; LARGEST / MIDDLE_STEP + 1] = {
    let mut table = [0; LARGEST / MIDDLE_STEP + 1];
    let mut steps = 0;
    while steps < table.len() {
        table[steps] = class_for(steps * MIDDLE_STEP);
        steps += 1;
    }
    table
};

/// Returns the class of objects of `size` bytes, from [`TINY_BYTES`] up to [`LARGEST`].
pub(crate) fn middle(size: usize) -> usize {
    usize::from(MIDDLE[size.div_ceil(MIDDLE_STEP).min(MIDDLE.len() - 1)])
}

/// Returns the smallest class for `size` bytes at a multiple of `align`, a power of two. Slabs align their
/// objects to a page at most.
pub(crate) fn aligned(size: usize, align: usize) -> Option<usize> {
    if size > LARGEST || align > PAGE_BYTES {
        return None;
    }
    let from = if size <= TINY_BYTES { usize::from(WORDS[size.div_ceil(8)]) } else { middle(size) };
    (from..CLASSES).find(|class| SIZES[*class].is_multiple_of(align as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_has_the_smallest_class_that_holds_it() {
        assert_eq!((SIZES[0], SIZES[7], SIZES[8], SIZES[CLASSES - 1]), (8, 64, 72, LARGEST as u32));
        for size in 1..=LARGEST {
            let class = if size <= TINY_BYTES { usize::from(WORDS[size.div_ceil(8)]) } else { middle(size) };
            assert!(SIZES[class] as usize >= size, "{size}");
            assert!(class == 0 || (SIZES[class - 1] as usize) < size, "{size}");
            // A word is what a size is rounded to anyway.
            let waste = SIZES[class] as usize - size.next_multiple_of(8);
            assert!(waste * 8 <= SIZES[class] as usize, "{size} in {}", SIZES[class]);
        }
    }

    #[test]
    fn c_has_alignment() {
        for size in 9..=TINY_BYTES {
            let size_there = SIZES[usize::from(C_WORDS[size.div_ceil(8)])] as usize;
            assert!(size_there >= size && size_there.is_multiple_of(16), "{size}");
        }
        for align in (0..=12).map(|bits| 1 << bits) {
            for size in [1, 9, 100, 1000, 1025, 5000, LARGEST] {
                let class = aligned(size, align).expect("a power of two always fits");
                assert!(SIZES[class] as usize >= size && (SIZES[class] as usize).is_multiple_of(align));
            }
        }
        assert_eq!((aligned(LARGEST + 1, 8), aligned(8, 2 * PAGE_BYTES)), (None, None));
    }
}
