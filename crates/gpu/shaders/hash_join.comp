#version 460
// Joins chaining values of texts pairwise, a level of BLAKE3's tree in a dispatch: an invocation for each
// pair. The joined value takes the place of the left one. Its twin is `twin/hash_join.rs`.

#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "blake3.glsl"

layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer Joins { JoinRecord join[]; };

void hash_join(JoinRecord join) {
    Values values = Values(p.answers);
    uint left = join.left * 2u;
    uint right = (join.right & ~IS_ROOT) * 2u;
    uint flags = join.right >= IS_ROOT ? PARENT | ROOT : PARENT;
    uvec4 low = START_LOW;
    uvec4 high = START_HIGH;
    uvec4 k = values.word[left];
    uvec4 l = values.word[left + 1u];
    uvec4 m = values.word[right];
    uvec4 n = values.word[right + 1u];
    compress(low, high, k, l, m, n, 0u, BLOCK_BYTES, flags);
    values.word[left] = low;
    values.word[left + 1u] = high;
}

void main() {
    uint i = invocation();
    if (i < p.count) {
        hash_join(Joins(p.starts).join[i]);
    }
}
