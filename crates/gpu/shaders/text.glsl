// Text: an address that is a multiple of 4, and offsets. Words after the one with the last byte are not
// read.

uint text_byte(uint64_t text, uint at) {
    return Words(text).word[at / 4u] >> (at % 4u * 8u) & 0xffu;
}

// Returns the four bytes from any offset on, the first in the lowest bits; those from `end` on are 0.
uint text_word(uint64_t text, uint at, uint end) {
    if (at >= end) {
        return 0u;
    }
    uint shift = at % 4u * 8u;
    uint word = Words(text).word[at / 4u] >> shift;
    if (shift != 0u && (at | 3u) + 1u < end) {
        word |= Words(text).word[at / 4u + 1u] << (32u - shift);
    }
    uint left = end - at;
    return left >= 4u ? word : word & ((1u << (8u * left)) - 1u);
}

// Returns the highest bit of each byte that is 0.
uint zero_bytes(uint word) {
    return ~(((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word | 0x7f7f7f7fu);
}

// Returns the end of the component that begins at `at`: at a slash, at a NUL, at the end of the text; or it
// is too long for a name.
uint component_end(uint64_t text, uint at, uint end) {
    uint found = end;
    uint outside = (1u << (at % 4u * 8u)) - 1u;
    // No name takes more words.
    uint last = min(end, at + MAX_NAME + 1u);
    for (uint from = at - at % 4u; from < last; from += 4u) {
        uint word = Words(text).word[from / 4u];
        uint special = (zero_bytes(word ^ 0x2f2f2f2fu) | zero_bytes(word)) & ~outside;
        outside = 0u;
        if (special != 0u) {
            found = from + uint(findLSB(special)) / 8u;
            break;
        }
    }
    found = min(found, last);
    spend(2u + (found - at) / 4u);
    return found;
}

// Skips slashes.
uint skip(uint64_t text, uint at, uint end) {
    while (at < end && text_byte(text, at) == 0x2fu && burn()) {
        at++;
    }
    return at;
}
