#version 460
// Writes the answers to lookups as the host wants them: code, type and inode number in a word, and after
// these words one attribute after the other. An invocation for each path, so neighbours write neighbours.
// Its twin is `twin/columns.rs`.

#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "answers.glsl"

layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly buffer Header { HostHeader header; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer WordColumn { uint value[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) restrict writeonly buffer QuadColumn { uint64_t value[]; };

uint64_t size_of_inode(uint64_t inode, uint kind) {
    bool is_directory = kind == KIND_DIRECTORY;
    uint64_t size = Quads(inode + (is_directory ? INODE_BLOCKS : INODE_BYTES)).quad[0];
    if (is_directory) {
        size = size >= 1UL << 52 ? 0xffffffffffffffffUL : size * BLOCK;
    }
    return size;
}

uint64_t device_of_inode(uint64_t inode, uint kind) {
    bool is_device = kind == KIND_CHAR_DEVICE || kind == KIND_BLOCK_DEVICE;
    return is_device ? Quads(inode + INODE_PARENT_OR_DEVICE).quad[0] : 0UL;
}

// The next column, where it is wanted.
#define WORD(which, there) \
    if ((p.wanted >> which & 1u) != 0u) { \
        WordColumn(column).value[i] = inode == 0UL ? 0u : (there); \
        column += uint64_t(p.stride) * 4UL; \
    }
#define QUAD(which, there) \
    if ((p.wanted >> which & 1u) != 0u) { \
        QuadColumn(column).value[i] = inode == 0UL ? 0UL : (there); \
        column += uint64_t(p.stride) * 8UL; \
    }

void main() {
    uint i = invocation();
    if (i == 0u) {
        Header(p.for_host).header.unfinished = Answers(p.answers).header.unfinished;
    }
    if (i >= p.count) {
        return;
    }
    LookupAnswer answer = Answers(p.answers).answer[i];
    if ((answer.code & 0xffu) == CODE_UNFINISHED || answer.ino >> (64u - ANSWER_INO_SHIFT) != 0UL) {
        answer = failed(CODE_NOT_RESIDENT);
    }
    uint64_t inode = 0UL;
    uint mode = 0u;
    if (answer.code == CODE_SUCCESS && p.wanted != 0u) {
        inode = address_of(answer.ino * uint64_t(p.inode_size));
        mode = inode == 0UL ? 0u : Words(inode).word[0] & 0xffffu;
        // An inode in use has a type, and an absent one has all bits.
        if (!is_kind(mode >> 12)) {
            answer = failed(CODE_NOT_RESIDENT);
            inode = 0UL;
        }
    }
    uint64_t entry = uint64_t(answer.code | answer.kind << ANSWER_KIND_SHIFT) | answer.ino << ANSWER_INO_SHIFT;
    uint64_t column = p.for_host + HOST_HEADER_BYTES;
    QuadColumn(column).value[i] = entry;
    column += uint64_t(p.stride) * 8UL;
    WORD(COLUMN_MODE, mode)
    WORD(COLUMN_LINKS, Words(inode + INODE_LINKS).word[0])
    WORD(COLUMN_UID, Words(inode + INODE_UID).word[0])
    WORD(COLUMN_GID, Words(inode + INODE_GID).word[0])
    QUAD(COLUMN_SIZE, size_of_inode(inode, mode >> 12))
    QUAD(COLUMN_BLOCKS, Quads(inode + INODE_BLOCKS).quad[0])
    QUAD(COLUMN_RDEV, device_of_inode(inode, mode >> 12))
    QUAD(COLUMN_MTIME, Quads(inode + INODE_MTIME).quad[0])
    QUAD(COLUMN_CTIME, Quads(inode + INODE_CTIME).quad[0])
    QUAD(COLUMN_ATIME, Quads(inode + INODE_ATIME).quad[0])
    QUAD(COLUMN_BTIME, Quads(inode + INODE_BTIME).quad[0])
    WORD(COLUMN_GENERATION, Words(inode + INODE_GENERATION).word[0])
}
