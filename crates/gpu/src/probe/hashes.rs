//! Probe of the kernels that hash texts: any portions and pairs, where the values must be the twins', and
//! texts whose BLAKE3 hashes are known.

use super::known::{KnownPaths, wrong};
use crate::error::Result;
use crate::kernels::context::DeviceContext;
use crate::kernels::{HASH_JOIN, HASH_TEXT};
use crate::searches::text_hash::{TextHash, woven_portions};
use crate::shared::layout::{IS_ROOT, PORTION};
use crate::shared::structures::JoinRecord;
use crate::twin::headers::woven::WovenText;
use crate::twin::kernels::hash_join::hash_join as join_twin;
use crate::twin::kernels::hash_text::hash_text as text_twin;
use lanefs::Volume;

/// Lengths of texts, and the hashes of these texts: their bytes count up to 250, again and again.
const KNOWN: [(usize, &str); 14] = [
    (0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"),
    (1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"),
    (63, "e9bc37a594daad83be9470df7f7b3798297c3d834ce80ba85d6e207627b7db7b"),
    (64, "4eed7141ea4a5cd4b788606bd23f46e212af9cacebacdc7d1f4c6dc7f2511b98"),
    (65, "de1e5fa0be70df6d2be8fffd0e99ceaa8eb6e8c93a63f2d8d1c30ecb6b263dee"),
    (1023, "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11"),
    (1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7"),
    (1025, "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444"),
    (2048, "e776b6028c7cd22a4d0ba182a8bf62205d2ef576467e838ed6f2529b85fba24a"),
    (2049, "5f4d72f40d7a5f82b15ca2b2e44b1de3c2ef86c426c95c1af0b6879522563030"),
    (3072, "b98cb0ff3623be03326b373de6b9095218513e64f1ee2edd2525c7ad1e5cffd2"),
    (5121, "628bd2cb2004694adaab7bbd778a25df25c47b9d4155a55f8fbd79f2fe154cff"),
    (31744, "62b6960e1a44bcc1eb1a611a8d6235b6b4b78f32e7abc4fb4c6cdcce94895c47"),
    (40961, "f9891001206b76f2cb56e0cd12e431ce9760834e2e3d3d8b6ab59d6a571e6e68"),
];

/// Returns a text whose hash is known.
fn text(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// Numbers without an order.
struct Numbers(u32);

impl Numbers {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0 ^ self.0 >> 15
    }
}

pub(crate) fn hash(context: &DeviceContext, _: &Volume, _: &KnownPaths) -> Result<()> {
    let hasher = TextHash::new(context);
    values_are_those_of_the_twins(context, &hasher)?;
    let texts: Vec<Vec<u8>> = KNOWN.iter().map(|(len, _)| text(*len)).collect();
    let (woven, lists) = woven_portions(&texts.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let values = hasher.hash_directly(&woven, &lists)?;
    for ((len, hash), first) in KNOWN.iter().zip(lists.firsts) {
        let hex = |word: u32| format!("{:08x}", word.swap_bytes());
        let found: String = values[first].into_iter().map(hex).collect();
        if found != *hash {
            let kernel = if *len > PORTION { HASH_JOIN } else { HASH_TEXT };
            return wrong(kernel, format!("{len} bytes: {found}, not {hash}"));
        }
    }
    Ok(())
}

/// Asks for portions of all lengths, with numbers and flags that no text has at once, and for pairs of them
/// that have no order.
fn values_are_those_of_the_twins(context: &DeviceContext, hasher: &TextHash) -> Result<()> {
    let mut numbers = Numbers(1);
    let lengths = (0..=16).flat_map(|block| [0, 1, 63].map(|more| (block * 64 + more).min(PORTION)));
    let texts: Vec<Vec<u8>> = lengths
        .chain((0..60).map(|number| number * 17 + 1))
        .map(|len| (0..len).map(|_| numbers.next() as u8).collect())
        .collect();
    let (woven, mut lists) = woven_portions(&texts.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let mut flag = |number: u32| numbers.next() & 1 << 8 == 0 && number > 0;
    for (index, portion) in (0..).zip(&mut lists.portions) {
        portion.number = u32::wrapping_mul(index, 0x1357_9bdf);
        portion.bytes = portion.bytes & !IS_ROOT | if flag(index) { IS_ROOT } else { 0 };
    }
    let text = WovenText::new(&woven);
    let mut expected = text_twin(&text, &lists.portions, context.fuel());
    let values = hasher.hash_directly(&woven, &lists)?;
    if let Some(index) = (0..expected.len()).find(|index| values[*index] != expected[*index]) {
        return wrong(HASH_TEXT, format!("the value of {:?}", lists.portions[index]));
    }
    let last = lists.portions.len() as u32 - 1;
    let pair = |left: u32| {
        let (left, right) = if left.is_multiple_of(3) { (last - left, left) } else { (left, last - left) };
        JoinRecord { left, right: right | if flag(left) { IS_ROOT } else { 0 } }
    };
    lists.levels = vec![(0..lists.portions.len() as u32 / 2).map(pair).collect()];
    join_twin(&text, &mut expected, &lists.levels[0]);
    let values = hasher.hash_directly(&woven, &lists)?;
    match (0..expected.len()).find(|index| values[*index] != expected[*index]) {
        Some(index) => wrong(HASH_JOIN, format!("value {index} of pairs without an order")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_hashes_are_those_of_the_crate() {
        for (len, hash) in KNOWN {
            assert_eq!(*blake3::hash(&text(len)).to_hex(), *hash, "{len} bytes");
        }
    }
}
