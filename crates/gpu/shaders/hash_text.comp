#version 460
// Hashes portions of texts: an invocation for each 1,024 bytes, which are a chunk of BLAKE3. It leaves the
// portion's chaining value; that of a text with no other portion is the text's hash. Its twin is
// `twin/hash_text.rs`.
//
// Portions are woven (`woven.glsl`). The host has filled the last block of a portion with zeros.

#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "woven.glsl"
#include "blake3.glsl"

layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer Portions { PortionRecord portion[]; };

// Returns a word of a portion.
uvec4 portion_word(uint i, uint word) {
    return Text(p.text).word[woven(i, word, PORTION_WORDS)];
}

void hash_text(uint i, out uvec4 low, out uvec4 high) {
    PortionRecord portion = Portions(p.starts).portion[i];
    uint bytes = portion.bytes & ~IS_ROOT;
    bool is_root = portion.bytes >= IS_ROOT;
    // A text without bytes has one block.
    uint last = (max(bytes, 1u) - 1u) / BLOCK_BYTES;
    low = START_LOW;
    high = START_HIGH;
    for (uint block = 0u; block <= last && burn(); block++) {
        uint first = block * 4u;
        uvec4 k = portion_word(i, first);
        uvec4 l = portion_word(i, first + 1u);
        uvec4 m = portion_word(i, first + 2u);
        uvec4 n = portion_word(i, first + 3u);
        uint flags = block == 0u ? CHUNK_START : 0u;
        uint in_block = BLOCK_BYTES;
        if (block == last) {
            flags |= is_root ? CHUNK_END | ROOT : CHUNK_END;
            in_block = bytes - block * BLOCK_BYTES;
        }
        compress(low, high, k, l, m, n, portion.number, in_block, flags);
    }
}

void main() {
    uint i = invocation();
    if (i >= p.count) {
        return;
    }
    fuel = p.fuel;
    uvec4 low;
    uvec4 high;
    hash_text(i, low, high);
    Values(p.answers).word[i * 2u] = low;
    Values(p.answers).word[i * 2u + 1u] = high;
}
