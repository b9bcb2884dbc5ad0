//! Tables of on-disk structures.
//!
//! [`layout!`](crate::layout!) declares each structure once: name, size and every field with its type and
//! byte offset. The macro derives three things from this table: the typed [`Field`]s for reading and writing,
//! the compile-time check that fields neither overlap nor leave gaps, and the [`Layout`], from which
//! documents and other languages' declarations are generated.

use std::marker::PhantomData;

/// A machine word of the format: stored little-endian, at an offset aligned to its own size.
pub trait Word: Copy + Eq + 'static {
    /// Width in bytes: 1, 2, 4 or 8.
    const BYTES: usize;
    /// Name of the type in the documents.
    const NAME: &'static str;
    /// Zero-extends (signed words: reinterprets) to 64 bits.
    fn to_bits(self) -> u64;
    /// Returns the low `BYTES` bytes as a word.
    fn from_bits(bits: u64) -> Self;
}

macro_rules! words {
    ($($t:ty as $u:ty),*) => {$(
        impl Word for $t {
            const BYTES: usize = size_of::<$t>();
            const NAME: &'static str = stringify!($t);
            #[inline(always)]
            fn to_bits(self) -> u64 { self as $u as u64 }
            #[inline(always)]
            fn from_bits(bits: u64) -> Self { bits as $t }
        }
    )*};
}
words!(u8 as u8, u16 as u16, u32 as u32, u64 as u64, i64 as u64);

/// A field: a word of type `T` at a byte offset inside its structure.
#[derive(Debug)]
pub struct Field<T> {
    /// Offset from the start of the structure, in bytes.
    pub offset: usize,
    _type: PhantomData<fn() -> T>,
}

impl<T> Clone for Field<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Field<T> {}

impl<T: Word> Field<T> {
    /// Creates the field at `offset`, which must be a multiple of the word's size.
    #[inline(always)]
    pub const fn at(offset: usize) -> Self {
        assert!(offset.is_multiple_of(T::BYTES), "a field must be aligned to its size");
        Field { offset, _type: PhantomData }
    }

    /// Reads the field from a copy of its structure; `None` where the copy is too short.
    pub fn read(self, bytes: &[u8]) -> Option<T> {
        let mut word = [0u8; 8];
        word[..T::BYTES].copy_from_slice(bytes.get(self.offset..self.offset + T::BYTES)?);
        Some(T::from_bits(u64::from_le_bytes(word)))
    }

    /// Writes the field into a copy of its structure.
    ///
    /// # Panics
    /// Panics when the copy is shorter than the structure: a bug of the caller, never damage of a volume.
    pub fn write(self, bytes: &mut [u8], value: T) {
        bytes[self.offset..self.offset + T::BYTES]
            .copy_from_slice(&value.to_bits().to_le_bytes()[..T::BYTES]);
    }
}

/// Consecutive words of one type, such as the slots of a pointer block.
#[derive(Clone, Copy, Debug)]
pub struct Array<T> {
    /// Offset of element 0, in bytes.
    pub offset: usize,
    /// Number of elements.
    pub len: usize,
    _type: PhantomData<fn() -> T>,
}

impl<T: Word> Array<T> {
    /// Creates the array of `len` words from `offset` on.
    pub const fn at(offset: usize, len: usize) -> Self {
        assert!(offset.is_multiple_of(T::BYTES), "an array must be aligned to its words' size");
        Array { offset, len, _type: PhantomData }
    }

    /// Returns element `index` as a field. The caller keeps `index` below `len`; a read checks the
    /// structure's end.
    #[inline(always)]
    pub const fn index(self, index: usize) -> Field<T> {
        Field { offset: self.offset + index * T::BYTES, _type: PhantomData }
    }
}

/// A field as the documents show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldInfo {
    /// Name, in the case of the code.
    pub name: &'static str,
    /// Type of the word.
    pub word: &'static str,
    /// Offset in bytes.
    pub offset: usize,
    /// Number of words (1 for a plain field).
    pub len: usize,
    /// Width of one word in bytes.
    pub bytes: usize,
    /// Its meaning in one line.
    pub doc: &'static str,
}

/// A structure as the documents show it.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Name of the structure's module.
    pub name: &'static str,
    /// Size in bytes.
    pub size: usize,
    /// Fields in order of offset, without gaps.
    pub fields: &'static [FieldInfo],
}

impl Layout {
    /// Checks that the fields are in order and cover the structure without gap or overlap.
    pub const fn check(&self) {
        let (mut at, mut i) = (0, 0);
        while i < self.fields.len() {
            assert!(self.fields[i].offset == at, "fields must follow each other without gap or overlap");
            at += self.fields[i].len * self.fields[i].bytes;
            i += 1;
        }
        assert!(at == self.size, "fields must cover the structure");
    }
}

/// Declares a structure: its fields, compile-time checks and [`Layout`](crate::Layout). `NAME: word, offset;`
/// is a field, `NAME: word, offset, len;` an array.
#[macro_export]
macro_rules! layout {
    ($(#[doc = $sdoc:literal])* $module:ident, $size:expr;
     $($(#[doc = $doc:literal])* $name:ident : $word:ty, $offset:literal $(, $len:expr)?;)*) => {
        $(#[doc = $sdoc])*
        pub mod $module {
            #[allow(unused_imports)]
            use super::*;
            /// Size in bytes.
            pub const SIZE: usize = $size;
            $($(#[doc = $doc])* pub const $name: $crate::layout!(@type $word $(, $len)?) = $crate::layout!(@at $offset $(, $len)?);)*
            /// The structure as the documents show it.
            pub const LAYOUT: $crate::Layout = $crate::Layout {
                name: stringify!($module), size: SIZE,
                fields: &[$($crate::FieldInfo {
                    name: stringify!($name), word: <$word as $crate::Word>::NAME, offset: $offset,
                    len: $crate::layout!(@len $($len)?), bytes: <$word as $crate::Word>::BYTES,
                    doc: concat!($($doc),*),
                }),*],
            };
            const _: () = LAYOUT.check();
        }
    };
    (@type $word:ty) => { $crate::Field<$word> };
    (@type $word:ty, $len:expr) => { $crate::Array<$word> };
    (@at $offset:literal) => { $crate::Field::at($offset) };
    (@at $offset:literal, $len:expr) => { $crate::Array::at($offset, $len) };
    (@len) => { 1 };
    (@len $len:expr) => { $len };
}
