#version 460
// Where names are in directories, or would be: an invocation each. Its twin is `twin/seek.rs`.

#extension GL_GOOGLE_include_directive : require
#define SHARES_MEMORY
#include "prelude.glsl"
#include "change.glsl"

struct Sought {
    // Number of the directory; 0: the hash alone is asked for.
    uint64_t dir;
    // Where the name begins in the text, and its length.
    uint start;
    uint bytes;
};

struct Seen {
    // The root of a directory that has what the hash belongs to alone: its form, and the position of leaf or index block.
    uint64_t home;
    uint64_t dummy;
    uint64_t at;
    uint64_t ino;
    uint hash;
    uint count;
    uint kind;
    uint is_certain;
};

layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer Asked { Sought sought[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) restrict writeonly buffer Answers { Seen seen[]; };

Seen seek(Sought sought) {
    Name name = name_of(p.text, sought.start, sought.bytes);
    Seen seen = Seen(0UL, 0UL, 0UL, 0UL, name.hash, 0u, 0u, 1u);
    if (sought.dir == 0UL) {
        return seen;
    }
    bool there = true;
    uint64_t inode = sought.dir * uint64_t(p.inode_size);
    uint64_t root = quad_at(inode + (p.inode_size == 128u ? DIR_ROOT_128 : DIR_ROOT_256), there);
    if (!there || (word_at(inode, there) & MODE_TYPE) != MODE_DIRECTORY) {
        seen.is_certain = 0u;
        return seen;
    }
    if (root == 0UL) {
        return seen;
    }
    uint form = uint(root % BLOCK);
    uint64_t block = root - uint64_t(form);
    Entry entry = UNKNOWN_ENTRY;
    if (form == FORM_SMALL) {
        seen.home = root;
        seen.dummy = block + LEAF_SIZE;
        entry = find_small(inode, block, name);
    } else {
        uint64_t index = form == FORM_REGION ? block : form % 4u == FORM_TREE ? region_of(root, name.hash) : 0UL;
        seen.home = index + FORM_REGION;
        seen.dummy = dummy_of(index);
        need(!is_bad && quad_at(seen.dummy + ENTRY_INODE, there) == index && there);
        if (!is_bad) {
            entry = find_in_region(index, name);
        }
    }
    seen.count = rest_of(seen.dummy) >> 16;
    need(is_dummy(seen.dummy) && seen.count <= REGION_MAX && entry.state != UNKNOWN);
    seen.at = entry.at;
    seen.ino = entry.ino;
    seen.kind = entry.kind;
    seen.is_certain = is_bad || fuel == 0u ? 0u : 1u;
    return seen;
}

void main() {
    uint i = invocation();
    if (i >= p.count) {
        return;
    }
    fuel = p.fuel;
    Answers(p.answers).seen[i] = seek(Asked(p.starts).sought[i]);
}
