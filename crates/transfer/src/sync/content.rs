//! Comparison of the contents of two files.

use super::failure::{Failure, WhichTree};
use super::tree::{Buffers, COMPARED_BYTES, Tree};
use crate::running::job::TransferJob;

/// True where two files of `size` bytes have the same content. Holes on both sides are equal, and not read. A
/// failure comes with its side.
pub(super) fn is_same<A: Tree, B: Tree>(
    job: &TransferJob<'_>,
    buffers: &mut Buffers,
    (a, file_a): (&A, &A::File),
    (b, file_b): (&B, &B::File),
    size: u64,
) -> Result<bool, (WhichTree, Failure)> {
    let in_a = |failure| (WhichTree::A, failure);
    let in_b = |failure| (WhichTree::B, failure);
    buffers.content.resize(COMPARED_BYTES.max(buffers.content.len()), 0);
    buffers.other.resize(COMPARED_BYTES, 0);
    let mut offset = 0;
    while offset < size {
        if job.should_stop() {
            return Err(in_a(Failure::Stopped));
        }
        let data_a = a.next_data(file_a, offset).map_err(in_a)?;
        let next = match (data_a, b.next_data(file_b, offset).map_err(in_b)?) {
            (None, None) => return Ok(true),
            (Some(at), None) | (None, Some(at)) => at,
            (Some(in_a), Some(in_b)) => in_a.min(in_b),
        };
        offset = next.max(offset);
        let want = COMPARED_BYTES.min(usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX));
        let (from_a, from_b) = (&mut buffers.content[..want], &mut buffers.other[..want]);
        let len_a = a.read(file_a, offset, from_a).map_err(in_a)?;
        let len_b = b.read(file_b, offset, from_b).map_err(in_b)?;
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
