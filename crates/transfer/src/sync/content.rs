//! Comparison of the contents of two files.

use super::failure::Failure;
use super::tree::{Buffers, COMPARED_BYTES, Tree};
use crate::running::job::TransferJob;

/// True where two files of `size` bytes have the same content. Holes on both sides are equal, and not read.
pub(super) fn is_same<A: Tree, B: Tree>(
    job: &TransferJob<'_>,
    buffers: &mut Buffers,
    (a, file_a): (&A, &A::File),
    (b, file_b): (&B, &B::File),
    size: u64,
) -> Result<bool, Failure> {
    buffers.other.resize(COMPARED_BYTES, 0);
    let mut offset = 0;
    while offset < size {
        if job.should_stop() {
            return Err(Failure::Stopped);
        }
        let next = match (a.next_data(file_a, offset)?, b.next_data(file_b, offset)?) {
            (None, None) => return Ok(true),
            (Some(at), None) | (None, Some(at)) => at,
            (Some(in_a), Some(in_b)) => in_a.min(in_b),
        };
        offset = next.max(offset);
        let want = COMPARED_BYTES.min(usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX));
        let (from_a, from_b) = (&mut buffers.content[..want], &mut buffers.other[..want]);
        let (len_a, len_b) = (a.read(file_a, offset, from_a)?, b.read(file_b, offset, from_b)?);
        if len_a != len_b || from_a[..len_a] != from_b[..len_b] {
            return Ok(false);
        }
        if len_a < want {
            // Both became shorter than they were.
            return Ok(false);
        }
        offset += want as u64;
    }
    Ok(true)
}
