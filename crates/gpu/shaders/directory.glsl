// A name in a directory, by the directory's own structures.

Entry find_small(uint64_t inode, uint64_t leaf, Name name) {
    uint tags = p.inode_size == 128u ? SMALL_TAGS_128 : SMALL_TAGS_256;
    uint entries = p.inode_size == 128u ? SMALL_ENTRIES_128 : SMALL_ENTRIES_256;
    uint tag = (name.hash >> 24) * 0x01010101u;
    bool resident = true;
    for (uint i = 0u; i < entries && burn(); i += 4u) {
        uint equal = zero_bytes(word_at(inode + tags + i, resident) ^ tag);
        while (equal != 0u && burn()) {
            uint units = tags + entries + i + uint(findLSB(equal)) / 8u;
            equal &= equal - 1u;
            uint unit = word_at(inode + units / 4u * 4u, resident) >> (units % 4u * 8u) & 0xffu;
            if (unit != 0u) {
                Entry entry = probe(leaf + uint64_t(unit) * UNIT, name);
                if (entry.state != MISSING) {
                    return entry;
                }
            }
        }
    }
    return resident ? NO_ENTRY : UNKNOWN_ENTRY;
}

Entry find_in_region(uint64_t index, Name name) {
    uint tag = name.hash & 0xffffu;
    uint bucket = tag * BUCKETS >> 16;
    bool resident = index % BLOCK == 0UL;
    for (uint n = 0u; n < BUCKETS && resident && burn(); n++) {
        uint64_t slots = index + INDEX_SLOTS + uint64_t(bucket) * BUCKET_SLOTS * 8UL;
        uint64_t first = quad_at(slots, resident);
        // An absent block.
        if (first == 0xffffffffffffffffUL) {
            return UNKNOWN_ENTRY;
        }
        for (uint i = 0u; i < BUCKET_SLOTS && resident && burn(); i++) {
            uint64_t slot = i == 0u ? first : quad_at(slots + uint64_t(i) * 8UL, resident);
            uint64_t at = (slot >> SLOT_SHIFT) * UNIT;
            if ((uint(slot) & 0xffffu) == tag && at != 0UL) {
                Entry entry = probe(at, name);
                if (entry.state != MISSING) {
                    return entry;
                }
            }
        }
        if ((uint(first) & SLOT_OVERFLOW) == 0u) {
            // Where entries have no slot, those of the same hash fill as many buckets as these. The host
            // looks at the others.
            bool is_all = n + 1u < REGION_MAX / BUCKET_SLOTS;
            return resident && is_all ? NO_ENTRY : UNKNOWN_ENTRY;
        }
        bucket = (bucket + 1u) % BUCKETS;
    }
    return UNKNOWN_ENTRY;
}

// Returns the index block of a hash's region, by the root of a directory with a tree; 0 where that is not
// known.
uint64_t region_of(uint64_t root, uint hash) {
    // The root has level and count of its block, if the level is not 0.
    uint level = uint(root) >> ROOT_LEVEL_SHIFT & 3u;
    uint count = uint(root % BLOCK) >> ROOT_COUNT_SHIFT;
    uint64_t block = root - root % BLOCK;
    uint above = MAX_TREE_LEVEL + 1u;
    // Hashes of this block: from the lowest to the last.
    uint low = 0u;
    uint last = 0xffffffffu;
    for (uint n = 0u; n < MAX_TREE_LEVEL && burn(); n++) {
        bool resident = block % BLOCK == 0UL;
        if (n > 0u || level == 0u) {
            uint head = word_at(block, resident);
            resident = resident && (head & 0xffu) == BLOCK_TREE;
            level = head >> 8 & 0xffu;
            count = head >> 16;
        }
        if (!resident || level == 0u || level >= above || count == 0u || count > TREE_MAX) {
            return 0UL;
        }
        // Hashes are spread evenly, so the child is near its position among regions of even width.
        uint i = min((hash - low >> 8) * count / ((last - low >> 8) + 1u), count - 1u);
        uint64_t hashes = block + TREE_HASHES;
        while (i > 0u && word_at(hashes + i * 4u, resident) > hash && burn()) {
            i--;
        }
        while (i + 1u < count && word_at(hashes + (i + 1u) * 4u, resident) <= hash && burn()) {
            i++;
        }
        uint64_t child = quad_at(block + TREE_POSITIONS + uint64_t(i) * 8UL, resident);
        if (!resident) {
            return 0UL;
        }
        if (level == 1u) {
            return child;
        }
        low = i > 0u ? word_at(hashes + i * 4u, resident) : low;
        last = i + 1u < count ? word_at(hashes + (i + 1u) * 4u, resident) - 1u : last;
        above = level;
        block = child;
    }
    return 0UL;
}

// Finds a name in a directory. With `is_known` an entry has said that it is a directory, so the sector with
// its mode is not read.
Entry find(uint64_t dir, bool is_known, Name name) {
    bool resident = true;
    uint64_t inode = dir * uint64_t(p.inode_size);
    uint64_t root = quad_at(inode + (p.inode_size == 128u ? DIR_ROOT_128 : DIR_ROOT_256), resident);
    if (!resident || !is_known && (word_at(inode, resident) & MODE_TYPE) != MODE_DIRECTORY) {
        return UNKNOWN_ENTRY;
    }
    uint form = uint(root % BLOCK);
    uint64_t block = root - uint64_t(form);
    if (root == 0UL) {
        return NO_ENTRY;
    }
    if (form == FORM_SMALL) {
        return find_small(inode, block, name);
    }
    uint64_t index = form == FORM_REGION ? block : form % 4u == FORM_TREE ? region_of(root, name.hash) : 0UL;
    return index == 0UL ? UNKNOWN_ENTRY : find_in_region(index, name);
}
