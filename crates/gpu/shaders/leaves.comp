#version 460
// Where directories have their leaf blocks: an invocation for each place of a file map. Its twin is `twin/leaves.rs`.
//
// Asked is the root of the map, and the place with the map's depth in the upper eight bits. The answer is the block's position, 0 for a
// hole, all ones where that cannot be decided here.

#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"

layout(buffer_reference, std430, buffer_reference_align = 8) restrict writeonly buffer Positions { uint64_t quad[]; };

const uint64_t UNDECIDED = 0xffffffffffffffffUL;
const uint64_t TAGS = 0x7fUL;

uint64_t block_at(uint64_t pointer, uint depth, uint64_t place) {
    if (depth > MAX_MAP_DEPTH) {
        return UNDECIDED;
    }
    if (place >> (9u * depth) != 0UL) {
        return 0UL;
    }
    for (uint level = depth; level > 0u && pointer != 0UL; level--) {
        uint64_t block = pointer & ~TAGS;
        if ((pointer & TAGS) != POINTER_INDIRECT || block % BLOCK != 0UL) {
            return UNDECIDED;
        }
        bool there = true;
        pointer = quad_at(block + (place >> (9u * (level - 1u)) & 511UL) * 8UL, there);
        if (!there) {
            return UNDECIDED;
        }
    }
    uint64_t block = pointer & ~TAGS;
    bool is_block = (pointer & TAGS) == POINTER_BLOCK && block % BLOCK == 0UL;
    return pointer == 0UL ? 0UL : is_block ? block : UNDECIDED;
}

void main() {
    uint i = invocation();
    if (i >= p.count) {
        return;
    }
    uint64_t place = Quads(p.starts).quad[2u * i + 1u];
    uint64_t pointer = Quads(p.starts).quad[2u * i];
    Positions(p.answers).quad[i] = block_at(pointer, uint(place >> 56), place & (1UL << 56) - 1UL);
}
