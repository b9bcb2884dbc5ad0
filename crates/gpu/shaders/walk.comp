#version 460
// Resolves the paths that `lookup` leaves open, component by component: an invocation each. Its twin is
// `twin/walk.rs`, function by function.
//
// The answer is NOT_RESIDENT, and the host decides, where the kernel cannot decide for certain: a block is
// absent, the target of a link is not in its inode, a structure contradicts itself. Every walk has a bound,
// and every position passes the table of chunks, so no input leads to an endless loop or outside the
// buffers.

#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "lists.glsl"
#include "answers.glsl"

layout(buffer_reference, std430, buffer_reference_align = 8) buffer Fills { FillRequest request[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Learns { LearnRequest request[]; };

// Remaining text of the path, or of a link's target.
struct Rest {
    uint64_t text;
    uint at;
    uint end;
};

// Requests that `fill` puts an entry that was found in the tree into the cache, as far as there is room.
void request_fill(uint64_t dir, Entry entry, uint length) {
    if (p.room == 0u || entry.at == 0UL || length > CACHED_NAME_BYTES) {
        return;
    }
    uint i = reserve(FILLS, p.room);
    if (i < p.room) {
        Fills(p.fills).request[i] = FillRequest(dir, entry.at);
    }
}

// Requests that `learn` puts the path of a directory into the table: so many bytes of the path.
void request_learn(uint64_t dir, uint path, uint bytes) {
    if (p.dir_buckets == 0u || bytes > DIR_PATH_MAX) {
        return;
    }
    uint i = reserve(LEARNS, p.count);
    if (i < p.count) {
        Learns(p.learns).request[i] = LearnRequest(dir, path, bytes);
    }
}

// Checks that the caller may search a directory: SUCCESS, or why not.
uint search_permission(uint64_t dir) {
    if (p.is_checked == 0u) {
        return CODE_SUCCESS;
    }
    uint64_t inode = address_of(dir * uint64_t(p.inode_size));
    uint head = inode == 0UL ? 0u : Words(inode).word[0];
    uint mode = head & 0xffffu;
    // The host reads access control lists, which lie in attributes.
    bool has_list = (head >> 16 & INODE_ACCESS_ACL) != 0u;
    if ((mode & MODE_TYPE) != MODE_DIRECTORY || has_list) {
        return CODE_NOT_RESIDENT;
    }
    uint uid = Words(inode).word[INODE_UID / 4u];
    uint gid = Words(inode).word[INODE_GID / 4u];
    bool is_in_group = gid == p.gid;
    for (uint i = 0u; i < p.group_count && burn(); i++) {
        is_in_group = is_in_group || p.groups[i] == gid;
    }
    uint granted = uid == p.uid ? mode >> 6 : is_in_group ? mode >> 3 : mode;
    return (granted & 1u) != 0u ? CODE_SUCCESS : CODE_ACCESS_DENIED;
}

// Returns the target of a link, where it lies in the inode; else no text.
Rest target_of(uint64_t ino) {
    const Rest none = Rest(0UL, 0u, 0u);
    uint64_t inode = address_of(ino * uint64_t(p.inode_size));
    if (inode == 0UL) {
        return none;
    }
    uint head = Words(inode).word[0];
    uint64_t size = Quads(inode + INODE_BYTES).quad[0];
    bool is_inline = (head & MODE_TYPE) == MODE_SYMLINK && (head >> 16 & INODE_INLINE) != 0u;
    if (!is_inline || size == 0UL || size > uint64_t(p.inode_size - INODE_SIZE)) {
        return none;
    }
    return Rest(inode + INODE_SIZE, 0u, uint(size));
}

// Resolves the path with a number, from the state on that `lookup` or the last dispatch has left.
LookupAnswer resolve(uint path, uint start, uint length, LookupAnswer state) {
    if (length == 0u) {
        return failed(CODE_NOT_FOUND);
    }
    if (length > MAX_PATH_BYTES) {
        return failed(CODE_NOT_RESIDENT);
    }
    // Text is read by words.
    uint first = start & 3u;
    Rest rest = Rest(p.text + uint64_t(start - first), first, first + length);
    Rest outer[MAX_DEPTH];
    uint depth = 0u;
    uint followed = state.code >> STATE_FOLLOWED_SHIFT & 0xffu;
    uint64_t dir = state.ino;
    uint kind = KIND_DIRECTORY;
    // The host, or an entry, has said that `dir` is a directory.
    bool is_known = (state.code & STATE_IS_KNOWN) != 0u;
    // So far there were directories only: no link, no dots.
    bool is_plain = (state.code & STATE_IS_PLAIN) != 0u;
    // The outermost text is the path itself, and not a target.
    bool is_path = true;
    // Slashes follow the remaining text.
    bool has_slash = (state.code & STATE_HAS_SLASH) != 0u;
    rest.at = skip(rest.text, state.kind, rest.end);
    while (true) {
        if (rest.at >= rest.end && depth > 0u) {
            depth--;
            rest = outer[depth];
        }
        if (rest.at >= rest.end) {
            break;
        }
        if (kind != KIND_DIRECTORY) {
            return failed(CODE_NOT_DIRECTORY);
        }
        if (fuel < COMPONENT_FUEL && depth == 0u && is_path) {
            uint flags = (has_slash ? STATE_HAS_SLASH : 0u) | (is_known ? STATE_IS_KNOWN : 0u)
                | (is_plain ? STATE_IS_PLAIN : 0u);
            return LookupAnswer(CODE_UNFINISHED | followed << STATE_FOLLOWED_SHIFT | flags, rest.at, dir);
        }
        if (!burn()) {
            return failed(CODE_NOT_RESIDENT);
        }
        uint begin = rest.at;
        uint end = component_end(rest.text, begin, rest.end);
        if (end - begin > MAX_NAME || end < rest.end && text_byte(rest.text, end) == 0u) {
            return failed(CODE_NOT_RESIDENT);
        }
        rest.at = skip(rest.text, end, rest.end);
        bool has_components = rest.at < rest.end || depth > 0u;
        bool must_be_dir = end < rest.end || depth > 0u || has_slash;
        uint code = search_permission(dir);
        if (code != CODE_SUCCESS) {
            return failed(fuel == 0u ? CODE_NOT_RESIDENT : code);
        }
        uint dots = text_word(rest.text, begin, end);
        if (end - begin == 1u && dots == 0x2eu) {
            is_plain = false;
            continue;
        }
        if (end - begin == 2u && dots == 0x2e2eu) {
            is_plain = false;
            bool resident = true;
            dir = quad_at(dir * uint64_t(p.inode_size) + INODE_PARENT_OR_DEVICE, resident);
            if (!resident || dir == 0UL) {
                return failed(CODE_NOT_RESIDENT);
            }
            is_known = false;
            continue;
        }
        if (is_plain && end == rest.end && begin > first + 1u) {
            request_learn(dir, path, begin - 1u - first);
        }
        Entry entry = NO_ENTRY;
        if (end - begin <= CACHED_NAME_BYTES) {
            entry = cached(dir, short_name(rest.text, begin, end - begin));
        }
        if (entry.state != FOUND) {
            entry = find(dir, is_known, name_of(rest.text, begin, end - begin));
        }
        if (fuel == 0u || entry.state == UNKNOWN) {
            return failed(CODE_NOT_RESIDENT);
        }
        if (entry.state == MISSING) {
            return failed(has_components ? CODE_COMPONENT_NOT_FOUND : CODE_NOT_FOUND);
        }
        request_fill(dir, entry, end - begin);
        if (entry.kind == KIND_SYMLINK && (p.follow != 0u || must_be_dir)) {
            followed++;
            is_plain = false;
            if (followed > MAX_FOLLOWED) {
                return failed(CODE_SYMLINK_LOOP);
            }
            Rest target = target_of(entry.ino);
            if (target.end == 0u) {
                return failed(CODE_NOT_RESIDENT);
            }
            if (rest.at < rest.end) {
                if (depth == MAX_DEPTH) {
                    return failed(CODE_NOT_RESIDENT);
                }
                outer[depth] = rest;
                depth++;
            } else if (depth == 0u) {
                has_slash = has_slash || end < rest.end;
                is_path = false;
            }
            rest = target;
            if (text_byte(rest.text, 0u) == 0x2fu) {
                dir = p.root;
                is_known = true;
            }
            rest.at = skip(rest.text, 0u, rest.end);
            continue;
        }
        dir = entry.ino;
        kind = entry.kind;
        is_known = true;
    }
    if (fuel == 0u) {
        return failed(CODE_NOT_RESIDENT);
    }
    if (kind != KIND_DIRECTORY && (has_slash || text_byte(rest.text, rest.end - 1u) == 0x2fu)) {
        return failed(CODE_NOT_DIRECTORY);
    }
    return LookupAnswer(CODE_SUCCESS, kind, dir);
}

void main() {
    uint n = invocation();
    if (n >= list_length(WALKS, p.count)) {
        return;
    }
    fuel = p.fuel;
    uint i = Indexes(p.walks).index[n];
    PathRange path = Paths(p.starts).path[i];
    LookupAnswer answer = resolve(i, path.start, path.bytes, Answers(p.answers).answer[i]);
    if ((answer.code & 0xffu) == CODE_UNFINISHED) {
        atomicAdd(Answers(p.answers).header.unfinished, 1u, gl_ScopeQueueFamily, 0, 0);
    }
    Answers(p.answers).answer[i] = answer;
}
