#version 460
// Finds names in directories, or the region where each would be: an invocation each. Its twin is
// `twin/seek.rs`.

#extension GL_GOOGLE_include_directive : require
#define SHARES_MEMORY
#include "prelude.glsl"
#include "change.glsl"

layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer Requests { SeekRequest request[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) restrict writeonly buffer Answers { SeekAnswer answer[]; };

SeekAnswer seek(SeekRequest request) {
    Name name = name_of(p.text, request.start, request.bytes);
    SeekAnswer answer = SeekAnswer(0UL, 0UL, 0UL, 0UL, name.hash, 0u, 0u, 1u);
    if (request.dir == 0UL) {
        return answer;
    }
    bool resident = true;
    uint64_t inode = request.dir * uint64_t(p.inode_size);
    uint64_t root = quad_at(inode + (p.inode_size == 128u ? DIR_ROOT_128 : DIR_ROOT_256), resident);
    if (!resident || (word_at(inode, resident) & MODE_TYPE) != MODE_DIRECTORY) {
        answer.is_certain = 0u;
        return answer;
    }
    if (root == 0UL) {
        return answer;
    }
    uint form = uint(root % BLOCK);
    uint64_t block = root - uint64_t(form);
    Entry entry = UNKNOWN_ENTRY;
    if (form == FORM_SMALL) {
        answer.home = root;
        answer.dummy = block + LEAF_SIZE;
        entry = find_small(inode, block, name);
    } else {
        uint64_t index = form == FORM_REGION ? block : form % 4u == FORM_TREE ? region_of(root, name.hash) : 0UL;
        answer.home = index + FORM_REGION;
        answer.dummy = dummy_of(index);
        require(!is_bad && quad_at(answer.dummy + ENTRY_INODE, resident) == index && resident);
        if (!is_bad) {
            entry = find_in_region(index, name);
        }
    }
    answer.count = name_word(answer.dummy) >> 16;
    require(is_dummy(answer.dummy) && answer.count <= REGION_MAX && entry.state != UNKNOWN);
    answer.at = entry.at;
    answer.ino = entry.ino;
    answer.kind = entry.kind;
    answer.is_certain = is_bad || fuel == 0u ? 0u : 1u;
    return answer;
}

void main() {
    uint i = invocation();
    if (i >= p.count) {
        return;
    }
    fuel = p.fuel;
    Answers(p.answers).answer[i] = seek(Requests(p.starts).request[i]);
}
