//! Memory of zeros. The explorer's atomics are not plain memory, so with it they are made one by one.

#[cfg(not(feature = "_shuttle"))]
use zerocopy::FromZeros;

/// Reserves zeros, which the host provides when they are first used; `None` where it has no memory.
#[cfg(not(feature = "_shuttle"))]
pub(super) fn zeroed<T: FromZeros>(count: usize) -> Option<Box<[T]>> {
    <[T]>::new_box_zeroed_with_elems(count).ok()
}

#[cfg(feature = "_shuttle")]
pub(super) fn zeroed<T: Default>(count: usize) -> Option<Box<[T]>> {
    Some((0..count).map(|_| T::default()).collect())
}
