//! Twin of `shaders/hash_join.comp`.

use crate::shared::layout::IS_ROOT;
use crate::shared::structures::JoinRecord;
use crate::twin::headers::blake3::{BLOCK_BYTES, PARENT, ROOT, START, Value, compress, halves};
use crate::twin::headers::woven::WovenText;

/// Joins the pairs of a level. The text counts what is loaded.
pub(crate) fn hash_join(text: &WovenText<'_>, values: &mut [Value], joins: &[JoinRecord]) {
    for join in joins {
        text.count(JoinRecord::SIZE + 2 * size_of::<Value>());
        let (left, right) = (join.left as usize, (join.right & !IS_ROOT) as usize);
        let flags = if join.right >= IS_ROOT { PARENT | ROOT } else { PARENT };
        let ([k, l], [m, n]) = (halves(&values[left]), halves(&values[right]));
        values[left] = compress(&START, [k, l, m, n], 0, BLOCK_BYTES, flags);
    }
}
