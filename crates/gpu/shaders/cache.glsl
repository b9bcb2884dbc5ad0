// The directory cache: buckets of two slots each, three sectors of 32 bytes. The first sector has all that
// is needed to choose a slot, so a hit takes that sector, the slot's own, and the one with the version of
// its block. A name has CACHE_HOMES buckets, its homes: a further one takes it where the slots of those
// before have living entries. The second claim of a bucket has the overflow bit from then on.
// `layout.rs` describes the words; the twin is `twin/cache.rs`.

layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly buffer Bucket {
    uvec4 quad_word[CACHE_BUCKET_WORDS / 4u];
};
layout(buffer_reference, std430, buffer_reference_align = 16) buffer FilledBucket { uint word[CACHE_BUCKET_WORDS]; };

// Selects a word of four that were read at once.
#define WORD_OF(four, word) ((four)[(word) % 4u])

// Hashes a name, which has a hash, and its directory.
uint hash_in_dir(uint64_t dir, uint hash) {
    return end_hash(mix_word(mix_word(hash, uint(dir)), uint(dir >> 32)), 0u);
}

// Returns the address of a home of a name. The hash with the directory leads to the first; turned by
// HOME_BITS it leads to the next.
uint64_t bucket_of(uint turned) {
    return p.cache + uint64_t(bucket_number(turned, p.buckets)) * uint64_t(CACHE_BUCKET_WORDS * 4u);
}

uint64_t packed_slot(uint64_t dir, uint64_t ino, uint kind, uint length) {
    return ino | dir >> 32 << CACHE_DIR_SHIFT | uint64_t(kind >> 1) << CACHE_KIND_SHIFT
        | uint64_t(length) << CACHE_LENGTH_SHIFT;
}

bool is_current(uint block, uint version) {
    return block < p.version_count && Words(p.versions + uint64_t(block) * 4UL).word[0] == version;
}

Entry cached(uint64_t dir, ShortName name) {
    if (p.buckets == 0u || name.bytes > CACHED_NAME_BYTES || dir >= CACHED_INO) {
        return NO_ENTRY;
    }
    uint hash = hash_of_name(name);
    // The name is compared whole, so with the same tag it is in the same directory.
    uint tag = uint(dir) ^ hash;
    uint turned = hash_in_dir(dir, hash);
    for (uint home = 0u; home < CACHE_HOMES; home++) {
        Bucket bucket = Bucket(bucket_of(turned));
        uvec4 head = bucket.quad_word[CACHE_TAGS / 4u];
        uvec4 rest = bucket.quad_word[CACHE_VERSIONS / 4u];
        bool is_first = WORD_OF(head, CACHE_TAGS) == tag;
        bool is_second = WORD_OF(head, CACHE_TAGS + 1u) == tag;
        if (is_first || is_second) {
            // Of two slots with the tag, the one that `insert` tries first.
            uint i = is_first ? 0u : 1u;
            uvec4 one = bucket.quad_word[(CACHE_SLOTS + i * CACHE_SLOT_WORDS) / 4u];
            uvec4 two = bucket.quad_word[(CACHE_SLOTS + i * CACHE_SLOT_WORDS) / 4u + 1u];
            // The upper half of the packed quad.
            uint differs = one.y >> (CACHE_LENGTH_SHIFT - 32u) ^ name.bytes;
            differs |= (one.y >> (CACHE_DIR_SHIFT - 32u) & 0xfffu) ^ uint(dir >> 32);
            differs |= one.z ^ name.word[0];
            differs |= one.w ^ name.word[1];
            differs |= two.x ^ name.word[2];
            differs |= two.y ^ name.word[3];
            differs |= two.z ^ name.word[4];
            differs |= two.w ^ name.word[5];
            uint block = is_first ? WORD_OF(head, CACHE_BLOCKS) : WORD_OF(head, CACHE_BLOCKS + 1u);
            uint version = is_first ? WORD_OF(rest, CACHE_VERSIONS) : WORD_OF(rest, CACHE_VERSIONS + 1u);
            if (differs == 0u && is_current(block, version)) {
                uint kind = one.y >> (CACHE_KIND_SHIFT - 32u) & 7u;
                uint64_t ino = uint64_t(one.x) | uint64_t(one.y & (1u << (CACHE_DIR_SHIFT - 32u)) - 1u) << 32;
                return Entry(FOUND, kind == 0u ? KIND_FIFO : kind << 1, ino, 0UL);
            }
        }
        // No name went from here to a further home.
        if ((WORD_OF(rest, CACHE_CLAIMS + 1u) & CACHE_OVERFLOW) == 0u) {
            break;
        }
        spend(1u);
        turned = rotate_left(turned, HOME_BITS);
    }
    return NO_ENTRY;
}

