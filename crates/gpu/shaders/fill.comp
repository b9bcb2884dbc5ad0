#version 460
// Puts the entries that lookups requested into the directory cache: an invocation for each request. Its
// twin is `twin/fill.rs`.

#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "lists.glsl"

layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer Fills { FillRequest request[]; };

void main() {
    uint i = invocation();
    if (i >= list_length(FILLS, p.room)) {
        return;
    }
    fuel = p.fuel;
    FillRequest request = Fills(p.fills).request[i];
    // A lookup has found the entry, so it is resident, and whole.
    uint64_t address = address_of(request.entry);
    if (address == 0UL) {
        return;
    }
    uint64_t word = Quads(address + ENTRY_HASH).quad[0];
    uint rest = uint(word >> 32);
    uint length = rest & 0xffu;
    if (length > CACHED_NAME_BYTES) {
        return;
    }
    ShortName name = short_name(address + ENTRY_SIZE, 0u, length);
    insert(request.dir, name, Entry(FOUND, rest >> 8 & 0xffu, Quads(address + ENTRY_INODE).quad[0], request.entry));
}
