//! Searches in texts: the kernel and its twin, random patterns beside the crate `regex`, matches at all
//! borders, and the bytes that are loaded.

use crate::support::{faulty, gpu, over_copies, planted, sources};
use lanefs_gpu::twin::headers::woven::WovenText;
use lanefs_gpu::{Error, Gpu, PatternStep, Patterns, Probes, TextScan};
use lanefs_search::{Case, DeviceSearch, QueryOptions};
use lanefs_testkit::seeded::Seeded;
use std::sync::Arc;

/// Patterns for a query; `None`: it is none for a device.
fn patterns(query: &QueryOptions) -> Option<Patterns> {
    DeviceSearch::patterns(query)
}

fn query(pattern: &str, case: Case) -> QueryOptions {
    QueryOptions { patterns: vec![pattern.into()], case, ..QueryOptions::default() }
}

/// A random pattern. `is_plain`: one that machines find exactly.
fn pattern(numbers: &mut Seeded, is_plain: bool, depth: u32) -> String {
    const ATOMS: [&str; 12] = ["a", "b", "c", "d", "[ab]", "[^c]", "[a-c]", "\\x80", "ab", "ca", "dd", "bcd"];
    const WILD: [&str; 10] =
        [".", "\\w", "\\s", "\u{e9}", "(?i:k)", "^", "$", "\\b", "[\u{e9}-\u{17f}]", "(?-u:\\xff)"];
    let mut text = String::new();
    for _ in 0..=numbers.below(5) {
        let is_wild = !is_plain && numbers.below(4) == 0;
        let atom = match numbers.below(6) {
            0 if !is_plain && depth > 0 => {
                format!("({}|{})", pattern(numbers, false, depth - 1), pattern(numbers, false, depth - 1))
            }
            _ if is_wild => (*numbers.pick(&WILD)).to_owned(),
            _ => (*numbers.pick(&ATOMS)).to_owned(),
        };
        let is_one = atom.len() == 1 || atom.starts_with('[') && atom.is_ascii();
        let suffix = match numbers.below(8) {
            0 if !is_plain || is_one => *numbers.pick(&["?", "+", "*", "{2}", "{1,3}", "{0,2}"]),
            1 if !is_plain => *numbers.pick(&["{2,}", "{0,9}", "{3}", "*?"]),
            _ => "",
        };
        text += &match atom.len() {
            1 => atom,
            _ if suffix.is_empty() => atom,
            _ => format!("(?:{atom})"),
        };
        text += suffix;
    }
    text
}

/// A text of the letters of the patterns.
fn text(numbers: &mut Seeded) -> Vec<u8> {
    const PARTS: [&[u8]; 14] = [
        b"a",
        b"b",
        b"c",
        b"d",
        b"abc",
        b"dd",
        b"\n",
        b" ",
        b"K",
        b"\xc2\x80",
        b"\xff",
        "\u{e9}".as_bytes(),
        "\u{212a}".as_bytes(),
        b"\0",
    ];
    let parts = if numbers.below(30) == 0 { numbers.below(900) } else { numbers.length(60) };
    (0..parts).flat_map(|_| numbers.pick(&PARTS).to_vec()).collect()
}

#[test]
fn ten_thousand_random_patterns_are_found_where_the_crate_regex_finds_them() {
    let gpu = gpu(64);
    let numbers = &mut Seeded::new(4);
    let (mut for_device, mut exact, mut matched, mut surplus) = (0, 0, 0u64, 0u64);
    for round in 0..10_000 {
        let is_plain = round % 3 == 0;
        let pattern = pattern(numbers, is_plain, 2);
        let case = *numbers.pick(&[Case::Sensitive, Case::Insensitive, Case::Smart]);
        let texts: Vec<Vec<u8>> = (0..8).map(|_| text(numbers)).collect();
        let some: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        let Some(patterns) = patterns(&query(&pattern, case)) else { continue };
        for_device += 1;
        let found = gpu.text_scan(&patterns).may_match(&some);
        // In the sense of a line: the pattern may not take a line feed.
        let is_insensitive =
            case == Case::Insensitive || case == Case::Smart && !pattern.contains(char::is_uppercase);
        let regex = regex::bytes::RegexBuilder::new(&pattern)
            .multi_line(true)
            .case_insensitive(is_insensitive)
            .build()
            .expect("a pattern");
        for (text, found) in texts.iter().zip(found) {
            let matches = text.split(|byte| *byte == b'\n').any(|line| regex.is_match(line));
            assert!(found || !matches, "{pattern} is not found in {}", text.escape_ascii());
            // In texts that are not long, patterns without alternatives are found exactly.
            if is_plain && case == Case::Sensitive && text.len() < 200 {
                exact += 1;
                surplus += u64::from(found && !matches);
            }
            matched += u64::from(matches);
        }
    }
    println!("{for_device} patterns, {matched} matches, {surplus} of {exact} too many");
    assert!(for_device > 5000 && matched > 5000, "{for_device} patterns, {matched} matches");
    assert!(surplus * 50 < exact, "{surplus} of {exact} texts are found for nothing");
}

