// The directory-path table: from the path of a directory to its inode number, in one probe. Nothing in it is
// believed for a hash: a slot leads to a record with the whole path. A path has DIR_HOMES buckets, its homes:
// a further one takes it where both slots of those before are taken. `layout.rs` describes the words; the
// twin is `twin/dir_table.rs`.

layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly buffer DirBucket { uvec4 slot[2]; };
layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly buffer DirRecord { uvec4 quad_word[]; };

// Words of a text from any byte on. There must be some bytes after the text.
struct WordStream {
    uint64_t next;
    uint low;
    uint shift;
};

WordStream words_from(uint64_t text, uint at) {
    uint64_t first = text + uint64_t(at & ~3u);
    return WordStream(first + 4UL, Words(first).word[0], at % 4u * 8u);
}

uint next_word(inout WordStream words) {
    uint high = Words(words.next).word[0];
    uint word = words.low >> words.shift | high << 1u << (31u - words.shift);
    words.low = high;
    words.next += 4UL;
    return word;
}

// Clears the bytes of a word from `left` on.
uint clipped(uint word, uint left) {
    return left >= 4u ? word : word & ((1u << (8u * left)) - 1u);
}

// Hashes the path of a directory, in a text from `at` on, and the directory in which it starts.
uint hash_of_dir(uint64_t start, uint64_t text, uint at, uint bytes) {
    uint hash = mix_word(mix_word(p.seed.x, uint(start)), uint(start >> 32));
    WordStream words = words_from(text, at);
    for (uint i = 0u; i < bytes; i += 4u) {
        hash = mix_word(hash, clipped(next_word(words), bytes - i));
    }
    return end_hash(hash, bytes);
}

// Compares a record with a path; returns the inode number of the directory, or 0.
uint64_t compare_record(uint64_t record, uint64_t start, uint64_t text, uint at, uint bytes) {
    uvec4 head = DirRecord(record).quad_word[0];
    uint different = (head.z ^ uint(start)) | (head.w ^ uint(start >> 32));
    WordStream words = words_from(text, at);
    for (uint i = 0u; i < bytes && different == 0u; i += 16u) {
        uvec4 four = DirRecord(record).quad_word[DIR_HEADER_WORDS / 4u + i / 16u];
        different |= four.x ^ clipped(next_word(words), bytes - i);
        different |= four.y ^ clipped(next_word(words), bytes - min(bytes, i + 4u));
        different |= four.z ^ clipped(next_word(words), bytes - min(bytes, i + 8u));
        different |= four.w ^ clipped(next_word(words), bytes - min(bytes, i + 12u));
    }
    return different == 0u ? uint64_t(head.x) | uint64_t(head.y) << 32 : 0UL;
}

// Returns the address of a home of a directory. The hash leads to the first; turned by HOME_BITS it leads to
// the next.
uint64_t dir_bucket_of(uint turned) {
    return p.dir_table + uint64_t(bucket_number(turned, p.dir_buckets) * DIR_BUCKET_WORDS * 4u);
}

// Returns the inode number of a directory, by its path; 0 where the table does not have it.
uint64_t known_directory(uint64_t start, uint64_t text, uint at, uint bytes) {
    if (p.dir_buckets == 0u || bytes > DIR_PATH_MAX) {
        return 0UL;
    }
    uint hash = hash_of_dir(start, text, at, bytes);
    uint where = 0u;
    uint turned = hash;
    for (uint home = 0u; home < DIR_HOMES && where == 0u; home++) {
        DirBucket bucket = DirBucket(dir_bucket_of(turned));
        uvec4 first = bucket.slot[0];
        uvec4 second = bucket.slot[1];
        bool is_first = first[DIR_EPOCH] == p.epoch;
        bool is_second = second[DIR_EPOCH] == p.epoch;
        where = is_first && first[DIR_HASH] == hash ? first[DIR_WHERE]
            : is_second && second[DIR_HASH] == hash ? second[DIR_WHERE] : 0u;
        // No path went from a home with a slot of another epoch to a further one.
        if (!is_first || !is_second) {
            break;
        }
        turned = rotate_left(turned, HOME_BITS);
    }
    // A slot has the length of its path, which is not 0.
    if ((where & (1u << DIR_LENGTH_BITS) - 1u) != bytes) {
        return 0UL;
    }
    uint64_t record = p.dir_records + uint64_t((where >> DIR_LENGTH_BITS) * DIR_UNIT_WORDS * 4u);
    return compare_record(record, start, text, at, bytes);
}
