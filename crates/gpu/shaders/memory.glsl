// Words of device memory by address, and of the volume by position.

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer Words { uint word[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer Quads { uint64_t quad[]; };

// Returns the address of the bytes at a position; 0 where their chunk has no copy, or outside the volume.
uint64_t address_of(uint64_t at) {
    uint64_t chunk = at / CHUNK;
    if (chunk >= p.chunk_count) {
        return 0UL;
    }
    uint64_t base = Quads(p.chunks + chunk * 8UL).quad[0];
    return base == 0UL ? 0UL : base + at % CHUNK;
}

// Returns the word at a position, which is a multiple of 4; `resident` becomes false where its chunk has no
// copy. An absent block of a chunk is all ones, which no structure is.
uint word_at(uint64_t at, inout bool resident) {
    uint64_t address = address_of(at);
    if (address == 0UL) {
        resident = false;
        return 0xffffffffu;
    }
    return Words(address).word[0];
}

// Returns the 8 bytes at a position in the same way; it is a multiple of 8.
uint64_t quad_at(uint64_t at, inout bool resident) {
    uint64_t address = address_of(at);
    if (address == 0UL) {
        resident = false;
        return 0xffffffffffffffffUL;
    }
    return Quads(address).quad[0];
}

// Returns the number of a resident block among the mirror's versions.
uint block_number(uint64_t at) {
    uint copy = Words(p.copies + at / CHUNK * 4UL).word[0];
    return copy * uint(CHUNK / BLOCK) + uint(at % CHUNK / BLOCK);
}
