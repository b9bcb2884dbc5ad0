#version 460
// Fills the directory cache with the entries of the mirror's leaf blocks: an invocation for each block of
// the volume, from the position `base` on. Its twin is `twin/warm.rs`. An entry counts where the
// directory's own structures lead to it, as for any lookup.

#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"

void main() {
    uint i = invocation();
    if (i >= p.count) {
        return;
    }
    uint64_t position = p.base + uint64_t(i) * BLOCK;
    uint64_t block = address_of(position);
    if (block == 0UL || (Words(block).word[0] & 0xffu) != BLOCK_LEAF) {
        return;
    }
    fuel = p.fuel;
    uint64_t dir = Quads(block + LEAF_OWNER).quad[0];
    uint unit = uint(LEAF_SIZE / UNIT);
    while (unit < uint(BLOCK / UNIT) && burn()) {
        uint used = Words(block + LEAF_UNITS).word[unit / 32u] >> unit % 32u;
        if ((used & 1u) == 0u) {
            // Skips to the next unit in use, or to the next word.
            unit = used == 0u ? (unit | 31u) + 1u : unit + uint(findLSB(used));
            continue;
        }
        uint64_t at = position + uint64_t(unit) * UNIT;
        uint length = Words(block + uint64_t(unit) * UNIT + ENTRY_HASH).word[1] & 0xffu;
        unit += (ENTRY_SIZE + length + uint(UNIT) - 1u) / uint(UNIT);
        if (unit > uint(BLOCK / UNIT) || length == 0u || length > CACHED_NAME_BYTES) {
            continue;
        }
        Name name = name_of(block + at % BLOCK + ENTRY_SIZE, 0u, length);
        Entry entry = find(dir, false, name);
        if (fuel != 0u && entry.state == FOUND && entry.at == at) {
            insert(dir, short_name(name.text, 0u, length), entry);
        }
    }
}
