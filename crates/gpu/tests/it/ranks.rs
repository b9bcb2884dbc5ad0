//! Ranks of paths: the kernels and their twins beside the crate `nucleo-matcher`, lists of the best, and
//! planted wrong kernels.

use crate::support::{faulty, gpu, over_copies, planted};
use lanefs::{CreateOptions, FileKind, Volume, path};
use lanefs_gpu::testing::twin_ranks;
use lanefs_gpu::{Error, Gpu, Needles, Probes, RankedPaths};
use lanefs_search::DeviceRanks;
use lanefs_search::fuzzy::{Finder, GatherOptions, Names, Query, Start};
use lanefs_testkit::seeded::Seeded;
use nucleo_matcher::{Config, Matcher, Utf32Str};
use std::sync::Arc;

/// Score of a path that the host must decide.
const UNDECIDED: u32 = u32::MAX;

/// Longest path that a device scores.
const LONGEST: usize = 1024;

/// A term: its letters, and whether capitals match them too.
type Term = (Vec<u8>, bool);

const WORDS: &[&str] = &[
    "a", "b", "aa", "ab", "A", "B", "aB", "Ba", "fooBar", "FOO", "src", "main", "README", "x86", "64", "0",
    "1", "2024", "mod", "lib", "rs", "\t", "~", "(1)",
];
const DELIMITERS: &[&str] = &["/", "/", "_", "-", ".", " ", "", "", "//", "__", ". ", "-_"];

/// A path of words that queries match in many ways.
fn path(random: &mut Seeded) -> Vec<u8> {
    let mut path = String::new();
    for _ in 0..random.between(1, 12) {
        path += *random.pick::<&str>(DELIMITERS);
        path += *random.pick::<&str>(WORDS);
    }
    match random.below(40) {
        0 => path.clear(),
        1 => path += "é",
        2 => path = path.repeat(1 + 40 / path.len()),
        3 => path.insert(0, '\u{7f}'),
        _ => {}
    }
    path.into_bytes()
}

/// A term of 1 to 32 letters: letters of a path in their order, a whole path, or any letters.
fn term(random: &mut Seeded, paths: &[Vec<u8>], most: usize) -> Term {
    let path = random.pick(paths).clone();
    let keep = *random.pick(&[5, 10, 15, 25, 60, 100]);
    let mut letters: Vec<u8> = path.into_iter().filter(|_| random.chance(keep)).collect();
    if random.chance(15) {
        letters = (0..random.between(1, 32)).map(|_| *random.pick(b"aabbAB/_. 01fors")).collect();
    }
    if random.chance(10) {
        letters = vec![*random.pick(b"abAB/_1"); random.between(1, 32) as usize];
    }
    letters.retain(u8::is_ascii);
    if random.chance(60) {
        letters.make_ascii_lowercase();
    }
    letters.truncate(most);
    if letters.is_empty() {
        letters.push(b'a');
    }
    // Smart case, as the command has it.
    let ignores_case = !letters.iter().any(u8::is_ascii_uppercase);
    (letters, ignores_case)
}

fn needles(terms: &[Term]) -> Needles {
    let mut needles = Needles::default();
    for (letters, ignores_case) in terms {
        assert!(needles.and(letters, *ignores_case));
    }
    needles
}

/// The sum of nucleo's scores for the terms; 0 where one does not match.
fn nucleo(matcher: &mut Matcher, terms: &[Term], path: &[u8]) -> u32 {
    let each = terms.iter().map(|(letters, ignores_case)| {
        matcher.config.ignore_case = *ignores_case;
        matcher.fuzzy_match(Utf32Str::Ascii(path), Utf32Str::Ascii(letters)).map(u32::from)
    });
    each.sum::<Option<u32>>().unwrap_or(0)
}

fn ranked(gpu: &Gpu, paths: &[Vec<u8>]) -> RankedPaths {
    let mut path = |number: u32, to: &mut Vec<u8>| to.extend_from_slice(&paths[number as usize]);
    gpu.ranked_paths(paths.len(), &mut path).expect("paths on the device")
}

