#version 460
// Resolves paths whose directory the directory-path table knows and whose last name the directory cache has:
// an invocation each. All others go to `walk`, from the component on that is open. A batch of names comes
// with the directory of each, so that a name needs no table. Its twin is `twin/lookup.rs`, function by
// function.

#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "lists.glsl"
#include "answers.glsl"
#include "dir_table.glsl"

// Returns the offset of the last name of a path; its end, where it has no name or one that is too long.
uint last_name(uint64_t text, uint first, uint end) {
    uint begin = end;
    uint at = (end - 1u) & ~3u;
    // Bytes of the last word that are after the path.
    uint outside = end % 4u == 0u ? 0u : 0xffffffffu << (8u * (end % 4u));
    for (uint n = 0u; n < MAX_NAME / 4u + 2u; n++) {
        outside |= at == 0u ? (1u << (8u * first)) - 1u : 0u;
        uint slashes = zero_bytes(Words(text).word[at / 4u] ^ 0x2f2f2f2fu) & ~outside;
        if (slashes != 0u || at == 0u) {
            begin = slashes != 0u ? at + uint(findMSB(slashes)) / 8u + 1u : first;
            break;
        }
        at -= 4u;
        outside = 0u;
    }
    return end - begin > MAX_NAME ? end : begin;
}

ShortName name_in_batch(uint64_t text, uint at, uint bytes) {
    ShortName name;
    name.bytes = bytes;
    WordStream words = words_from(text, at);
    for (uint k = 0u; k < CACHED_NAME_WORDS; k++) {
        name.word[k] = clipped(next_word(words), bytes - min(bytes, 4u * k));
    }
    return name;
}

// Returns the directory in which the text with a number starts: of a name the one that lies beside it.
uint64_t start_of(uint i, uint64_t text, uint first) {
    if (p.dirs != 0UL) {
        uint number = p.dir_of == 0UL ? 0u : Words(p.dir_of + uint64_t(i) * 4UL).word[0];
        return Quads(p.dirs + uint64_t(number) * 8UL).quad[0];
    }
    return text_byte(text, first) == 0x2fu ? p.root : p.base;
}

// Returns the answer, or the state in which `walk` begins.
LookupAnswer shortcut(uint i, uint start, uint length) {
    uint first = start & 3u;
    if (length == 0u || length > MAX_PATH_BYTES) {
        return LookupAnswer(CODE_UNFINISHED, first, 0UL);
    }
    uint64_t text = p.text + uint64_t(start - first);
    uint end = first + length;
    uint64_t from = start_of(i, text, first);
    LookupAnswer whole = LookupAnswer(CODE_UNFINISHED | STATE_IS_KNOWN | STATE_IS_PLAIN, first, from);
    if (p.is_checked != 0u) {
        return whole;
    }
    uint begin = last_name(text, first, end);
    uint bytes = end - begin;
    ShortName name = name_in_batch(text, begin, min(bytes, CACHED_NAME_BYTES));
    bool is_odd = bytes == 0u || bytes == 1u && name.word[0] == 0x2eu || bytes == 2u && name.word[0] == 0x2e2eu;
    if (p.dirs != 0UL && (is_odd || begin != first)) {
        // This is not a name, so the host decides by the whole path.
        return failed(CODE_NOT_RESIDENT);
    }
    if (is_odd) {
        return whole;
    }
    uint64_t dir = from;
    if (begin > first + 1u) {
        dir = known_directory(from, text, first, begin - 1u - first);
        if (dir == 0UL) {
            return whole;
        }
    }
    name.bytes = bytes;
    Entry entry = cached(dir, name);
    if (entry.state != FOUND || entry.kind == KIND_SYMLINK && p.follow != 0u) {
        return LookupAnswer(CODE_UNFINISHED | STATE_IS_KNOWN, begin, dir);
    }
    return LookupAnswer(CODE_SUCCESS, entry.kind, entry.ino);
}

void main() {
    uint i = invocation();
    if (i == 0u) {
        for (uint list = 0u; list < 3u; list++) {
            Lists(p.lists).header[list].groups_y = 1u;
            Lists(p.lists).header[list].groups_z = 1u;
        }
    }
    if (i >= p.count) {
        return;
    }
    LookupAnswer answer;
    if (p.resume != 0u) {
        answer = Answers(p.answers).answer[i];
    } else {
        PathRange path = Paths(p.starts).path[i];
        answer = shortcut(i, path.start, path.bytes);
        Answers(p.answers).answer[i] = answer;
    }
    if ((answer.code & 0xffu) == CODE_UNFINISHED) {
        Indexes(p.walks).index[reserve(WALKS, p.count)] = i;
    }
}
