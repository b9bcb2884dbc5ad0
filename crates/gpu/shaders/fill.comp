#version 460
// Puts what lookups noted into the directory cache: an invocation for each note. Its twin is `twin/fill.rs`.

#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"

void main() {
    uint i = invocation();
    if (i >= min(Words(p.notes).word[0], p.note_room)) {
        return;
    }
    fuel = p.fuel;
    uint64_t dir = Quads(p.notes + 16UL + uint64_t(i) * 16UL).quad[0];
    uint64_t at = Quads(p.notes + 16UL + uint64_t(i) * 16UL).quad[1];
    // Found by a lookup before, so it is there, and whole.
    uint64_t address = address_of(at);
    if (address == 0UL) {
        return;
    }
    uint64_t word = Quads(address + ENTRY_HASH).quad[0];
    uint rest = uint(word >> 32);
    Name name;
    name.bytes = rest & 0xffu;
    name.hash = uint(word);
    uint length = min(name.bytes, CACHED_NAME);
    for (uint k = 0u; k < CACHED_NAME_WORDS; k++) {
        name.first[k] = text_word(address + ENTRY_SIZE, 4u * k, length);
    }
    insert(dir, name, Entry(FOUND, rest >> 8 & 0xffu, Quads(address + ENTRY_INODE).quad[0], at));
}