#[test]
fn scores_are_those_of_nucleo_and_of_the_twin() {
    let mut matcher = Matcher::new(Config::DEFAULT.match_paths());
    let (mut pairs, mut matches, mut whole, mut undecided) = (0, 0, 0, 0);
    for workgroup in [32, 64, 256] {
        let gpu = gpu(workgroup);
        let mut random = Seeded::new(u64::from(workgroup));
        for _ in 0..60 {
            let count = *random.pick(&[1, 31, 32, 33, 400, 1000]);
            let paths: Vec<Vec<u8>> = (0..count).map(|_| path(&mut random)).collect();
            let on_device = ranked(&gpu, &paths);
            for _ in 0..4 {
                let mut terms = vec![term(&mut random, &paths, 32)];
                while random.chance(30) {
                    let room = 32 - terms.iter().map(|(letters, _)| letters.len()).sum::<usize>();
                    if room > 0 {
                        terms.push(term(&mut random, &paths, room));
                    }
                }
                let needles = needles(&terms);
                let least = *random.pick(&[1, 30, 60, 200]);
                let (scores, counts, listed) = on_device.kernel_ranks(&needles, least).expect("the device");
                let twin = twin_ranks(&needles, &paths, least, gpu.fuel());
                assert_eq!((&scores, &counts, &listed), (&twin.0, &twin.1, &twin.2), "{terms:?}");
                for (path, score) in paths.iter().zip(scores) {
                    if score == UNDECIDED {
                        undecided += usize::from(path.is_ascii());
                        continue;
                    }
                    assert!(path.is_ascii());
                    let expected = nucleo(&mut matcher, &terms, path);
                    assert_eq!(score, expected, "{terms:?} in {}", path.escape_ascii());
                    pairs += terms.len();
                    matches += usize::from(score > 0);
                    whole += usize::from(terms.iter().any(|(letters, _)| letters == path));
                }
            }
        }
    }
    println!("{pairs} pairs, {matches} matches, {whole} of the whole path, {undecided} undecided");
    // A path in ASCII that is not too long is left to the host for want of fuel alone.
    assert!(pairs > 150_000 && matches > 20_000 && whole > 50, "{pairs}, {matches}, {whole}");
    assert!(undecided * 200 < pairs, "{undecided} paths are left to the host");
}

#[test]
fn every_class_of_bytes_has_the_bonuses_of_nucleo() {
    let gpu = gpu(64);
    let mut matcher = Matcher::new(Config::DEFAULT.match_paths());
    // Each pair of bytes, the second of which matches.
    let paths: Vec<Vec<u8>> =
        (0..128).flat_map(|one| (0..128).map(move |other| vec![b'x', one, other])).collect();
    let on_device = ranked(&gpu, &paths);
    for letter in (1..128).filter(|letter: &u8| !letter.is_ascii_uppercase() && *letter != b'x') {
        let terms = [(vec![letter], true)];
        let (scores, ..) = on_device.kernel_ranks(&needles(&terms), 1).expect("the device");
        for (path, score) in paths.iter().zip(scores) {
            assert_eq!(score, nucleo(&mut matcher, &terms, path), "{letter} in {}", path.escape_ascii());
        }
    }
}

#[test]
fn the_best_paths_are_all_that_may_be_within_the_limit() {
    the_best_are_listed(&gpu(64));
}

#[test]
fn paths_are_ranked_on_a_device_whose_memory_the_host_does_not_map() {
    the_best_are_listed(over_copies());
}