// Puts an entry into the cache: into the first slot of its homes that no living entry has, or else into the
// last one. The first invocation that claims a slot in a dispatch writes it, so no slot is torn; a later one
// goes on to the next slot, and never takes that of a living entry. A claim has the number of the dispatch,
// and bits of the tag, so that others with the same entry leave it at that. The overflow bit outlives claims.
void insert(uint64_t dir, ShortName name, Entry entry) {
    if (p.buckets == 0u || name.bytes > CACHED_NAME_BYTES || dir >= CACHED_INO || entry.ino >= CACHED_INO) {
        return;
    }
    uint hash = hash_of_name(name);
    uint tag = uint(dir) ^ hash;
    uint claim = p.claim << 20 | tag & (CACHE_OVERFLOW - 1u);
    bool is_late = false;
    uint turned = hash_in_dir(dir, hash);
    for (uint n = 0u; n < 2u * CACHE_HOMES; n++) {
        uint i = n % 2u;
        FilledBucket bucket = FilledBucket(bucket_of(turned));
        uint before = atomicAdd(bucket.word[CACHE_CLAIMS + i], 0u, gl_ScopeQueueFamily, 0, 0);
        bool is_mine = false;
        if ((before ^ claim) >> 20 != 0u) {
            uint mine = claim | before & CACHE_OVERFLOW;
            uint found = atomicCompSwap(bucket.word[CACHE_CLAIMS + i], before, mine, gl_ScopeQueueFamily, 0, 0, 0, 0);
            is_mine = found == before;
            before = found;
        }
        if (!is_mine && (before & ~CACHE_OVERFLOW) == claim) {
            return;
        }
        uint slot = CACHE_SLOTS + i * CACHE_SLOT_WORDS;
        bool is_taken = !is_mine;
        is_late = is_late || is_taken;
        if (is_mine) {
            // From here on the slot belongs to this invocation.
            bool is_living = bucket.word[slot + 1u] >> (CACHE_LENGTH_SHIFT - 32u) != 0u
                && is_current(bucket.word[CACHE_BLOCKS + i], bucket.word[CACHE_VERSIONS + i]);
            bool is_last = n + 1u == 2u * CACHE_HOMES && !is_late;
            is_taken = is_living && bucket.word[CACHE_TAGS + i] != tag && !is_last;
        }
        if (is_taken) {
            if (i == 1u) {
                atomicOr(bucket.word[CACHE_CLAIMS + 1u], CACHE_OVERFLOW, gl_ScopeQueueFamily, 0, 0);
                turned = rotate_left(turned, HOME_BITS);
            }
            continue;
        }
        bucket.word[CACHE_TAGS + i] = tag;
        uint block = block_number(entry.at);
        uint64_t packed = packed_slot(dir, entry.ino, entry.kind, name.bytes);
        bucket.word[CACHE_BLOCKS + i] = block;
        bucket.word[CACHE_VERSIONS + i] = Words(p.versions + uint64_t(block) * 4UL).word[0];
        bucket.word[slot] = uint(packed);
        bucket.word[slot + 1u] = uint(packed >> 32);
        for (uint k = 0u; k < CACHED_NAME_WORDS; k++) {
            bucket.word[slot + 2u + k] = name.word[k];
        }
        return;
    }
}
