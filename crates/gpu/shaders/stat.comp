#version 460
// The first bytes of inodes, by number: an invocation each. Its twin is `twin/stat.rs`. Where none is there, zeros: no inode in use
// begins with them.

#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"

layout(buffer_reference, std430, buffer_reference_align = 8) restrict writeonly buffer Cores { uint64_t quad[]; };

void main() {
    uint i = invocation();
    if (i >= p.count) {
        return;
    }
    bool there = true;
    uint64_t inode = Quads(p.starts).quad[i] * uint64_t(p.inode_size);
    uint mode = word_at(inode, there) & 0xffffu;
    there = there && mode != 0u && mode != 0xffffu;
    Quads from = Quads(address_of(inode));
    Cores to = Cores(p.answers + uint64_t(i) * uint64_t(INODE_SIZE));
    for (uint k = 0u; k < INODE_SIZE / 8u; k++) {
        to.quad[k] = there ? from.quad[k] : 0UL;
    }
}