#[test]
fn the_kernel_gives_the_bits_of_its_twin() {
    for workgroup in [32, 64, 256] {
        let gpu = gpu(workgroup);
        let numbers = &mut Seeded::new(u64::from(workgroup));
        for _ in 0..60 {
            let mut patterns = Patterns::default();
            for _ in 0..numbers.below(20) + 1 {
                let steps = numbers.below(20) + 1;
                let step = |numbers: &mut Seeded, at: u64| PatternStep {
                    bytes: [0, 0x1e << 32 | numbers.below(u64::MAX) & numbers.below(u64::MAX), 0, 0],
                    is_optional: at > 0 && at + 1 < steps && numbers.below(4) == 0,
                    is_repeated: numbers.below(5) == 0,
                };
                let _ = patterns.or(&(0..steps).map(|at| step(numbers, at)).collect::<Vec<_>>());
            }
            let scan = gpu.text_scan(&patterns);
            // Any bytes, as another text would leave them there.
            let texts: Vec<Vec<u8>> = (0..numbers.below(40) + 1).map(|_| text(numbers)).collect();
            let mut woven = TextScan::woven(&texts.iter().map(Vec::as_slice).collect::<Vec<_>>());
            if numbers.below(2) == 0 {
                woven.fill_with(|| *numbers.pick(b"abcdABCD\n"));
            }
            assert_eq!(
                scan.kernel_scan(&woven).expect("the device"),
                scan.twin_scan(&WovenText::new(&woven))
            );
        }
    }
}

#[test]
fn a_match_is_found_at_every_border_and_in_its_own_text_only() {
    is_found_at_every_border(&gpu(64));
}

#[test]
fn texts_are_searched_on_a_device_whose_memory_the_host_does_not_map() {
    is_found_at_every_border(over_copies());
}

fn is_found_at_every_border(gpu: &Gpu) {
    for (pattern, part) in
        [("needle", "needle"), ("ne+d?le", "neeedle"), ("n.*e", "n       e"), ("(?i)NEEDLE", "nEeDlE")]
    {
        let patterns = patterns(&query(pattern, Case::Sensitive)).expect("for a device");
        let scan = gpu.text_scan(&patterns);
        for len in [part.len(), 15, 16, 17, 511, 512, 513, 4096, 16_383, 16_384, 16_385, 33_000] {
            let last = len.saturating_sub(part.len());
            let around = |border: usize| border.saturating_sub(9)..=(border + 1).min(last);
            let starts: Vec<usize> = [0, 16, 512, 1024, 4096, 16_384, len]
                .into_iter()
                .flat_map(around)
                .filter(|at| *at <= last)
                .collect();
            let texts: Vec<Vec<u8>> = starts
                .iter()
                .flat_map(|start| {
                    let mut text = vec![b'-'; len.max(part.len())];
                    text[*start..][..part.len()].copy_from_slice(part.as_bytes());
                    // A neighbour that has only the end, or the beginning.
                    let cut = text.len().min(start + part.len() - 1);
                    [text.clone(), part.as_bytes()[1..].to_vec(), text[..cut].to_vec()]
                })
                .collect();
            let found = scan.may_match(&texts.iter().map(Vec::as_slice).collect::<Vec<_>>());
            for ((text, found), expected) in
                texts.iter().zip(found).zip([true, false, false].into_iter().cycle())
            {
                assert_eq!(found, expected, "{pattern} in {} bytes: {}", text.len(), text.escape_ascii());
            }
        }
    }
    let scan = gpu.text_scan(&patterns(&query("needle", Case::Sensitive)).expect("for a device"));
    assert_eq!(scan.may_match(&[]), [false; 0]);
    assert_eq!(scan.may_match(&[b"", b""]), [false; 2]);
    // More than a dispatch takes.
    let large = [vec![b'x'; 17 << 20], b"needle".to_vec()].concat();
    let texts: Vec<&[u8]> = vec![b"needle", &large, b"", &large[1000..2000], b"needle", &large[..17 << 20]];
    assert_eq!(scan.may_match(&texts), [true, true, false, false, true, false]);
    assert_eq!(scan.failure(), None);
}

