#version 460
// Scores paths for the letters of fuzzy terms, with the results of the crate nucleo-matcher: an invocation
// for each path. Its twin is `twin/score.rs`.
//
// A letter of a term is a row. A term's score is the best over all ways to place its letters in the path, in
// their order. An invocation goes through the path once, for all terms, and keeps a cell for each row, in
// shared memory for want of registers: no other invocation reads it. A cell has the best potential of its
// row, which is score and offset together, so that it stays right while the gap after it grows; the score of
// the last match, or of the best one in a term's last row; and the bonus of the run of letters that the match
// belongs to.

#extension GL_GOOGLE_include_directive : require
#define SHARES_MEMORY
#include "prelude.glsl"

layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer PathBundles {
    PathBundle bundle[];
};
layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly buffer PathWords { uvec4 word[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer Scores { uint score[]; };

shared uint cells[MAX_ROWS * gl_WorkGroupSize.x];

// Rows that have matched, those that the byte before matched, and those that count no more.
uint seen = 0u;
uint was = 0u;
uint closed = 0u;

// Index of a row's cell.
uint cell(uint row) {
    return row * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
}

uint score_of(uint cell) {
    return cell >> CELL_RUN_BITS & ((1u << CELL_SCORE_BITS) - 1u);
}

// Makes the cell of a row that the byte at an offset matches. Rows come from the highest down, so the cell of
// the row above is that of the byte before.
void take(RankProgram r, uint row, uint at, uint bonus) {
    uint bit = 1u << row;
    bool is_first = (r.starts & bit) != 0u;
    bool is_last = (r.ends & bit) != 0u;
    uint above = cells[cell(is_first ? row : row - 1u)];
    uint most = above >> CELL_MOST_SHIFT;
    uint run = bonus;
    uint here = is_first ? bonus * SCORE_FIRST : bonus + (most - min(most, at + GAP_START - 2u));
    if (!is_first && (was & bit >> 1) != 0u) {
        uint goes_on = max(above & ((1u << CELL_RUN_BITS) - 1u), CONSECUTIVE);
        if (bonus >= BOUNDARY) {
            goes_on = max(goes_on, bonus);
        }
        uint without_gap = score_of(above) + max(goes_on, bonus);
        if (without_gap > here) {
            here = without_gap;
            run = goes_on;
        }
    }
    here += SCORE_MATCH;
    uint old = (seen & bit) != 0u ? cells[cell(row)] : 0u;
    uint potential = max(old >> CELL_MOST_SHIFT, here + at);
    if (is_last) {
        here = max(here, score_of(old));
    }
    cells[cell(row)] = potential << CELL_MOST_SHIFT | here << CELL_RUN_BITS | run;
    // As nucleo, which looks no further for a single letter once it has found one at a boundary.
    if (is_first && is_last && here >= BOUNDARY * SCORE_FIRST + SCORE_MATCH) {
        closed |= bit;
    }
}

uint score(uint path) {
    RankProgram r = RankProgram(p.text);
    uint lane = path % BUNDLE_PATHS;
    uint length = PathBundles(p.starts).bundle[path / BUNDLE_PATHS].lengths[lane];
    if (length > MAX_RANKED_PATH) {
        return SCORE_UNDECIDED;
    }
    PathWords words = PathWords(PathBundles(p.starts).bundle[path / BUNDLE_PATHS].words);
    uint before = CLASS_SLASH;
    uvec4 word = uvec4(0u);
    for (uint at = 0u; at < length && burn(); at++) {
        if (at % 16u == 0u) {
            word = words.word[at / 16u * BUNDLE_PATHS + lane];
        }
        uint64_t letter = r.letters[word.x & 0xffu];
        word.x >>= 8;
        if (at % 4u == 3u) {
            word = word.yzwx;
        }
        uint bonus = uint(letter >> 32) >> before * BONUS_BITS & ((1u << BONUS_BITS) - 1u);
        before = uint(letter >> CLASS_SHIFT);
        uint matched = uint(letter) & (r.starts | seen << 1) & ~closed;
        uint left = matched;
        while (left != 0u && burn()) {
            uint row = uint(findMSB(left));
            left ^= 1u << row;
            take(r, row, at, bonus);
        }
        seen |= matched;
        was = matched;
    }
    uint ends = r.ends;
    uint sum = 0u;
    if ((seen & ends) != ends) {
        return fuel == 0u ? SCORE_UNDECIDED : 0u;
    }
    while (ends != 0u && burn()) {
        sum += score_of(cells[cell(uint(findLSB(ends)))]);
        ends &= ends - 1u;
    }
    return fuel == 0u ? SCORE_UNDECIDED : sum;
}

void main() {
    uint path = invocation();
    if (path >= p.count) {
        return;
    }
    fuel = p.fuel;
    Scores(p.answers).score[path] = score(path);
}
