//! Twin of `shaders/blake3.glsl`: BLAKE3's compression function.

use std::array::from_fn;

/// Words of four, as the kernels have them.
type Word = [u32; 4];

/// A chaining value.
pub(crate) type Value = [u32; 8];

pub(in crate::twin) const START: Value =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// Flags of a block: the first and the last one of a portion, two chaining values, the end of a text.
pub(in crate::twin) const CHUNK_START: u32 = 1;
pub(in crate::twin) const CHUNK_END: u32 = 2;
pub(in crate::twin) const PARENT: u32 = 4;
pub(in crate::twin) const ROOT: u32 = 8;

pub(in crate::twin) const BLOCK_BYTES: u32 = 64;

/// The rows of the state.
struct State {
    a: Word,
    b: Word,
    c: Word,
    d: Word,
}

impl State {
    /// Mixes words of a block into the state.
    fn stir(&mut self, x: Word, y: Word) {
        let State { a, b, c, d } = self;
        for i in 0..4 {
            a[i] = a[i].wrapping_add(b[i]).wrapping_add(x[i]);
            d[i] = (d[i] ^ a[i]).rotate_right(16);
            c[i] = c[i].wrapping_add(d[i]);
            b[i] = (b[i] ^ c[i]).rotate_right(12);
            a[i] = a[i].wrapping_add(b[i]).wrapping_add(y[i]);
            d[i] = (d[i] ^ a[i]).rotate_right(8);
            c[i] = c[i].wrapping_add(d[i]);
            b[i] = (b[i] ^ c[i]).rotate_right(7);
        }
    }

    fn turn(&mut self, [k, l, m, n]: &[Word; 4]) {
        self.stir([k[0], k[2], l[0], l[2]], [k[1], k[3], l[1], l[3]]);
        self.b.rotate_left(1);
        self.c.rotate_left(2);
        self.d.rotate_left(3);
        self.stir([m[0], m[2], n[0], n[2]], [m[1], m[3], n[1], n[3]]);
        self.b.rotate_left(3);
        self.c.rotate_left(2);
        self.d.rotate_left(1);
    }
}

/// Returns the words of a block in the order of the next turn.
fn permuted([k, l, m, n]: &[Word; 4]) -> [Word; 4] {
    [[k[2], l[2], k[3], m[2]], [l[3], k[0], l[0], n[1]], [k[1], m[3], n[0], l[1]], [m[1], n[2], n[3], m[0]]]
}

/// Compresses a block of four words into a chaining value. `number` is that of the portion.
pub(in crate::twin) fn compress(
    value: &Value,
    block: [Word; 4],
    number: u32,
    bytes: u32,
    flags: u32,
) -> Value {
    let [low, high] = halves(value);
    let mut state = State { a: low, b: high, c: halves(&START)[0], d: [number, 0, bytes, flags] };
    let mut block = block;
    state.turn(&block);
    for _ in 1..7 {
        block = permuted(&block);
        state.turn(&block);
    }
    let State { a, b, c, d } = state;
    from_fn(|i| if i < 4 { a[i] ^ c[i] } else { b[i - 4] ^ d[i - 4] })
}

/// Returns the two words of a chaining value.
pub(in crate::twin) fn halves(value: &Value) -> [Word; 2] {
    from_fn(|half| from_fn(|i| value[half * 4 + i]))
}
