// A cheap hash of words, for tables that only kernels have: MurmurHash3 for 32 bits (Austin Appleby, public
// domain). The twin is `twin/hash.rs`.

uint rotate_left(uint word, uint bits) {
    return word << bits | word >> (32u - bits);
}

uint mix_word(uint hash, uint word) {
    word = rotate_left(word * 0xcc9e2d51u, 15u) * 0x1b873593u;
    return rotate_left(hash ^ word, 13u) * 5u + 0xe6546b64u;
}

uint end_hash(uint hash, uint bytes) {
    hash ^= bytes;
    hash = (hash ^ hash >> 16) * 0x85ebca6bu;
    hash = (hash ^ hash >> 13) * 0xc2b2ae35u;
    return hash ^ hash >> 16;
}

// Returns the bucket of a hash.
uint bucket_number(uint hash, uint buckets) {
    uint msb;
    uint lsb;
    umulExtended(hash, buckets, msb, lsb);
    return msb;
}
