#version 460
// Resolves paths: an invocation each. Its twin is `twin/lookup.rs`, function by function.
//
// The answer is NOT_RESIDENT, and the host decides, where the kernel cannot decide for certain: a block is
// absent, the target of a link is not in its inode, a structure contradicts itself. Every walk has a bound,
// and every position passes the table of chunks, so no input leads to an endless loop or outside the
// buffers.

#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"

layout(buffer_reference, std430, buffer_reference_align = 16) restrict buffer Answers {
    AnswersHeader header;
    LookupAnswer answer[];
};
layout(buffer_reference, std430, buffer_reference_align = 8) restrict writeonly buffer Cores { uint64_t quad[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Fills {
    FillsHeader header;
    FillRequest request[];
};
layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer Paths { PathRange path[]; };

LookupAnswer failed(uint code) {
    return LookupAnswer(code, 0u, 0UL);
}

// Remaining text of the path, or of a link's target.
struct Rest {
    uint64_t text;
    uint at;
    uint end;
};

// Requests that `fill` puts an entry that was found in the tree into the cache, as far as there is room.
void request_fill(uint64_t dir, Entry entry, uint length) {
    if (p.room == 0u || entry.at == 0UL || length > CACHED_NAME) {
        return;
    }
    Fills fills = Fills(p.fills);
    uint i = atomicAdd(fills.header.count, 1u, gl_ScopeQueueFamily, 0, 0);
    if (i < p.room) {
        fills.request[i] = FillRequest(dir, entry.at);
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

// Resolves a path, or resumes the last dispatch, whose answer is `state`.
LookupAnswer resolve(uint start, uint length, LookupAnswer state) {
    if (length == 0u) {
        return failed(CODE_NOT_FOUND);
    }
    if (length > MAX_PATH) {
        return failed(CODE_NOT_RESIDENT);
    }
    // Text is read by words.
    uint first = start & 3u;
    Rest rest = Rest(p.text + uint64_t(start - first), first, first + length);
    Rest outer[MAX_DEPTH];
    uint depth = 0u;
    uint followed = 0u;
    uint64_t dir = text_byte(rest.text, first) == 0x2fu ? p.root : p.base;
    uint kind = KIND_DIRECTORY;
    // The host, or an entry, has said that `dir` is a directory.
    bool is_known = true;
    // The outermost text is the path itself, and not a target.
    bool is_path = true;
    // Slashes follow the remaining text.
    bool has_slash = false;
    if ((state.code & 0xffu) == CODE_UNFINISHED) {
        followed = state.code >> 8 & 0xffu;
        has_slash = state.code >> 16 != 0u;
        rest.at = state.kind;
        dir = state.ino;
        is_known = false;
    }
    rest.at = skip(rest.text, rest.at, rest.end);
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
            return LookupAnswer(CODE_UNFINISHED | followed << 8 | (has_slash ? 1u << 16 : 0u), rest.at, dir);
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
            continue;
        }
        if (end - begin == 2u && dots == 0x2e2eu) {
            bool resident = true;
            dir = quad_at(dir * uint64_t(p.inode_size) + INODE_PARENT_OR_DEVICE, resident);
            if (!resident || dir == 0UL) {
                return failed(CODE_NOT_RESIDENT);
            }
            is_known = false;
            continue;
        }
        Name name = name_of(rest.text, begin, end - begin);
        Entry entry = cached(dir, name);
        if (entry.state != FOUND) {
            entry = find(dir, is_known, name);
        }
        if (fuel == 0u || entry.state == UNKNOWN) {
            return failed(CODE_NOT_RESIDENT);
        }
        if (entry.state == MISSING) {
            return failed(has_components ? CODE_COMPONENT_NOT_FOUND : CODE_NOT_FOUND);
        }
        request_fill(dir, entry, name.bytes);
        if (entry.kind == KIND_SYMLINK && (p.follow != 0u || must_be_dir)) {
            followed++;
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
    uint i = invocation();
    if (i >= p.count) {
        return;
    }
    LookupAnswer state = LookupAnswer(0u, 0u, 0UL);
    if (p.resume != 0u) {
        state = Answers(p.answers).answer[i];
        if ((state.code & 0xffu) != CODE_UNFINISHED) {
            return;
        }
    }
    fuel = p.fuel;
    PathRange path = Paths(p.starts).path[i];
    LookupAnswer answer = resolve(path.start, path.bytes, state);
    if (answer.code == CODE_SUCCESS) {
        // An inode in use has a mode, and an absent one has all bits.
        bool resident = true;
        uint64_t inode = answer.ino * uint64_t(p.inode_size);
        uint mode = word_at(inode, resident) & 0xffffu;
        if (!resident || mode == 0u || mode == 0xffffu) {
            answer = failed(CODE_NOT_RESIDENT);
        } else if (p.cores != 0UL) {
            Quads from = Quads(address_of(inode));
            Cores to = Cores(p.cores + uint64_t(i) * uint64_t(INODE_SIZE));
            for (uint k = 0u; k < INODE_SIZE / 8u; k++) {
                to.quad[k] = from.quad[k];
            }
        }
    }
    if ((answer.code & 0xffu) == CODE_UNFINISHED) {
        atomicAdd(Answers(p.answers).header.unfinished, 1u, gl_ScopeQueueFamily, 0, 0);
    }
    Answers(p.answers).answer[i] = answer;
}
