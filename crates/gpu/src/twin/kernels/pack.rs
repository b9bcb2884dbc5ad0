//! Twin of `shaders/pack.comp`.

use crate::shared::query::PathResult;
use crate::shared::structures::PackedAnswers;
use lanefs::format::Code;

/// Paths of a [`PackedAnswers`].
pub(crate) const PACKED: usize = u32::BITS as usize;

/// Packs the answers to paths: whether each names an inode, and whether it is open.
pub fn pack(answers: &[PathResult]) -> Vec<PackedAnswers> {
    answers.chunks(PACKED).map(pack_some).collect()
}

fn pack_some(answers: &[PathResult]) -> PackedAnswers {
    let mut bits = PackedAnswers::default();
    for (k, answer) in answers.iter().enumerate() {
        bits.found |= u32::from(answer.code == Code::Success) << k;
        bits.open |= u32::from(answer.code == Code::NotResident) << k;
    }
    bits
}
