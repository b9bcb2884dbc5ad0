// Entries of directories.

const uint MISSING = 0u, FOUND = 1u, UNKNOWN = 2u;

struct Entry {
    uint state;
    uint kind;
    uint64_t ino;
    // Its position; 0 where it was in the cache.
    uint64_t at;
};

const Entry NO_ENTRY = Entry(MISSING, 0u, 0UL, 0UL);
const Entry UNKNOWN_ENTRY = Entry(UNKNOWN, 0u, 0UL, 0UL);

bool is_kind(uint kind) {
    return kind == KIND_FIFO || kind == KIND_CHAR_DEVICE || kind == KIND_DIRECTORY || kind == KIND_BLOCK_DEVICE
        || kind == KIND_FILE || kind == KIND_SYMLINK || kind == KIND_SOCKET;
}

// Compares the entry at a position with a name.
Entry probe(uint64_t at, Name name) {
    if (at % UNIT != 0UL || at % BLOCK < LEAF_SIZE || at % BLOCK + ENTRY_SIZE + name.bytes > BLOCK) {
        return UNKNOWN_ENTRY;
    }
    // In one block, so in one chunk.
    uint64_t address = address_of(at);
    if (address == 0UL) {
        return UNKNOWN_ENTRY;
    }
    uint64_t word = Quads(address + ENTRY_HASH).quad[0];
    uint rest = uint(word >> 32);
    uint length = rest & 0xffu;
    // A dummy, or an absent block.
    if (length == 0u || rest >> 16 != 0u) {
        return UNKNOWN_ENTRY;
    }
    if (uint(word) != name.hash || length != name.bytes) {
        return NO_ENTRY;
    }
    uint end = name.at + length;
    for (uint i = 0u; i < length && burn(); i += 4u) {
        uint left = length - i;
        uint mask = left >= 4u ? 0xffffffffu : (1u << (8u * left)) - 1u;
        if (((Words(address + ENTRY_SIZE).word[i / 4u] & mask) ^ text_word(name.text, name.at + i, end)) != 0u) {
            return NO_ENTRY;
        }
    }
    uint kind = rest >> 8 & 0xffu;
    return is_kind(kind) ? Entry(FOUND, kind, Quads(address + ENTRY_INODE).quad[0], at) : UNKNOWN_ENTRY;
}