fn the_best_are_listed(gpu: &Gpu) {
    let mut random = Seeded::new(7);
    let mut paths: Vec<Vec<u8>> = (0..3000).map(|_| path(&mut random)).collect();
    paths.push(vec![b'a'; LONGEST]);
    paths.push(vec![b'a'; LONGEST + 1]);
    let on_device = ranked(gpu, &paths);
    assert_eq!(on_device.len(), paths.len());
    for round in 0..40 {
        let terms = [term(&mut random, &paths, 12)];
        let needles = needles(&terms);
        // How many paths are left to the host depends on the fuel of the device.
        let (scores, ..) = twin_ranks(&needles, &paths, 1, gpu.fuel());
        let mut sorted: Vec<u32> =
            scores.iter().copied().filter(|score| !matches!(*score, 0 | UNDECIDED)).collect();
        sorted.sort_unstable_by_key(|score| std::cmp::Reverse(*score));
        for limit in [0, 1, 2, 10, 100, 10, sorted.len(), usize::MAX] {
            let found = on_device.best(&needles, limit).expect("the device");
            assert_eq!(found.matched, sorted.len(), "{terms:?}");
            let least = match limit {
                0 => UNDECIDED,
                limit => sorted.get(limit - 1).or(sorted.last()).copied().unwrap_or(UNDECIDED),
            };
            let numbered = || scores.iter().copied().zip(0..);
            let mut best: Vec<(u32, u32)> = numbered()
                .filter(|(score, _)| *score >= least && *score != UNDECIDED)
                .map(|(score, number)| (number, score))
                .collect();
            let mut undecided: Vec<u32> =
                numbered().filter(|(score, _)| *score == UNDECIDED).map(|(_, number)| number).collect();
            let mut found = (found.best, found.undecided);
            found.0.sort_unstable();
            found.1.sort_unstable();
            best.sort_unstable();
            undecided.sort_unstable();
            assert_eq!(found, (best, undecided), "round {round}: {terms:?}, {limit}");
        }
    }
    assert_eq!(on_device.failure(), None);
    let none = ranked(gpu, &[]);
    assert!(none.is_empty());
    assert_eq!(none.best(&needles(&[(b"a".to_vec(), true)]), 5), Some(lanefs_gpu::BestPaths::default()));
}

#[test]
fn a_finder_with_a_device_gives_what_it_gives_without_one() {
    let options = CreateOptions { size: 64 << 20, ..CreateOptions::default() };
    let volume = Volume::create_memory(&options).expect("a volume");
    let mut random = Seeded::new(11);
    for number in 0..3000 {
        let mut path = path(&mut random);
        path.retain(|byte| *byte != 0);
        let path = [&b"/"[..], &path, format!("{number}").as_bytes()].concat();
        if path::parent(&path).is_some_and(|dir| volume.mkdir_all(dir, 0o755).is_ok()) {
            let _ = volume.write_file(&path, b"");
        }
    }
    let deep = format!("/{}", "aB_".repeat(80)).repeat(6);
    volume.mkdir_all(&deep, 0o755).expect("deep directories");
    let start = Start { path: b"/".to_vec(), ino: volume.root(), kind: FileKind::Directory };
    let options = GatherOptions { threads: 1, with_starts: true, max_depth: None };
    let (names, _) = Names::gather(&volume, &[start], &options, &|| false);
    let paths: Vec<Vec<u8>> = (0..names.len() as u32).map(|id| names.path(id)).collect();
    assert!(paths.len() > 3000 && paths.iter().any(|path| path.len() > LONGEST));
    let gpu = gpu(64);
    let on_device = Arc::new(DeviceRanks::new(&gpu, &names).expect("paths on the device"));
    let mut typed = Finder::new(&names, 2).with_ranker(on_device.clone());
    let mut found = 0;
    for _ in 0..300 {
        let mut text = String::new();
        while text.is_empty() || random.chance(40) {
            let (letters, _) = term(&mut random, &paths, 14);
            text += *random.pick::<&str>(&["", "", "", "", " ", " '", " !", " ^", " | ", "é"]);
            text += &String::from_utf8(letters).expect("ASCII").replace(['|', '$'], "");
            text += *random.pick::<&str>(&["", "", "", "$", " "]);
        }
        let query = Query::parse(&text);
        let limit = *random.pick(&[1, 10, 100, usize::MAX]);
        let expected = Finder::new(&names, 1).search(&query, limit);
        found += expected.1;
        assert_eq!(typed.search(&query, limit), expected, "{text:?}, at most {limit}");
    }
    assert!(found > 10_000, "{found} matches");
    assert_eq!(on_device.failure(), None);
}

