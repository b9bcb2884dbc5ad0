// ext4's half-MD4, as `half_md4` of the format.

uint rotate_left(uint word, uint bits) {
    return word << bits | word >> (32u - bits);
}

// One of three rounds: eight steps over the message in the given order.
void half_md4_round(inout uvec4 s, uint m[8], uint key, uint order[8], uint shifts[4], uint kind) {
    for (uint i = 0u; i < 8u; i++) {
        uint f = kind == 0u ? s.w ^ (s.y & (s.z ^ s.w))
               : kind == 1u ? (s.y & s.z) + ((s.y ^ s.z) & s.w)
               : s.y ^ s.z ^ s.w;
        uint sum = s.x + f + m[order[i]] + key;
        s = uvec4(s.w, rotate_left(sum, shifts[i % 4u]), s.y, s.z);
    }
}

// Hash of `length` bytes of text.
uint half_md4(uvec4 seed, uint64_t text, uint at, uint length) {
    uvec4 buf = seed;
    for (uint from = 0u; from < length; from += 32u) {
        uint left = length - from;
        uint pad = left * 0x01010101u;
        uint m[8];
        for (uint i = 0u; i < 8u; i++) {
            uint have = min(left - min(left, 4u * i), 4u);
            uint word = pad;
            if (have > 0u) {
                uint bytes = text_word(text, at + from + 4u * i);
                for (uint b = 0u; b < have; b++) {
                    word = word << 8 | (bytes >> (8u * b) & 0xffu);
                }
            }
            m[i] = word;
        }
        uvec4 s = buf;
        half_md4_round(s, m, 0u, uint[](0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u), uint[](3u, 7u, 11u, 19u), 0u);
        half_md4_round(s, m, 0x5a827999u, uint[](1u, 3u, 5u, 7u, 0u, 2u, 4u, 6u), uint[](3u, 5u, 9u, 13u), 1u);
        half_md4_round(s, m, 0x6ed9eba1u, uint[](3u, 7u, 2u, 6u, 1u, 5u, 0u, 4u), uint[](3u, 9u, 11u, 15u), 2u);
        buf += s;
    }
    return buf.y;
}