#[test]
fn kept_texts_are_searched_where_they_lie() {
    kept_texts_are_searched(&gpu(64));
    kept_texts_are_searched(over_copies());
}

fn kept_texts_are_searched(gpu: &Gpu) {
    let numbers = &mut Seeded::new(9);
    let kept = Arc::new(gpu.kept_texts(None));
    let texts: Vec<Vec<u8>> = (0..300).map(|_| text(numbers)).collect();
    let scan =
        |pattern: &str| gpu.text_scan(&patterns(&query(pattern, Case::Sensitive)).expect("for a device"));
    let first = scan("abc");
    assert_eq!(first.scan_kept(&kept).may_match([0].into_iter()), [None], "nothing is kept yet");
    // Several dispatches; every seventh text has no number.
    let id = |number: u64| (!number.is_multiple_of(7)).then_some(number);
    for (group, texts) in texts.chunks(50).enumerate() {
        let some: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        let ids: Vec<Option<u64>> = (50 * group as u64..).map(id).take(some.len()).collect();
        assert_eq!(first.may_match_and_keep(&some, &ids, &kept), first.may_match(&some));
    }
    assert_eq!(kept.len(), 300 - 43);
    assert!(kept.bytes() > 0 && !kept.is_empty());
    for pattern in ["abc", "d+a", "[ab]dd", "bcd", "cab?c"] {
        let scan = scan(pattern);
        let by_text = scan.may_match(&texts.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let result = scan.scan_kept(&kept);
        let known = result.may_match(0..texts.len() as u64);
        for ((number, known), found) in (0..).zip(known).zip(by_text) {
            assert_eq!(known, id(number).map(|_| found), "{pattern} in text {number}");
        }
        // A text that was kept after the search is not known to it.
        let late = 1000 + numbers.below(1 << 40);
        scan.may_match_and_keep(&[b"abcddabcdcabc"], &[Some(late)], &kept);
        assert_eq!(result.may_match([late].into_iter()), [None]);
        assert!(matches!(scan.scan_kept(&kept).may_match([late].into_iter())[..], [Some(_)]));
    }
    assert_eq!(first.failure(), None);
}

#[test]
fn no_more_texts_are_kept_than_there_is_room_for() {
    let gpu = gpu(64);
    let (text, scan) = (vec![b'-'; 1 << 20], gpu.text_scan(&patterns(&word()).expect("for a device")));
    for most in [0, 1 << 20, 3 << 20, (3 << 20) + 1] {
        let kept = Arc::new(gpu.kept_texts(Some(most)));
        for number in 0..10 {
            let texts: [&[u8]; 2] = [&text, b"needle"];
            assert_eq!(scan.may_match_and_keep(&texts, &[Some(2 * number), None], &kept), [false, true]);
        }
        assert_eq!(kept.len() as u64, (most >> 20).saturating_sub(1), "at most {most} bytes");
        assert!(kept.bytes() <= most + 3, "{} of {most} bytes", kept.bytes());
        let known = scan.scan_kept(&kept).may_match((0..10).map(|number| 2 * number));
        assert_eq!(known.iter().flatten().count(), kept.len());
    }
    // Texts on another device are not texts of this one.
    let other = over_copies();
    let kept = Arc::new(other.kept_texts(None));
    assert_eq!(scan.may_match_and_keep(&[b"needle"], &[Some(1)], &kept), [true]);
    assert!(kept.is_empty());
    other.text_scan(&patterns(&word()).expect("for a device")).may_match_and_keep(
        &[b"none"],
        &[Some(1)],
        &kept,
    );
    assert_eq!((kept.len(), scan.scan_kept(&kept).may_match([1].into_iter())), (1, vec![None]));
}

#[test]
fn threads_keep_texts_while_others_search_in_them() {
    let gpu = gpu(64);
    let kept = Arc::new(gpu.kept_texts(None));
    let scan = &gpu.text_scan(&patterns(&word()).expect("for a device"));
    let has = |id: u64| id.is_multiple_of(3);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let kept = &kept;
            scope.spawn(move || {
                for round in 0..30 {
                    let ids: Vec<u64> = (0..20).map(|number| thread + 3 * (round * 20 + number)).collect();
                    let texts: Vec<Vec<u8>> = ids
                        .iter()
                        .map(|id| {
                            [&vec![b'x'; *id as usize][..], if has(*id) { b"needle" } else { b"none" }]
                                .concat()
                        })
                        .collect();
                    let some: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
                    let numbers: Vec<Option<u64>> = ids.iter().copied().map(Some).collect();
                    scan.may_match_and_keep(&some, &numbers, kept);
                    let known = scan.scan_kept(kept).may_match(0..1800);
                    assert!(ids.iter().all(|id| known[*id as usize] == Some(has(*id))));
                    assert!((0..).zip(known).all(|(id, known)| known.is_none_or(|known| known == has(id))));
                }
            });
        }
    });
    assert_eq!(kept.len(), 1800);
    assert_eq!(scan.failure(), None);
}

