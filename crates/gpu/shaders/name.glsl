// Names: as directories have them, with their hash (ext4's half-MD4, as `half_md4` of the format), and as the
// directory cache has them.

struct Name {
    uint64_t text;
    uint at;
    // Its length.
    uint bytes;
    uint hash;
};

// A name of at most CACHED_NAME_BYTES bytes by words, zeros past its end.
struct ShortName {
    uint bytes;
    uint word[CACHED_NAME_WORDS];
};

ShortName short_name(uint64_t text, uint at, uint length) {
    ShortName name;
    name.bytes = length;
    for (uint k = 0u; k < CACHED_NAME_WORDS; k++) {
        name.word[k] = text_word(text, at + 4u * k, at + length);
    }
    return name;
}

// Hashes a short name for the directory cache.
uint hash_of_name(ShortName name) {
    uint hash = p.seed.x;
    for (uint k = 0u; k < CACHED_NAME_WORDS; k++) {
        hash = mix_word(hash, name.word[k]);
    }
    return end_hash(hash, name.bytes);
}

uint swap_bytes(uint word) {
    return word << 24 | (word & 0xff00u) << 8 | (word >> 8 & 0xff00u) | word >> 24;
}

#define F1(x, y, z) (z ^ (x & (y ^ z)))
#define F2(x, y, z) ((x & y) + ((x ^ y) & z))
#define F3(x, y, z) (x ^ y ^ z)
#define STEP(F, a, b, c, d, m, k, s) a = rotate_left(a + F(b, c, d) + m + k, s)
#define FOUR(F, k, m0, m1, m2, m3, s0, s1, s2, s3) \
    STEP(F, s.x, s.y, s.z, s.w, m0, k, s0); \
    STEP(F, s.w, s.x, s.y, s.z, m1, k, s1); \
    STEP(F, s.z, s.w, s.x, s.y, m2, k, s2); \
    STEP(F, s.y, s.z, s.w, s.x, m3, k, s3)

uvec4 half_md4_block(uvec4 s, uint m[8]) {
    FOUR(F1, 0u, m[0], m[1], m[2], m[3], 3u, 7u, 11u, 19u);
    FOUR(F1, 0u, m[4], m[5], m[6], m[7], 3u, 7u, 11u, 19u);
    FOUR(F2, 0x5a827999u, m[1], m[3], m[5], m[7], 3u, 5u, 9u, 13u);
    FOUR(F2, 0x5a827999u, m[0], m[2], m[4], m[6], 3u, 5u, 9u, 13u);
    FOUR(F3, 0x6ed9eba1u, m[3], m[7], m[2], m[6], 3u, 9u, 11u, 15u);
    FOUR(F3, 0x6ed9eba1u, m[1], m[5], m[0], m[4], 3u, 9u, 11u, 15u);
    return s;
}

// Returns a word of the message: `have` bytes of the name, the first in the highest bits, after them the
// padding.
uint message_word(uint word, uint have, uint pad) {
    return have == 0u ? pad : have >= 4u ? swap_bytes(word) : pad << (8u * have) | swap_bytes(word) >> (32u - 8u * have);
}

Name name_of(uint64_t text, uint at, uint length) {
    Name name;
    name.text = text;
    name.at = at;
    name.bytes = length;
    uint end = at + length;
    uvec4 hash = p.seed;
    for (uint from = 0u; from < length; from += 32u) {
        uint left = length - from;
        uint m[8];
        for (uint i = 0u; i < 8u; i++) {
            uint word = text_word(text, at + from + 4u * i, end);
            m[i] = message_word(word, left - min(left, 4u * i), left * 0x01010101u);
        }
        hash += half_md4_block(hash, m);
    }
    spend(1u + length / 32u);
    name.hash = hash.y;
    return name;
}
