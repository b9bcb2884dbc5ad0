#version 460
// Resolves paths: an invocation each. Its twin is `twin/lookup.rs`, function by function.
//
// What cannot be decided here for certain (a block that is not in this memory, a symbolic link to follow, a structure that
// contradicts itself) is answered with NOT_RESIDENT, and the host decides. Every walk has a bound, and every position is
// looked up in the table of chunks, so no input leads to an endless loop or outside the buffers.

#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#pragma use_vulkan_memory_model

#include "layout.glsl"
#include "memory.glsl"
#include "half_md4.glsl"

layout(local_size_x_id = 0) in;

layout(buffer_reference, std430, buffer_reference_align = 8) restrict writeonly buffer Answers { uvec4 answer[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) restrict writeonly buffer Cores { uint64_t quad[]; };

layout(push_constant, std430) uniform Parameters {
    uint64_t chunks;
    uint64_t chunk_count;
    // Paths one behind the other; where each begins, and where the last ends.
    uint64_t text;
    uint64_t starts;
    uint64_t answers;
    // Where the first INODE_SIZE bytes of each inode found go; 0 where nobody asked for them.
    uint64_t cores;
    uint64_t root;
    uint64_t base;
    uvec4 seed;
    uint count;
    uint inode_size;
    uint follow;
} p;

const uint MISSING = 0u, FOUND = 1u, UNKNOWN = 2u;

struct Entry {
    uint state;
    uint64_t ino;
    uint kind;
};

const Entry NO_ENTRY = Entry(MISSING, 0UL, 0u);
const Entry UNKNOWN_ENTRY = Entry(UNKNOWN, 0UL, 0u);

Mirror mirror() {
    return Mirror(p.chunks, p.chunk_count);
}

// Compares the entry at a position with a name.
Entry probe(uint64_t at, uint name, uint length, uint hash) {
    if (at % UNIT != 0UL || at % BLOCK < LEAF_SIZE || at % BLOCK + ENTRY_SIZE + length > BLOCK) {
        return UNKNOWN_ENTRY;
    }
    bool there = true;
    uint64_t word = quad_at(mirror(), at + ENTRY_HASH, there);
    uint rest = uint(word >> 32);
    uint entry_length = rest & 0xffu;
    // A dummy, or a block that is not there.
    if (!there || entry_length == 0u || rest >> 16 != 0u) {
        return UNKNOWN_ENTRY;
    }
    if (uint(word) != hash || entry_length != length) {
        return NO_ENTRY;
    }
    // In one block, so in one chunk.
    Words bytes = Words(address_of(mirror(), at) + ENTRY_SIZE);
    for (uint i = 0u; i < length; i += 4u) {
        uint left = length - i;
        uint mask = left >= 4u ? 0xffffffffu : (1u << (8u * left)) - 1u;
        if (((bytes.word[i / 4u] ^ text_word(p.text, name + i)) & mask) != 0u) {
            return NO_ENTRY;
        }
    }
    uint64_t ino = quad_at(mirror(), at + ENTRY_INODE, there);
    uint kind = rest >> 8 & 0xffu;
    bool is_known = kind == KIND_FIFO || kind == KIND_CHAR_DEVICE || kind == KIND_DIRECTORY || kind == KIND_BLOCK_DEVICE
        || kind == KIND_FILE || kind == KIND_SYMLINK || kind == KIND_SOCKET;
    return is_known ? Entry(FOUND, ino, kind) : UNKNOWN_ENTRY;
}

Entry find_small(uint64_t inode, uint64_t leaf, uint name, uint length, uint hash) {
    uint tags = p.inode_size == 128u ? SMALL_TAGS_128 : SMALL_TAGS_256;
    uint entries = p.inode_size == 128u ? SMALL_ENTRIES_128 : SMALL_ENTRIES_256;
    bool there = true;
    for (uint i = 0u; i < entries; i++) {
        uint tag = word_at(mirror(), inode + tags + i / 4u * 4u, there) >> (i % 4u * 8u) & 0xffu;
        if (tag != hash >> 24) {
            continue;
        }
        uint units = tags + entries + i;
        uint unit = word_at(mirror(), inode + units / 4u * 4u, there) >> (units % 4u * 8u) & 0xffu;
        if (unit != 0u) {
            Entry entry = probe(leaf + uint64_t(unit) * UNIT, name, length, hash);
            if (entry.state != MISSING) {
                return entry;
            }
        }
    }
    return there ? NO_ENTRY : UNKNOWN_ENTRY;
}

Entry find_in_region(uint64_t index, uint name, uint length, uint hash) {
    uint tag = hash & 0xffffu;
    uint bucket = tag * BUCKETS >> 16;
    bool there = index % BLOCK == 0UL;
    for (uint n = 0u; n < BUCKETS && there; n++) {
        uint64_t slots = index + INDEX_SLOTS + uint64_t(bucket) * BUCKET_SLOTS * 8UL;
        uint64_t first = quad_at(mirror(), slots, there);
        // A block that is not there.
        if (first == 0xffffffffffffffffUL) {
            return UNKNOWN_ENTRY;
        }
        for (uint i = 0u; i < BUCKET_SLOTS && there; i++) {
            uint64_t slot = i == 0u ? first : quad_at(mirror(), slots + uint64_t(i) * 8UL, there);
            uint64_t at = (slot >> SLOT_SHIFT) * UNIT;
            if ((uint(slot) & 0xffffu) == tag && at != 0UL) {
                Entry entry = probe(at, name, length, hash);
                if (entry.state != MISSING) {
                    return entry;
                }
            }
        }
        if ((uint(first) & SLOT_OVERFLOW) == 0u) {
            return there ? NO_ENTRY : UNKNOWN_ENTRY;
        }
        bucket = (bucket + 1u) % BUCKETS;
    }
    return UNKNOWN_ENTRY;
}

// The index block of the region of a hash; 0 where that is not known.
uint64_t region_of(uint64_t block, uint hash) {
    uint above = MAX_TREE_LEVEL + 1u;
    for (uint n = 0u; n < MAX_TREE_LEVEL; n++) {
        bool there = block % BLOCK == 0UL;
        uint head = word_at(mirror(), block, there);
        uint level = head >> 8 & 0xffu;
        uint count = head >> 16;
        if (!there || (head & 0xffu) != BLOCK_TREE || level == 0u || level >= above || count == 0u || count > TREE_MAX) {
            return 0UL;
        }
        // Hashes are spread evenly, so the child is near where it would be if regions were.
        uint msb;
        uint lsb;
        umulExtended(hash, count, msb, lsb);
        uint i = msb;
        for (uint k = 0u; k < TREE_MAX && i > 0u && word_at(mirror(), block + TREE_HASHES + i * 4u, there) > hash; k++) {
            i--;
        }
        for (uint k = 0u; k < TREE_MAX && i + 1u < count
             && word_at(mirror(), block + TREE_HASHES + (i + 1u) * 4u, there) <= hash; k++) {
            i++;
        }
        uint64_t child = quad_at(mirror(), block + TREE_POSITIONS + uint64_t(i) * 8UL, there);
        if (!there) {
            return 0UL;
        }
        if (level == 1u) {
            return child;
        }
        above = level;
        block = child;
    }
    return 0UL;
}

// Looks a name up in a directory.
Entry find(uint64_t dir, uint name, uint length, uint hash) {
    bool there = true;
    uint64_t inode = dir * uint64_t(p.inode_size);
    uint mode = word_at(mirror(), inode, there) & 0xffffu;
    uint64_t root = quad_at(mirror(), inode + (p.inode_size == 128u ? DIR_ROOT_128 : DIR_ROOT_256), there);
    if (!there || (mode & MODE_TYPE) != MODE_DIRECTORY) {
        return UNKNOWN_ENTRY;
    }
    uint form = uint(root % BLOCK);
    uint64_t block = root - uint64_t(form);
    if (root == 0UL) {
        return NO_ENTRY;
    }
    if (form == FORM_SMALL) {
        return find_small(inode, block, name, length, hash);
    }
    uint64_t index = form == FORM_REGION ? block : form == FORM_TREE ? region_of(block, hash) : 0UL;
    return index == 0UL ? UNKNOWN_ENTRY : find_in_region(index, name, length, hash);
}

struct Answer {
    uint code;
    uint kind;
    uint64_t ino;
};

Answer failed(uint code) {
    return Answer(code, 0u, 0UL);
}

// Skips slashes.
uint skip(uint at, uint end) {
    while (at < end && text_byte(p.text, at) == 0x2fu) {
        at++;
    }
    return at;
}

Answer resolve(uint start, uint end) {
    if (start >= end) {
        return failed(CODE_NOT_FOUND);
    }
    if (end - start > MAX_PATH) {
        return failed(CODE_NOT_RESIDENT);
    }
    uint64_t dir = text_byte(p.text, start) == 0x2fu ? p.root : p.base;
    uint kind = KIND_DIRECTORY;
    uint at = skip(start, end);
    // A path of so many bytes has no more components.
    for (uint n = 0u; n < MAX_PATH && at < end; n++) {
        if (kind != KIND_DIRECTORY) {
            return failed(CODE_NOT_DIRECTORY);
        }
        uint name = at;
        while (at < end) {
            uint byte = text_byte(p.text, at);
            if (byte == 0x2fu) {
                break;
            }
            if (byte == 0u) {
                return failed(CODE_NOT_RESIDENT);
            }
            at++;
        }
        uint length = at - name;
        uint next = skip(at, end);
        bool is_last = next == end;
        bool has_rest = at < end;
        at = next;
        if (length > MAX_NAME) {
            return failed(CODE_NOT_RESIDENT);
        }
        uint dots = text_word(p.text, name) & (length == 1u ? 0xffu : 0xffffu);
        if (length == 1u && dots == 0x2eu) {
            continue;
        }
        if (length == 2u && dots == 0x2e2eu) {
            bool there = true;
            dir = quad_at(mirror(), dir * uint64_t(p.inode_size) + INODE_PARENT_OR_DEVICE, there);
            if (!there || dir == 0UL) {
                return failed(CODE_NOT_RESIDENT);
            }
            continue;
        }
        Entry entry = find(dir, name, length, half_md4(p.seed, p.text, name, length));
        if (entry.state == UNKNOWN) {
            return failed(CODE_NOT_RESIDENT);
        }
        if (entry.state == MISSING) {
            return failed(is_last ? CODE_NOT_FOUND : CODE_COMPONENT_NOT_FOUND);
        }
        if (entry.kind == KIND_SYMLINK && (p.follow != 0u || has_rest)) {
            return failed(CODE_NOT_RESIDENT);
        }
        dir = entry.ino;
        kind = entry.kind;
    }
    if (kind != KIND_DIRECTORY && text_byte(p.text, end - 1u) == 0x2fu) {
        return failed(CODE_NOT_DIRECTORY);
    }
    return Answer(CODE_SUCCESS, kind, dir);
}

void main() {
    uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (i >= p.count) {
        return;
    }
    Words starts = Words(p.starts);
    Answer answer = resolve(starts.word[i], starts.word[i + 1u]);
    if (answer.code == CODE_SUCCESS) {
        // An inode in use has a mode; this also tells an inode that is there.
        bool there = true;
        uint64_t inode = answer.ino * uint64_t(p.inode_size);
        uint mode = word_at(mirror(), inode, there) & 0xffffu;
        if (!there || mode == 0u || mode == 0xffffu) {
            answer = failed(CODE_NOT_RESIDENT);
        } else if (p.cores != 0UL) {
            Quads from = Quads(address_of(mirror(), inode));
            Cores to = Cores(p.cores + uint64_t(i) * uint64_t(INODE_SIZE));
            for (uint k = 0u; k < INODE_SIZE / 8u; k++) {
                to.quad[k] = from.quad[k];
            }
        }
    }
    uvec4 words = uvec4(answer.code, answer.kind, uint(answer.ino), uint(answer.ino >> 32));
    Answers(p.answers).answer[i] = words;
}