fn word() -> QueryOptions {
    query("needle", Case::Sensitive)
}

/// Bytes loaded for a byte of text, at most.
const LOADED: f64 = 1.1;

#[test]
fn a_byte_of_text_is_loaded_about_once() {
    let gpu = gpu(64);
    let files = sources();
    let texts: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    println!("\n| pattern | bytes loaded for a byte of text |\n|---|---|");
    for pattern in
        ["needle", "(?i)vulkan", "let [a-z]+ =", "one|two|three|four|five", "fn.*Result", r"impl\s+\w+ for"]
    {
        let scan = gpu.text_scan(&patterns(&query(pattern, Case::Sensitive)).expect("for a device"));
        let woven = TextScan::woven(&texts);
        let counted = WovenText::new(&woven);
        assert_eq!(scan.kernel_scan(&woven).expect("the device"), scan.twin_scan(&counted));
        let loaded = counted.loaded() as f64 / bytes as f64;
        println!("| `{}` | {loaded:.3} |", pattern.replace('|', "\\|"));
        assert!(loaded <= LOADED, "{pattern}: {loaded}");
    }
    // A pattern that goes on for lines is followed, and that is seen.
    let scan =
        gpu.text_scan(&patterns(&query("(?s-u:aa[\\x00-\\xff]*zz)", Case::Sensitive)).expect("for a device"));
    let woven = TextScan::woven(&[&[b'a'; 1 << 20]]);
    let counted = WovenText::new(&woven);
    scan.twin_scan(&counted);
    assert!(counted.loaded() as f64 / f64::from(1 << 20) > LOADED);
}

#[test]
fn a_wrong_kernel_does_not_pass_its_probe() {
    let mut passed = Vec::new();
    for (right, wrong) in [
        ("(states << 1 |", "(states |"),
        ("(states & m.repeats[k])", "0UL"),
        ("(~(rows - m.before[k]) ^ rows)", "rows"),
        ("next | m.last[k]", "next"),
        ("begin & m.starts[k]", "m.starts[k]"),
        ("m.leads[k * 256u + byte]", "m.leads[byte]"),
        ("woven(strip + w / STRIP_WORDS", "woven(strip"),
        ("w < STRIP_WORDS + RUN_ON_WORDS", "w < STRIP_WORDS"),
        ("strip + 1u < p.count", "false"),
        ("TAKE(word.x >> 16 & 0xffu)", "TAKE(word.y >> 16 & 0xffu)"),
        ("word = word.yzwx", "word = word.zywx"),
        ("begin = 0UL;", "begin = begin;"),
        ("hits |= d & m.ends[3]", "hits |= d & m.ends[2]"),
        ("if (m.count > 2u)", "if (m.count > 3u)"),
        ("w % STRIP_WORDS, STRIP_WORDS)", "w % STRIP_WORDS, 2u * STRIP_WORDS)"),
        ("min(w, STRIP_WORDS - 1u);", "min(w, STRIP_WORDS - 2u);"),
        ("strip >= p.count", "strip > p.count / 2u"),
    ] {
        let code = faulty("scan", "scan.comp", right, wrong);
        let opened = planted("scan", &code, Probes::Of("scan"));
        if !matches!(opened, Err(Error::Wrong { kernel, .. }) if kernel == "scan") {
            passed.push(wrong);
        }
    }
    assert_eq!(passed, [""; 0], "passes the probe");
}
