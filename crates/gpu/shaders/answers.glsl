// Answers to lookups, with the inodes that were found.

layout(buffer_reference, std430, buffer_reference_align = 16) restrict buffer Answers {
    AnswersHeader header;
    LookupAnswer answer[];
};
layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly buffer Cores { uvec4 quad_word[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly buffer Inode { uvec4 quad_word[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer Paths { PathRange path[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict buffer Indexes { uint index[]; };

LookupAnswer failed(uint code) {
    return LookupAnswer(code, 0u, 0UL);
}

// Writes the answer to a path, with the inode that was found where it is wanted.
void put_answer(uint i, LookupAnswer answer) {
    if (answer.code == CODE_SUCCESS && p.cores != 0UL) {
        uint64_t inode = address_of(answer.ino * uint64_t(p.inode_size));
        // An inode in use has a mode, and an absent one has all bits.
        uint mode = inode == 0UL ? 0u : Words(inode).word[0] & 0xffffu;
        if (mode == 0u || mode == 0xffffu) {
            answer = failed(CODE_NOT_RESIDENT);
        } else {
            Cores to = Cores(p.cores + uint64_t(i) * uint64_t(INODE_SIZE));
            for (uint k = 0u; k < INODE_SIZE / 16u; k++) {
                to.quad_word[k] = Inode(inode).quad_word[k];
            }
        }
    }
    Answers(p.answers).answer[i] = answer;
}
