#version 460
// Finds entries by name, type, size and time: an invocation for each leaf block of a list. Its twin is
// `twin/find.rs`.
//
// A record is the entry's own units. The first unit, its links, gives way to `FindRecord`. Each invocation
// reserves the output for all of its entries at once.

#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"

const uint UNITS = uint(BLOCK / UNIT);

layout(buffer_reference, std430, buffer_reference_align = 16) buffer Output { uvec4 unit[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Records { FindRecord record[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Counter { uint count; };

FilterProgram filter_of() {
    return FilterProgram(p.text);
}

#define BYTE(k) \
    if (i + k < length) { \
        states = (states & f.leads[word >> (8u * k) & 0xffu]) << 1 | (states & f.stays); \
    }

// Matches all patterns at a time: a state for each position in a pattern. So a name costs its length,
// whatever the stars.
bool name_matches(uint64_t name, uint length) {
    FilterProgram f = filter_of();
    uint64_t states = f.start;
    for (uint i = 0u; i < length && states != 0UL && burn(); i += 4u) {
        uint word = Words(name).word[i / 4u];
        BYTE(0u)
        BYTE(1u)
        BYTE(2u)
        BYTE(3u)
    }
    return (states & f.end) == f.end;
}

// Returns the flags of an entry whose name and type match.
uint by_attributes(uint64_t ino, uint kind) {
    FilterProgram f = filter_of();
    uint64_t inode = address_of(ino * uint64_t(p.inode_size));
    if (inode == 0UL || (Words(inode).word[0] & MODE_TYPE) != kind << 12) {
        return ENTRY_UNDECIDED;
    }
    uint64_t size = Quads(inode + (kind == KIND_DIRECTORY ? INODE_BLOCKS : INODE_BYTES)).quad[0];
    if (kind == KIND_DIRECTORY) {
        size = size >= 1UL << 52 ? 0xffffffffffffffffUL : size * BLOCK;
    }
    uint64_t time = Quads(inode + INODE_MTIME).quad[0] ^ 1UL << 63;
    bool holds = size >= f.size_min && size <= f.size_max && time >= f.time_min && time <= f.time_max;
    return holds ? ENTRY_MATCHES : 0u;
}

void main() {
    uint i = invocation();
    if (i >= p.count) {
        return;
    }
    uint64_t position = Quads(p.starts).quad[i];
    uint64_t block = position % BLOCK == 0UL ? address_of(position) : 0UL;
    bool is_sound = block != 0UL && (Words(block).word[0] & 0xffu) == BLOCK_LEAF;
    uint64_t dir = is_sound ? Quads(block + LEAF_OWNER).quad[0] : 0UL;
    // The entries of the orphan directory are not found.
    if (is_sound && dir == p.root) {
        return;
    }
    FilterProgram f = filter_of();
    fuel = p.fuel;
    spend(COPY_FUEL);
    // A bit for each entry of the output, by its first unit, and one for each of its flags.
    uint given[8] = uint[](0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u);
    uint matches[8] = given;
    uint undecided[8] = given;
    uint units = 0u;
    uint unit = uint(LEAF_SIZE / UNIT);
    while (is_sound && unit < UNITS && burn()) {
        uint used = Words(block + LEAF_UNITS).word[unit / 32u] >> unit % 32u;
        if ((used & 1u) == 0u) {
            // Skips to the next unit in use, or to the next word.
            unit = used == 0u ? (unit | 31u) + 1u : unit + uint(findLSB(used));
            continue;
        }
        uint64_t at = block + uint64_t(unit) * UNIT;
        uint rest = unit + ENTRY_SIZE / uint(UNIT) > UNITS ? 0xffffffffu : Words(at + ENTRY_HASH).word[1];
        uint length = rest & 0xffu;
        uint kind = rest >> 8 & 0xffu;
        uint taken = (ENTRY_SIZE + length + uint(UNIT) - 1u) / uint(UNIT);
        is_sound = unit + taken <= UNITS && (length == 0u || rest >> 16 == 0u && is_kind(kind));
        // Dummies have no name.
        if (is_sound && length != 0u) {
            uint flags = 0u;
            if ((f.kinds >> kind & 1u) != 0u && name_matches(at + ENTRY_SIZE, length)) {
                bool asks = (f.wants & WANTS_ATTRIBUTES) != 0u;
                flags = asks ? by_attributes(Quads(at + ENTRY_INODE).quad[0], kind) : ENTRY_MATCHES;
            }
            if (flags != 0u || kind == KIND_DIRECTORY && (f.wants & WANTS_DIRECTORIES) != 0u) {
                given[unit / 32u] |= 1u << unit % 32u;
                matches[unit / 32u] |= (flags & ENTRY_MATCHES) << unit % 32u;
                undecided[unit / 32u] |= flags / ENTRY_UNDECIDED << unit % 32u;
                units += taken;
            }
        }
        unit += taken;
    }
    is_sound = is_sound && fuel != 0u;
    uint needed = is_sound ? units : 1u;
    if (needed == 0u) {
        return;
    }
    uint to = atomicAdd(Counter(p.answers).count, needed, gl_ScopeQueueFamily, 0, 0);
    if (to > p.room || needed > p.room - to) {
        return;
    }
    // Behind the count, in units.
    to++;
    if (!is_sound) {
        Records(p.answers).record[to] = FindRecord(position, uint64_t(LEAF_UNDECIDED));
        return;
    }
    fuel += COPY_FUEL;
    uint64_t number = Quads(block + LEAF_NUMBER).quad[0];
    for (uint w = 0u; w < 8u && burn(); w++) {
        uint left = given[w];
        while (left != 0u && burn()) {
            uint bit = uint(findLSB(left));
            left &= left - 1u;
            unit = 32u * w + bit;
            uint flags = (matches[w] >> bit & 1u) * ENTRY_MATCHES | (undecided[w] >> bit & 1u) * ENTRY_UNDECIDED;
            uint64_t order = (number << 8 | uint64_t(unit)) << 8 | uint64_t(flags);
            uint64_t at = block + uint64_t(unit) * UNIT;
            Records(p.answers).record[to++] = FindRecord(dir, order);
            uint length = Words(at + ENTRY_HASH).word[1] & 0xffu;
            uint taken = (ENTRY_SIZE + length + uint(UNIT) - 1u) / uint(UNIT);
            for (uint k = 1u; k < taken && burn(); k++) {
                Words from = Words(at + uint64_t(k) * UNIT);
                Output(p.answers).unit[to++] = uvec4(from.word[0], from.word[1], from.word[2], from.word[3]);
            }
        }
    }
}