#[test]
fn paths_of_more_than_one_piece_of_memory_are_ranked_together() {
    let gpu = gpu(64);
    let name = |number: u32| format!("/{}/{number:06}", "x-".repeat(380)).into_bytes();
    let count = 50_000;
    let on_device = gpu.ranked_paths(count, &mut |number, path| path.extend(name(number))).expect("paths");
    for number in [0, 31, 32, 40_000, count as u32 - 1] {
        let letters = format!("/{number:06}").into_bytes();
        let found = on_device.best(&needles(&[(letters, true)]), 1).expect("the device");
        assert!(found.best.iter().any(|(found, _)| *found == number) && found.undecided.is_empty());
    }
}

#[test]
fn a_wrong_kernel_does_not_pass_its_probe() {
    let mut passed = Vec::new();
    for (kernel, right, wrong) in [
        ("score", "uint before = CLASS_SLASH;", "uint before = 1u;"),
        ("score", "before = uint(letter >> CLASS_SHIFT);", ""),
        ("score", "(r.starts | seen << 1)", "(r.starts | matched_of(r, letter))"),
        ("score", " & ~closed;", ";"),
        ("score", "seen |= matched;", "seen = matched;"),
        ("score", "was = matched;", "was |= matched;"),
        ("score", "uint(findMSB(left))", "uint(findLSB(left))"),
        ("score", "word = word.yzwx;", "word = word.zwxy;"),
        ("score", "at / 16u * BUNDLE_PATHS + lane", "at / 16u * BUNDLE_PATHS + (lane ^ 1u)"),
        ("score", "length > MAX_RANKED_PATH", "length >= MAX_RANKED_PATH"),
        ("score", "bonus * SCORE_FIRST", "bonus"),
        ("score", "at + GAP_START - 2u", "at + GAP_START - 1u"),
        ("score", "uint goes_on = max(", "uint goes_on = min("),
        ("score", "if (bonus >= BOUNDARY) {", "if (bonus > BOUNDARY) {"),
        ("score", "max(goes_on, bonus);\n        if", "goes_on;\n        if"),
        ("score", "without_gap > here", "without_gap >= here"),
        ("score", "run = goes_on;", "run = bonus;"),
        ("score", "max(old >> CELL_MOST_SHIFT, here + at)", "here + at"),
        ("score", "here = max(here, score_of(old));", ""),
        ("score", "here >= BOUNDARY * SCORE_FIRST", "here > BOUNDARY * SCORE_FIRST"),
        ("score", "sum += score_of", "sum = score_of"),
        ("score", "(seen & ends) != ends", "(seen & ends) == 0u"),
        ("score", "path >= p.count", "path > p.count / 2u"),
        ("tally", "if (score != 0u) {", "if (score > 20u) {"),
        ("tally", "score == SCORE_UNDECIDED ? 0u : ", ""),
        ("tally", "counts[b] = 0u;", "counts[b] = 1u;"),
        ("tally", "k < STRIDE_PATHS", "k < STRIDE_PATHS - 1u"),
        ("tally", "if (counts[b] != 0u)", "if (counts[b] > 1u)"),
        ("tally", "first + k * lanes", "first + k"),
        ("best", ">= least", "> least"),
        ("best", "(is_listed ? 1u : 0u) << k", "(is_listed ? 1u : 0u) << (k & 15u)"),
        ("best", "RankedPath(path,", "RankedPath(path + 1u,"),
        ("best", "if (to < p.room)", "if (to + 1u < p.room)"),
        ("best", "uint(findLSB(listed)) * lanes", "uint(findLSB(listed))"),
        ("best", "path < p.count && ", "path < p.count / 2u && "),
    ] {
        let wrong = wrong.replace("matched_of(r, letter)", "0xffffffffu");
        let code = faulty(kernel, &format!("{kernel}.comp"), right, &wrong);
        let gpu = planted(kernel, &code, Probes::Of(kernel));
        let found = gpu.map(|gpu| gpu.ranked_paths(0, &mut |_, _| {}).map(|_| ()));
        if !matches!(found.flatten(), Err(Error::Wrong { kernel: name, .. }) if name == kernel) {
            passed.push(format!("{kernel}: {wrong} for {right}"));
        }
    }
    assert_eq!(passed, [""; 0], "passes the probe");
}
