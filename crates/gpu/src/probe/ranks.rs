//! Probe of the kernels that rank paths: scores that are known, and paths of few letters, where the results
//! must be the twins'.

use super::known::{KnownPaths, wrong};
use crate::error::Result;
use crate::inputs::needles::Needles;
use crate::inputs::path_bundles::PathBundles;
use crate::kernels::context::DeviceContext;
use crate::kernels::{BEST, SCORE, TALLY};
use crate::searches::ranked::RankedPaths;
use crate::shared::layout::MAX_RANKED_PATH;
use crate::twin::kernels::best::best;
use crate::twin::kernels::score::score;
use crate::twin::kernels::tally::tally;
use lanefs::{InodeSize, Volume};

/// Terms, a path, and its score by nucleo: 16 for each letter, and bonuses. A term with a capital heeds case.
const KNOWN: [(&str, &str, u32); 11] = [
    // Behind a slash twice 9; the next letter continues the run.
    ("a", "/a", 34),
    ("ab", "/ab", 34 + 25),
    // A gap of one costs 3, of two 4. Behind an underscore 8.
    ("ab", "/a_b", 34 - 3 + 24),
    ("ab", "/axyb", 34 - 4 + 16),
    ("ab", "/xa_b", 16 - 3 + 24),
    // A capital inside a word, and a digit.
    ("fB", "/fooBar", 34 - 4 + 21),
    ("f1", "/f1", 34 + 25),
    // A run that has come to a boundary keeps its bonus. One that is as good as a gap does not count.
    ("a_/", "/xa_/", 16 + 24 + 24),
    ("bcd", "/bBcd", 34 - 3 + 16 + 20),
    // No match: letters in another order, another case.
    ("ba", "/ab", 0),
    ("A", "/a", 0),
];

/// Terms for paths of few letters. The last ones have as many letters as fit, which may take all fuel.
const TERMS: [&[&str]; 8] = [
    &["a"],
    &["b", "a0", "1"],
    &["abab", "0_1"],
    &["aB", "A", "b/a"],
    &["a.b a-_01", " "],
    &["abcabcabcabcabc", "bb", "c"],
    &["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"],
    &["a", "a", "b", "c", "0", "/", "_", ".", "aaaaaaaa", "bbbbbbbb", "cccccccc"],
];

/// Letters of the paths: some of each class, and one that is not ASCII.
const LETTERS: &[u8] = b"aaaabbbccABC0112///__. -aaaabbbccABC0112///__. -aaaabbbccABC0112///__. -\xc3";

/// Paths: more than a workgroup counts.
const PATHS: usize = 2500;

fn needles(terms: &[&str]) -> Needles {
    let mut needles = Needles::default();
    let mut and =
        |term: &&str| needles.and(term.as_bytes(), !term.bytes().any(|byte| byte.is_ascii_uppercase()));
    let all_fit = terms.iter().all(&mut and);
    debug_assert!(all_fit, "no terms: {terms:?}");
    needles
}

/// Paths of few letters, and some at the bounds.
fn paths() -> Vec<Vec<u8>> {
    let mut state = 1u32;
    let mut number = |below: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as usize % below
    };
    let mut paths: Vec<Vec<u8>> = (0..PATHS)
        .map(|path| {
            let most = if path % 100 == 0 { 200 } else { 40 };
            let len = number(most);
            (0..len).map(|_| LETTERS[number(LETTERS.len())]).collect()
        })
        .collect();
    for len in [MAX_RANKED_PATH - 1, MAX_RANKED_PATH, MAX_RANKED_PATH + 1] {
        paths.push(vec![b'a'; len]);
        paths.push([vec![b'x'; len - 40], b"/a.b a-_01/abab01/a0 bAb/1cccccccccaaaaaa".to_vec()].concat());
    }
    paths.push([&b"x".repeat(600)[..], b"aBb/a Ac"].concat());
    paths
}

pub(crate) fn rank(context: &DeviceContext, volume: &Volume, _: &KnownPaths) -> Result<()> {
    // The volume does not matter, so one of the two suffices.
    if volume.superblock().inode_size == InodeSize::B128 {
        return Ok(());
    }
    let known = RankedPaths::new(context, KNOWN.len(), &mut |number, path| {
        path.extend_from_slice(KNOWN[number as usize].1.as_bytes());
    })?;
    for (number, (term, path, expected)) in KNOWN.iter().enumerate() {
        let (scores, ..) = known.rank_directly(&needles(&[term]), 1)?;
        if scores[number] != *expected {
            return wrong(SCORE, format!("{term} in {path}: {}", scores[number]));
        }
    }
    let paths = paths();
    let mut bundles = PathBundles::default();
    paths.iter().for_each(|path| bundles.push(path));
    let ranked = RankedPaths::new(context, paths.len(), &mut |number, path| {
        path.extend_from_slice(&paths[number as usize]);
    })?;
    for terms in TERMS {
        let needles = needles(terms);
        let expected = score(needles.program(), &bundles, context.fuel());
        // Half of the paths that match, with a score that some of them have.
        let mut matches: Vec<u32> = expected.iter().copied().filter(|score| *score != 0).collect();
        matches.sort_unstable();
        let least = matches.get(matches.len() / 2).copied().unwrap_or(1);
        let (scores, counts, listed) = ranked.rank_directly(&needles, least)?;
        if let Some(at) = (0..paths.len()).find(|at| scores[*at] != expected[*at]) {
            let path = paths[at].escape_ascii();
            return wrong(SCORE, format!("{terms:?} in {path}: {}, not {}", scores[at], expected[at]));
        }
        if counts != tally(&scores) {
            return wrong(TALLY, format!("scores of {terms:?}"));
        }
        if listed != best(&scores, least) {
            return wrong(BEST, format!("paths with at least {least} for {terms:?}"));
        }
    }
    Ok(())
}
