//! Hashes of many names, side by side.

use lanefs_format::{HASH_LANES, HashSeed, half_md4, half_md4_lanes};

/// Names that take longer side by side than one by one (`half_md4_lanes` tells what it costs).
const FEW_NAMES: usize = 6;

/// Hashes all names, [`HASH_LANES`] at a time, with the widest vectors that the processor has.
pub(super) fn hash_all(seed: HashSeed, names: &[&[u8]], hashes: &mut Vec<u32>) {
    #[cfg(all(target_arch = "x86_64", not(lanefs_no_asm)))]
    {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
        {
            // SAFETY: the processor has the features.
            return unsafe { hash_avx512(seed, names, hashes) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { hash_avx2(seed, names, hashes) };
        }
    }
    hash_each(seed, names, hashes);
}

#[cfg(all(target_arch = "x86_64", not(lanefs_no_asm)))]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2")]
fn hash_avx512(seed: HashSeed, names: &[&[u8]], hashes: &mut Vec<u32>) {
    hash_each(seed, names, hashes);
}

#[cfg(all(target_arch = "x86_64", not(lanefs_no_asm)))]
#[target_feature(enable = "avx2")]
fn hash_avx2(seed: HashSeed, names: &[&[u8]], hashes: &mut Vec<u32>) {
    hash_each(seed, names, hashes);
}

#[inline(always)]
fn hash_each(seed: HashSeed, names: &[&[u8]], hashes: &mut Vec<u32>) {
    for part in names.chunks(HASH_LANES) {
        if part.len() <= FEW_NAMES {
            hashes.extend(part.iter().map(|name| half_md4(seed, name)));
            continue;
        }
        let mut lanes: [&[u8]; HASH_LANES] = [b"-"; HASH_LANES];
        lanes[..part.len()].copy_from_slice(part);
        hashes.extend_from_slice(&half_md4_lanes(seed, &lanes)[..part.len()]);
    }
}
