#version 460
// Finds the leaf blocks of directories: an invocation for each block of a file map. Its twin is
// `twin/leaves.rs`.
//
// The result is the block's position, 0 for a hole, all ones where the kernel cannot decide.

#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"

layout(buffer_reference, std430, buffer_reference_align = 8) restrict writeonly buffer Positions { uint64_t quad[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer Requests { LeafRequest request[]; };

const uint64_t UNDECIDED = 0xffffffffffffffffUL;

uint64_t block_at(uint64_t pointer, uint depth, uint64_t number) {
    if (depth > MAX_MAP_DEPTH) {
        return UNDECIDED;
    }
    if (number >> (POINTER_SLOT_BITS * depth) != 0UL) {
        return 0UL;
    }
    for (uint level = depth; level > 0u && pointer != 0UL; level--) {
        uint64_t block = pointer & ~POINTER_TAGS;
        if ((pointer & POINTER_TAGS) != POINTER_INDIRECT || block % BLOCK != 0UL) {
            return UNDECIDED;
        }
        bool resident = true;
        pointer = quad_at(block + (number >> (POINTER_SLOT_BITS * (level - 1u)) & (1UL << POINTER_SLOT_BITS) - 1UL) * 8UL, resident);
        if (!resident) {
            return UNDECIDED;
        }
    }
    uint64_t block = pointer & ~POINTER_TAGS;
    bool is_block = (pointer & POINTER_TAGS) == POINTER_BLOCK && block % BLOCK == 0UL;
    return pointer == 0UL ? 0UL : is_block ? block : UNDECIDED;
}

void main() {
    uint i = invocation();
    if (i >= p.count) {
        return;
    }
    LeafRequest request = Requests(p.starts).request[i];
    uint depth = uint(request.block >> LEAF_DEPTH_SHIFT);
    Positions(p.answers).quad[i] = block_at(request.map, depth, request.block & (1UL << LEAF_DEPTH_SHIFT) - 1UL);
}
