// BLAKE3's compression function. Its twin is `twin/blake3.rs`. Words of four, for a chaining value has two
// of them and a block four; each operation works on the four columns, or diagonals, of the state.

const uvec4 START_LOW = uvec4(0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au);
const uvec4 START_HIGH = uvec4(0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u);

// Flags of a block: the first and the last one of a portion, two chaining values, the end of a text.
const uint CHUNK_START = 1u;
const uint CHUNK_END = 2u;
const uint PARENT = 4u;
const uint ROOT = 8u;

const uint BLOCK_BYTES = 64u;

// Chaining values, each of two words.
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Values { uvec4 word[]; };

uvec4 turned(uvec4 x, uint by) {
    return x >> by | x << (32u - by);
}

// Mixes words of a block into the state.
void stir(inout uvec4 a, inout uvec4 b, inout uvec4 c, inout uvec4 d, uvec4 x, uvec4 y) {
    a += b + x;
    d = turned(d ^ a, 16u);
    c += d;
    b = turned(b ^ c, 12u);
    a += b + y;
    d = turned(d ^ a, 8u);
    c += d;
    b = turned(b ^ c, 7u);
}

void turn(inout uvec4 a, inout uvec4 b, inout uvec4 c, inout uvec4 d, uvec4 k, uvec4 l, uvec4 m, uvec4 n) {
    stir(a, b, c, d, uvec4(k.xz, l.xz), uvec4(k.yw, l.yw));
    b = b.yzwx;
    c = c.zwxy;
    d = d.wxyz;
    stir(a, b, c, d, uvec4(m.xz, n.xz), uvec4(m.yw, n.yw));
    b = b.wxyz;
    c = c.zwxy;
    d = d.yzwx;
}

// Brings the words of a block into the order of the next turn.
void permute(inout uvec4 k, inout uvec4 l, inout uvec4 m, inout uvec4 n) {
    uvec4 first = uvec4(k.z, l.z, k.w, m.z);
    uvec4 second = uvec4(l.w, k.x, l.x, n.y);
    uvec4 third = uvec4(k.y, m.w, n.x, l.y);
    n = uvec4(m.y, n.z, n.w, m.x);
    k = first;
    l = second;
    m = third;
}

// Compresses a block of four words into a chaining value. `number` is that of the portion.
void compress(inout uvec4 low, inout uvec4 high, uvec4 k, uvec4 l, uvec4 m, uvec4 n, uint number, uint bytes, uint flags) {
    uvec4 a = low;
    uvec4 b = high;
    uvec4 c = START_LOW;
    uvec4 d = uvec4(number, 0u, bytes, flags);
    // No loop: its seven rounds would use up fuel, and each would move the words of the block.
    turn(a, b, c, d, k, l, m, n);
    permute(k, l, m, n);
    turn(a, b, c, d, k, l, m, n);
    permute(k, l, m, n);
    turn(a, b, c, d, k, l, m, n);
    permute(k, l, m, n);
    turn(a, b, c, d, k, l, m, n);
    permute(k, l, m, n);
    turn(a, b, c, d, k, l, m, n);
    permute(k, l, m, n);
    turn(a, b, c, d, k, l, m, n);
    permute(k, l, m, n);
    turn(a, b, c, d, k, l, m, n);
    low = a ^ c;
    high = b ^ d;
}
