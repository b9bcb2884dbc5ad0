//! The hash of names, as section "The hash" of the document spells it out.

const K: [u32; 3] = [0, 0x5a82_7999, 0x6ed9_eba1];
const ORDER: [[usize; 8]; 3] = [[0, 1, 2, 3, 4, 5, 6, 7], [1, 3, 5, 7, 0, 2, 4, 6], [3, 7, 2, 6, 1, 5, 0, 4]];
const SHIFTS: [[u32; 4]; 3] = [[3, 7, 11, 19], [3, 5, 9, 13], [3, 9, 11, 15]];

fn function(round: usize, x: u32, y: u32, z: u32) -> u32 {
    match round {
        0 => (x & y) | (!x & z),
        1 => (x & y) | (x & z) | (y & z),
        _ => x ^ y ^ z,
    }
}

/// The eight words of a piece, of which `left` bytes of the name are left.
fn words(piece: &[u8], left: usize) -> [u32; 8] {
    let mut words = [u32::from_le_bytes([left as u8; 4]); 8];
    for (word, bytes) in words.iter_mut().zip(piece.chunks(4)) {
        for byte in bytes {
            *word = (*word << 8).wrapping_add(u32::from(*byte));
        }
    }
    words
}

/// The hash of a name.
pub(super) fn hash(seed: [u32; 4], name: &[u8]) -> u32 {
    let mut state = seed;
    for (number, piece) in name.chunks(32).enumerate() {
        let m = words(piece, name.len() - 32 * number);
        let [mut a, mut b, mut c, mut d] = state;
        for round in 0..3 {
            for i in 0..8 {
                let sum = a
                    .wrapping_add(function(round, b, c, d))
                    .wrapping_add(m[ORDER[round][i]])
                    .wrapping_add(K[round]);
                let t = sum.rotate_left(SHIFTS[round][i % 4]);
                (a, b, c, d) = (d, t, b, c);
            }
        }
        for (word, add) in state.iter_mut().zip([a, b, c, d]) {
            *word = word.wrapping_add(add);
        }
    }
    state[1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_document_come_out() {
        let initial = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
        let counted = [0x0302_0100, 0x0706_0504, 0x0b0a_0908, 0x0f0e_0d0c];
        assert_eq!(hash(initial, b"a"), 0xd5fa_7d7b);
        assert_eq!(hash(initial, b"lost+found"), 0x591d_e422);
        assert_eq!(hash(counted, b"a"), 0x0a2f_a3a1);
        assert_eq!(hash(counted, &[b'x'; 255]), 0xba90_8bbe);
        assert_eq!(hash(counted, &[255]), 0x4f4d_e11e);
    }
}
