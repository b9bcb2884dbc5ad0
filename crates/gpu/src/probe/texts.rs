//! Probe of the kernel that searches in texts: patterns at all borders, whose answers are known, and texts of
//! few letters, where the results must be the twin's.

use super::known::{KnownPaths, wrong};
use crate::error::Result;
use crate::inputs::patterns::{Patterns, steps};
use crate::kernels::SCAN;
use crate::kernels::context::DeviceContext;
use crate::searches::scan::TextScan;
use crate::searches::woven::{have_bits, weave, woven_bytes};
use crate::shared::layout::{STRIP_WORDS, TEXT_WORD};
use crate::twin::headers::woven::WovenText;
use crate::twin::kernels::scan::scan as twin;
use lanefs::Volume;

/// Lists of patterns, with texts of which each has one of them, and texts that have none. In a pattern `?`,
/// `*` and `+` follow a letter, and `.` stands for any byte.
type KnownTexts = (&'static [&'static str], &'static [&'static str], &'static [&'static str]);

const KNOWN: [KnownTexts; 5] = [
    (&["needle"], &["needle"], &["needl", "eedle", "needl\ne", "neeedle", "nEedle"]),
    (
        &["ab?c?d+e", "kl*m"],
        &["abcde", "ade", "acdde", "abdddde", "km", "klm", "kllllllllllllllllllllllllllllllllllm"],
        &["abcbde", "abce", "acbde", "ae", "kl", "lm", "kllnm", "abbde"],
    ),
    (&["q.*z"], &["qz", "q------------------------------z"], &["q-----------\n--z", "zq"]),
    // Three machines, and four. Only the last states of patterns in different ones differ.
    (
        &[ONE, TWO, THREE],
        &[ONE, TWO, THREE],
        &["one!----------------------------------", "two", "-------------------------------------"],
    ),
    (
        &[ONE, TWO, THREE, FOUR, "ooone", "ttt+wo?x"],
        &[ONE, TWO, THREE, FOUR, "ooone", "tttwx", "ttttwox"],
        &["oone", "ttwx", "fou"],
    ),
];

/// Patterns of which no two fit into a machine.
const ONE: &str = "one----------------------------------";
const TWO: &str = "two-----------------------------------";
const THREE: &str = "three----------------------------------";
const FOUR: &str = "four------------------------------------";

/// Letters of the patterns, a line feed, and others.
const LETTERS: &[u8] = b"abcdeklmqz-\nneedle";

/// Texts with a part in the middle, before, on and after each border of words and strips.
fn with(part: &str) -> Vec<Vec<u8>> {
    let strip = STRIP_WORDS * TEXT_WORD;
    let borders = [0, TEXT_WORD, 2 * strip];
    let starts =
        borders.into_iter().flat_map(|border| (0..=part.len()).filter_map(move |by| border.checked_sub(by)));
    let text = |start: usize| [&b"!".repeat(start)[..], part.as_bytes(), b"!!"].concat();
    starts.map(text).collect()
}

pub(crate) fn scan(context: &DeviceContext, _: &Volume, _: &KnownPaths) -> Result<()> {
    let mut state = 1u32;
    let mut letter = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        LETTERS[(state >> 16) as usize % LETTERS.len()]
    };
    let any: Vec<u8> = (0..40_000).map(|_| letter()).collect();
    for (all, there, absent) in KNOWN {
        let mut patterns = Patterns::default();
        let all_fit = all.iter().all(|pattern| patterns.or(&steps(pattern)));
        debug_assert!(all_fit, "no patterns: {all:?}");
        let search = TextScan::new(context, &patterns);
        let texts: Vec<(Vec<u8>, bool)> = there
            .iter()
            .map(|part| (part, true))
            .chain(absent.iter().map(|part| (part, false)))
            .flat_map(|(part, is_there)| with(part).into_iter().map(move |text| (text, is_there)))
            .collect();
        let mut some: Vec<&[u8]> = texts.iter().map(|(text, _)| &text[..]).collect();
        some.push(&any);
        let mut memory = vec![0; woven_bytes(&some)];
        let ranges = weave(&some, &mut memory);
        let found = search.scan_directly(&memory)?;
        let answers = have_bits(&ranges, &found);
        for ((text, is_there), answer) in texts.iter().zip(answers) {
            if *is_there != answer {
                return wrong(SCAN, format!("{all:?} in {}: {answer}", text.escape_ascii()));
            }
        }
        if found != twin(search.program(), &WovenText::new(&memory), context.fuel()) {
            return wrong(SCAN, format!("{all:?} in a text of few letters"));
        }
    }
    Ok(())
}
