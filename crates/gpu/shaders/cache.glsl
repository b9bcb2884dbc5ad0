// The directory cache: buckets of two places each, three sectors of 32 bytes. The first sector has what is needed to pick a place, so
// a hit takes that one, the place's own, and the one with its block's version. Its twin is `twin/cache.rs`.
//
//   words 0, 1    tag of each place: low word of the directory's number, xor hash of the name
//   words 2, 3    number of the block that has the entry
//   words 4, 5    version of that block when the place was filled
//   words 6, 7    the dispatch that claimed the place last
//   words 8-15    first place: a quad (inode number 44 bits, directory's number from bit 32 on 12 bits, type 3, length of the name 5),
//                 24 bytes of name
//   words 16-23   second place

const uint CACHED_NAME = 24u;
const uint64_t CACHED_INO = 1UL << 44;
const uint64_t BUCKET_BYTES = 96UL;

layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly buffer Bucket {
    uvec4 head[2];
    uvec4 place[4];
};
layout(buffer_reference, std430, buffer_reference_align = 16) buffer FilledBucket { uint word[24]; };

uint64_t bucket_of(uint64_t dir, uint hash) {
    uint mixed = uint(dir) * 0x9e3779b1u ^ uint(dir >> 32) * 0x85ebca77u;
    mixed += hash * 0xc2b2ae3du;
    mixed = (mixed ^ mixed >> 15) * 0x2c1b3c6du;
    mixed ^= mixed >> 13;
    uint msb;
    uint lsb;
    umulExtended(mixed, p.buckets, msb, lsb);
    return p.cache + uint64_t(msb) * BUCKET_BYTES;
}

uint64_t packed_place(uint64_t dir, uint64_t ino, uint kind, uint length) {
    return ino | dir >> 32 << 44 | uint64_t(kind >> 1) << 56 | uint64_t(length) << 59;
}

bool is_current(uint block, uint version) {
    return block < p.version_count && Words(p.versions + uint64_t(block) * 4UL).word[0] == version;
}

Entry cached(uint64_t dir, Name name) {
    if (p.buckets == 0u || name.bytes > CACHED_NAME || dir >= CACHED_INO) {
        return NO_ENTRY;
    }
    Bucket bucket = Bucket(bucket_of(dir, name.hash));
    uvec4 head = bucket.head[0];
    uint tag = uint(dir) ^ name.hash;
    for (uint i = 0u; i < 2u; i++) {
        if ((i == 0u ? head.x : head.y) != tag) {
            continue;
        }
        uvec4 one = bucket.place[2u * i];
        uvec4 two = bucket.place[2u * i + 1u];
        uint64_t packed = uint64_t(one.x) | uint64_t(one.y) << 32;
        bool is_it = uint(packed >> 59) == name.bytes && (packed >> 44 & 0xfffUL) == dir >> 32
            && one.z == name.first[0] && one.w == name.first[1] && two.x == name.first[2] && two.y == name.first[3]
            && two.z == name.first[4] && two.w == name.first[5];
        uvec4 versions = bucket.head[1];
        if (is_it && is_current(i == 0u ? head.z : head.w, i == 0u ? versions.x : versions.y)) {
            uint kind = uint(packed >> 56) & 7u;
            return Entry(FOUND, kind == 0u ? KIND_FIFO : kind << 1, packed & (CACHED_INO - 1UL), 0UL);
        }
    }
    return NO_ENTRY;
}

// Puts an entry into the cache. A place is written by who claims it first in a dispatch, so none is torn; who comes later takes the other
// place, if nothing lives there. (The same entry may so get both, where two put it there at once.)
void insert(uint64_t dir, Name name, Entry entry) {
    if (p.buckets == 0u || name.bytes > CACHED_NAME || dir >= CACHED_INO || entry.ino >= CACHED_INO) {
        return;
    }
    FilledBucket bucket = FilledBucket(bucket_of(dir, name.hash));
    uint tag = uint(dir) ^ name.hash;
    uint choice = tag & 1u;
    bool is_late = false;
    for (uint n = 0u; n < 2u; n++) {
        uint i = choice ^ n;
        uint before = atomicAdd(bucket.word[6u + i], 0u, gl_ScopeQueueFamily, 0, 0);
        if (before == p.claim
            || atomicCompSwap(bucket.word[6u + i], before, p.claim, gl_ScopeQueueFamily, 0, 0, 0, 0) != before) {
            if (atomicAdd(bucket.word[i], 0u, gl_ScopeQueueFamily, 0, 0) == tag) {
                return;
            }
            is_late = true;
            continue;
        }
        // From here on the place is this invocation's alone.
        uint old = atomicAdd(bucket.word[i], 0u, gl_ScopeQueueFamily, 0, 0);
        bool is_free = bucket.word[9u + 8u * i] >> 27 == 0u || !is_current(bucket.word[2u + i], bucket.word[4u + i]);
        if (!is_free && old != tag && (n == 0u || is_late)) {
            continue;
        }
        atomicExchange(bucket.word[i], tag, gl_ScopeQueueFamily, 0, 0);
        uint block = block_number(entry.at);
        uint64_t packed = packed_place(dir, entry.ino, entry.kind, name.bytes);
        bucket.word[2u + i] = block;
        bucket.word[4u + i] = Words(p.versions + uint64_t(block) * 4UL).word[0];
        bucket.word[8u + 8u * i] = uint(packed);
        bucket.word[9u + 8u * i] = uint(packed >> 32);
        for (uint k = 0u; k < CACHED_NAME_WORDS; k++) {
            bucket.word[10u + 8u * i + k] = name.first[k];
        }
        return;
    }
}
