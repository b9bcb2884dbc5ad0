#version 460
// Finds the words of texts in which a match of a pattern ends: an invocation for each strip, which is 32
// words of 16 bytes. Its twin is `twin/scan.rs`.
//
// Strips are woven (`woven.glsl`). A state is on after a byte where a pattern up to that state ends with it.
// An invocation follows what begins in its strip past the end of the strip, and no text has a match across
// its end, so each match is found, and none is attributed to another text.

#extension GL_GOOGLE_include_directive : require
#include "prelude.glsl"
#include "woven.glsl"

layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer Found { uint strip[]; };

// Returns the states of a machine after a byte. `begin` is all ones where a match may begin, else 0.
uint64_t behind(uint k, uint64_t states, uint byte, uint64_t begin) {
    ScanProgram m = ScanProgram(p.text);
    uint64_t leads = m.leads[k * 256u + byte];
    // The last state of a pattern leads to the first one of the next, but then there is a match already.
    uint64_t next = (states << 1 | (begin & m.starts[k]) | (states & m.repeats[k])) & leads;
    // From the lowest state of a row that is on, or before it, all after it in the row are on too: a
    // subtraction borrows up to that state.
    uint64_t rows = next | m.last[k];
    return next | (m.optional[k] & (~(rows - m.before[k]) ^ rows));
}

#define TAKE(byte) \
    a = behind(0u, a, byte, begin); \
    hits |= a & m.ends[0]; \
    if (m.count > 1u) { \
        b = behind(1u, b, byte, begin); \
        hits |= b & m.ends[1]; \
    } \
    if (m.count > 2u) { \
        c = behind(2u, c, byte, begin); \
        hits |= c & m.ends[2]; \
    } \
    if (m.count > 3u) { \
        d = behind(3u, d, byte, begin); \
        hits |= d & m.ends[3]; \
    }

uint scan(uint strip) {
    ScanProgram m = ScanProgram(p.text);
    uint64_t a = 0UL;
    uint64_t b = 0UL;
    uint64_t c = 0UL;
    uint64_t d = 0UL;
    uint64_t begin = 0xffffffffffffffffUL;
    uint found = 0u;
    for (uint w = 0u; w < STRIP_WORDS + RUN_ON_WORDS && burn(); w++) {
        if (w >= STRIP_WORDS) {
            begin = 0UL;
            bool goes_on = (a | b | c | d) != 0UL && strip + 1u < p.count;
            if (!goes_on || found >> (STRIP_WORDS - 1u) != 0u) {
                break;
            }
        }
        uvec4 word = Text(p.starts).word[woven(strip + w / STRIP_WORDS, w % STRIP_WORDS, STRIP_WORDS)];
        uint64_t hits = 0UL;
        for (uint q = 0u; q < 4u && burn(); q++) {
            TAKE(word.x & 0xffu)
            TAKE(word.x >> 8 & 0xffu)
            TAKE(word.x >> 16 & 0xffu)
            TAKE(word.x >> 24)
            word = word.yzwx;
        }
        found |= (hits != 0UL ? 1u : 0u) << min(w, STRIP_WORDS - 1u);
    }
    // A match that has not ended may end further on.
    found |= ((a | b | c | d) != 0UL ? 1u : 0u) << (STRIP_WORDS - 1u);
    return fuel == 0u ? 0xffffffffu : found;
}

void main() {
    uint strip = invocation();
    if (strip >= p.count) {
        return;
    }
    fuel = p.fuel;
    Found(p.answers).strip[strip] = scan(strip);
}
