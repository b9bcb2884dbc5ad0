#version 460
// Puts the paths of directories that lookups have walked into the directory-path table: an invocation for
// each learn request. Its twin is `twin/learn.rs`.

#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "lists.glsl"
#include "answers.glsl"
#include "dir_table.glsl"

layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer Learns { LearnRequest request[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer FilledDirBucket { uint word[DIR_BUCKET_WORDS]; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer FilledRecord { uint word[]; };

// Writes a record; returns its unit, or 0 where there is no room. The unit before the records counts those in
// use.
uint put_record(uint64_t start, uint64_t dir, uint64_t text, uint at, uint bytes) {
    uint words = (DIR_HEADER_WORDS + (bytes + 3u) / 4u + DIR_UNIT_WORDS - 1u) / DIR_UNIT_WORDS * DIR_UNIT_WORDS;
    uint units = words / DIR_UNIT_WORDS;
    // Where there is no room, the count stays as it is, or it would overflow in time.
    if (atomicAdd(FilledRecord(p.dir_records).word[0], 0u, gl_ScopeQueueFamily, 0, 0) >= p.dir_units) {
        return 0u;
    }
    uint before = atomicAdd(FilledRecord(p.dir_records).word[0], units, gl_ScopeQueueFamily, 0, 0);
    if (before + units >= p.dir_units) {
        return 0u;
    }
    uint unit = 1u + before;
    FilledRecord record = FilledRecord(p.dir_records + uint64_t(unit) * uint64_t(DIR_UNIT_WORDS * 4u));
    record.word[0] = uint(dir);
    record.word[1] = uint(dir >> 32);
    record.word[2] = uint(start);
    record.word[3] = uint(start >> 32);
    WordStream stream = words_from(text, at);
    for (uint i = 0u; i < words - DIR_HEADER_WORDS; i++) {
        record.word[DIR_HEADER_WORDS + i] = 4u * i < bytes ? clipped(next_word(stream), bytes - 4u * i) : 0u;
    }
    return unit;
}

// Fills a slot.
void put(FilledDirBucket bucket, uint slot, uint hash, uint64_t start, LearnRequest request, uint64_t text, uint at) {
    uint unit = put_record(start, request.dir, text, at, request.bytes);
    if (unit != 0u) {
        bucket.word[slot + DIR_HASH] = hash;
        bucket.word[slot + DIR_EPOCH] = p.epoch;
        bucket.word[slot + DIR_WHERE] = unit << DIR_LENGTH_BITS | request.bytes;
    }
}

// The first invocation that claims a slot in a dispatch may write it; a slot of this epoch stays, and others
// go on to the next slot of their homes. A claim has the number of the dispatch, and 20 bits of the hash, so
// that others with the same path leave it at that.
void main() {
    uint i = invocation();
    if (i >= list_length(LEARNS, p.count)) {
        return;
    }
    LearnRequest request = Learns(p.learns).request[i];
    PathRange path = Paths(p.starts).path[request.path];
    uint at = path.start & 3u;
    uint64_t text = p.text + uint64_t(path.start - at);
    uint64_t start = text_byte(text, at) == 0x2fu ? p.root : p.base;
    uint hash = hash_of_dir(start, text, at, request.bytes);
    uint claim = p.claim << 20 | hash & 0xfffffu;
    uint turned = hash;
    for (uint n = 0u; n < 2u * DIR_HOMES; n++) {
        turned = n != 0u && n % 2u == 0u ? rotate_left(turned, HOME_BITS) : turned;
        FilledDirBucket bucket = FilledDirBucket(dir_bucket_of(turned));
        uint slot = n % 2u * DIR_SLOT_WORDS;
        uint before = atomicAdd(bucket.word[slot + DIR_CLAIM], 0u, gl_ScopeQueueFamily, 0, 0);
        if ((before ^ claim) >> 20 != 0u) {
            uint found = atomicCompSwap(bucket.word[slot + DIR_CLAIM], before, claim, gl_ScopeQueueFamily, 0, 0, 0, 0);
            if (found == before) {
                // From here on the slot belongs to this invocation.
                if (bucket.word[slot + DIR_EPOCH] != p.epoch) {
                    put(bucket, slot, hash, start, request, text, at);
                    return;
                }
                if (bucket.word[slot + DIR_HASH] == hash) {
                    return;
                }
                continue;
            }
            before = found;
        }
        if (before == claim) {
            return;
        }
    }
}
