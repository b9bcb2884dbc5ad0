// Words of device memory by address, and of the volume by position.

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer Words { uint word[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer Quads { uint64_t quad[]; };

// Where each chunk of the volume lies in device memory: an address, 0 for one that is not there.
struct Mirror {
    uint64_t chunks;
    uint64_t count;
};

// The address of what lies at a position; 0 where it is not there, or outside the volume.
uint64_t address_of(Mirror mirror, uint64_t at) {
    uint64_t chunk = at / CHUNK;
    if (chunk >= mirror.count) {
        return 0UL;
    }
    uint64_t base = Quads(mirror.chunks + chunk * 8UL).quad[0];
    return base == 0UL ? 0UL : base + at % CHUNK;
}

// The word at a position, which is a multiple of 4; `there` becomes false where it is not there. What a block that is
// not in memory has in its place is all ones, which nothing sound is.
uint word_at(Mirror mirror, uint64_t at, inout bool there) {
    uint64_t address = address_of(mirror, at);
    if (address == 0UL) {
        there = false;
        return 0xffffffffu;
    }
    return Words(address).word[0];
}

// The same for 8 bytes, at a multiple of 8.
uint64_t quad_at(Mirror mirror, uint64_t at, inout bool there) {
    uint64_t address = address_of(mirror, at);
    if (address == 0UL) {
        there = false;
        return 0xffffffffffffffffUL;
    }
    return Quads(address).quad[0];
}

// Four bytes of text from any offset on, the first in the lowest bits. The text's buffer goes on for a word behind its end.
uint text_word(uint64_t text, uint at) {
    Words words = Words(text);
    uint shift = at % 4u * 8u;
    uint low = words.word[at / 4u];
    if (shift == 0u) {
        return low;
    }
    return low >> shift | words.word[at / 4u + 1u] << (32u - shift);
}

uint text_byte(uint64_t text, uint at) {
    return Words(text).word[at / 4u] >> (at % 4u * 8u) & 0xffu;
}
