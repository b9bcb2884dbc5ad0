#version 460
// Reads the first bytes of inodes, by number: an invocation each. Its twin is `twin/stat.rs`. Zeros stand
// for an absent inode: no inode in use begins with them.

#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"

layout(buffer_reference, std430, buffer_reference_align = 8) restrict writeonly buffer Cores { uint64_t quad[]; };

void main() {
    uint i = invocation();
    if (i >= p.count) {
        return;
    }
    bool resident = true;
    uint64_t inode = Quads(p.starts).quad[i] * uint64_t(p.inode_size);
    uint mode = word_at(inode, resident) & 0xffffu;
    resident = resident && mode != 0u && mode != 0xffffu;
    Quads from = Quads(address_of(inode));
    Cores to = Cores(p.answers + uint64_t(i) * uint64_t(INODE_SIZE));
    for (uint k = 0u; k < INODE_SIZE / 8u; k++) {
        to.quad[k] = resident ? from.quad[k] : 0UL;
    }
}
