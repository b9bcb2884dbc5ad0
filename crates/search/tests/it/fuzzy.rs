//! Fuzzy search beside nucleo, asked for each path alone.

use lanefs::{CreateOptions, FileKind, Volume};
use lanefs_search::fuzzy::{
    Finder, GatherOptions, Letters, MAX_QUERY_CHARS, Names, Query, Ranked, Ranker, Start, highlights,
};
use lanefs_testkit::seeded::Seeded;
use nucleo_matcher::{Config, Matcher, Utf32Str};
use std::cmp::Reverse;
use std::sync::Arc;

const WORDS: &[&str] = &[
    "src", "main", "lib", "Cargo", "toml", "test", "fooBar", "x86_64", "README", "a", "b1", "élan", "Übung",
    "naïve", " ", "-", "日本", "mod", "ALL_CAPS", "2024", "xX", "ß", "e", "s", "m",
];

/// A volume with random names of few letters, so that queries match in many ways.
fn volume(random: &mut Seeded, files: usize) -> Volume {
    let volume = Volume::create_memory(&CreateOptions { size: 128 << 20, ..CreateOptions::default() });
    let volume = volume.expect("a volume");
    let mut dirs = vec![String::new()];
    for number in 0..files {
        let dir = random.pick(&dirs).clone();
        let mut name = String::new();
        for _ in 0..random.between(1, 4) {
            name += *random.pick::<&str>(WORDS);
            name += *random.pick::<&str>(&["", "_", ".", ""]);
        }
        let path =
            format!("{dir}/{name}{}", if random.chance(50) { String::new() } else { number.to_string() });
        match random.chance(15) {
            true if volume.mkdir_all(&path, 0o755).is_ok() => dirs.push(path),
            _ => drop(volume.write_file(&path, b"")),
        }
    }
    volume
}

fn gather(volume: &Volume, threads: usize) -> Names {
    let start = Start { path: b"/".to_vec(), ino: volume.root(), kind: FileKind::Directory };
    let options = GatherOptions { threads, with_starts: false, max_depth: None };
    let (names, unread) = Names::gather(volume, &[start], &options, &|| false);
    assert!(unread.is_empty(), "{unread:?}");
    names
}

fn paths(names: &Names) -> Vec<String> {
    (0..names.len() as u32).map(|id| String::from_utf8(names.path(id)).expect("text")).collect()
}

/// A query of fuzzy terms: parts of paths, with letters left out, and with other case.
fn query(random: &mut Seeded, paths: &[String]) -> String {
    let mut query = String::new();
    for _ in 0..random.between(1, 2) {
        let path: Vec<char> = random.pick(paths).chars().collect();
        let keep = *random.pick(&[10, 30, 60, 95]);
        let mut term: String =
            path.iter().filter(|c| random.chance(keep) && !"!^'$| \\".contains(**c)).collect();
        if random.chance(60) {
            term = term.to_lowercase();
        }
        if !query.is_empty() && !term.is_empty() {
            query.push(' ');
        }
        query += &term;
    }
    query
}

/// The sum of nucleo's scores for the terms, and the characters that match.
fn nucleo(matcher: &mut Matcher, query: &str, path: &str) -> Option<(u32, Vec<u32>)> {
    let (mut score, mut indexes) = (0, Vec::new());
    for term in query.split_whitespace() {
        let needle: Vec<char> = term.chars().collect();
        let haystack: Vec<char> = path.chars().collect();
        matcher.config.ignore_case = !needle.iter().any(|c| nucleo_matcher::chars::is_upper_case(*c));
        matcher.config.normalize = needle.iter().all(|c| nucleo_matcher::chars::normalize(*c) == *c);
        let needle =
            if term.is_ascii() { Utf32Str::Ascii(term.as_bytes()) } else { Utf32Str::Unicode(&needle) };
        let haystack = match path.is_ascii() {
            true => Utf32Str::Ascii(path.as_bytes()),
            false => Utf32Str::Unicode(&haystack),
        };
        score += u32::from(matcher.fuzzy_indices(haystack, needle, &mut indexes)?);
    }
    indexes.sort_unstable();
    indexes.dedup();
    Some((score, indexes))
}

#[test]
fn matches_scores_and_order_are_those_of_nucleo_asked_for_each_path() {
    let mut random = Seeded::new(1);
    let volume = volume(&mut random, 1500);
    let names = gather(&volume, 2);
    let paths = paths(&names);
    assert!(paths.len() > 1000);
    let mut matcher = Matcher::new(Config::DEFAULT.match_paths());
    let mut hits = 0;
    for number in 0..150 {
        let query = query(&mut random, &paths);
        let mut expected = Vec::new();
        for (id, path) in paths.iter().enumerate() {
            if let Some((score, indexes)) = nucleo(&mut matcher, &query, path) {
                expected.push((Reverse(score), path.len(), id as u32));
                if id % 50 == 0 {
                    assert_eq!(
                        highlights(&Query::parse(&query), path.as_bytes()),
                        indexes,
                        "{query:?}: {path:?}"
                    );
                }
            }
        }
        if query.is_empty() {
            continue;
        }
        expected.sort_unstable();
        hits += expected.len();
        let limit = *random.pick(&[1, 10, 100, usize::MAX]);
        let mut finder = Finder::new(&names, 1 + number % 3);
        let (best, count) = finder.search(&Query::parse(&query), limit);
        assert_eq!(count, expected.len(), "{query:?}");
        assert_eq!(best.len(), count.min(limit));
        for (found, (Reverse(score), _, id)) in best.iter().zip(&expected) {
            let path = &paths[*id as usize];
            assert_eq!((found.score, &paths[found.id as usize]), (*score, path), "{query:?}");
        }
    }
    assert!(hits > 4_000, "{hits}");
}

#[test]
fn a_query_typed_key_by_key_has_the_answers_of_a_new_search() {
    let mut random = Seeded::new(2);
    let volume = volume(&mut random, 1500);
    let names = gather(&volume, 2);
    let paths = paths(&names);
    for _ in 0..25 {
        let mut typed = Finder::new(&names, 2);
        let mut text = query(&mut random, &paths);
        for operator in ["'", "^", "!", "$", " | ", " "] {
            if random.chance(30) {
                let at = random.below(text.chars().count() as u64 + 1) as usize;
                let at = text.char_indices().nth(at).map_or(text.len(), |(at, _)| at);
                text.insert_str(at, operator);
            }
        }
        let mut keys: Vec<char> = text.chars().collect();
        let mut now = String::new();
        keys.reverse();
        while let Some(key) = keys.pop() {
            now.push(key);
            if random.chance(20) {
                keys.extend(now.pop());
                now.pop();
            }
            let query = Query::parse(&now);
            let fresh = Finder::new(&names, 1).search(&query, 50);
            assert_eq!(typed.search(&query, 50), fresh, "{now:?} of {text:?}");
        }
    }
}

#[test]
fn terms_of_every_kind_may_grow_and_shrink() {
    let mut random = Seeded::new(3);
    let names = gather(&volume(&mut random, 600), 1);
    for texts in [
        &["!s", "!sr", "!src", "!sr", "!src !m", "!src !ma"][..],
        &["ma", "ma$", "ma$x", "ma$", "mai"],
        &["'ma", "'mai", "'mai$", "mai"],
        &["^/s", "^/sr", "^/src", "/src"],
        &["a", "a |", "a | m", "a | ma", "a | mai s", "a"],
        &["R", "Re", "RE", "rE", "re", "REa"],
        &["e", "é", "él", "el"],
        &["!'ma", "!'mai", "!'ma"],
    ] {
        let mut typed = Finder::new(&names, 1);
        for text in texts {
            let query = Query::parse(text);
            let fresh = Finder::new(&names, 1).search(&query, 20);
            assert_eq!(typed.search(&query, 20), fresh, "{text:?} of {texts:?}");
        }
    }
}

#[test]
fn a_single_letter_has_the_score_of_nucleo() {
    let mut random = Seeded::new(4);
    let names = gather(&volume(&mut random, 600), 1);
    let paths = paths(&names);
    let mut matcher = Matcher::new(Config::DEFAULT.match_paths());
    for letter in "abcdefghijklmnopqrstuvwxyzACLRSX0123456789/._-".chars() {
        let letter = letter.to_string();
        let (best, _) = Finder::new(&names, 1).search(&Query::parse(&letter), usize::MAX);
        let scored = paths.iter().filter(|path| nucleo(&mut matcher, &letter, path).is_some()).count();
        assert_eq!(best.len(), scored, "{letter}");
        for found in best {
            let path = &paths[found.id as usize];
            let expected = nucleo(&mut matcher, &letter, path).map(|(score, _)| score);
            assert_eq!(Some(found.score), expected, "{letter}: {path}");
        }
    }
}

#[test]
fn operators_choose_as_in_fzf() {
    let volume = Volume::create_memory(&CreateOptions { size: 64 << 20, ..CreateOptions::default() });
    let volume = volume.expect("a volume");
    for path in ["/foo.rs", "/Foo.txt", "/src/foobar", "/src/fxoxo", "/src/café", "/with space"] {
        volume.mkdir_all("/src", 0o755).expect("mkdir");
        volume.write_file(path, b"").expect("write");
    }
    let names = gather(&volume, 1);
    let find = |query: &str| {
        let (best, _) = Finder::new(&names, 1).search(&Query::parse(query), 100);
        let mut found: Vec<_> =
            best.iter().map(|found| String::from_utf8(names.path(found.id)).unwrap()).collect();
        found.sort_unstable();
        found.join(",")
    };
    for (query, found) in [
        ("foo", "/Foo.txt,/foo.rs,/src/foobar,/src/fxoxo"),
        ("Foo", "/Foo.txt"),
        ("'foo", "/Foo.txt,/foo.rs,/src/foobar"),
        ("^/foo", "/Foo.txt,/foo.rs"),
        ("^/Foo", "/Foo.txt"),
        (".rs$ | .txt$", "/Foo.txt,/foo.rs"),
        ("!foo /src", "/src,/src/café,/src/fxoxo"),
        ("!foo !src", "/with space"),
        ("cafe", "/src/café"),
        ("café", "/src/café"),
        ("^/src$", "/src"),
        (r"h\ s", "/with space"),
        ("!'foo !s", ""),
        ("xyz", ""),
        ("   ", "/Foo.txt,/foo.rs,/src,/src/café,/src/foobar,/src/fxoxo,/with space"),
    ] {
        assert_eq!(find(query), found, "{query:?}");
    }
    let long = "a".repeat(3 * MAX_QUERY_CHARS);
    assert_eq!(find(&long), "");
}

#[test]
fn long_paths_and_long_queries_have_scores_of_nucleo_too() {
    let volume = Volume::create_memory(&CreateOptions { size: 64 << 20, ..CreateOptions::default() });
    let volume = volume.expect("a volume");
    let deep: String = (0..40).map(|number| format!("/{}{number}", "abc_".repeat(15 + number))).collect();
    volume.mkdir_all(&deep, 0o755).expect("mkdir");
    let names = gather(&volume, 1);
    let mut matcher = Matcher::new(Config::DEFAULT.match_paths());
    for query in ["a".repeat(61), "ab".repeat(31), "abc".repeat(21), "c39".into(), "abc_".repeat(40)] {
        let (best, count) = Finder::new(&names, 1).search(&Query::parse(&query), usize::MAX);
        let mut matches = 0;
        for path in paths(&names) {
            let expected = nucleo(&mut matcher, &query, &path).map(|(score, _)| score);
            let found = best.iter().find(|found| names.path(found.id) == path.as_bytes());
            assert_eq!(found.map(|found| found.score), expected, "{query}: {} bytes", path.len());
            matches += usize::from(expected.is_some());
        }
        assert_eq!(count, matches);
    }
}

/// A ranker that asks nucleo, and leaves some paths undecided.
struct ByNucleo {
    paths: Vec<String>,
    has_failed: bool,
}

impl Ranker for ByNucleo {
    fn most_letters(&self) -> usize {
        20
    }

    fn rank(&self, terms: &[Letters<'_>], limit: usize) -> Option<Ranked> {
        assert!(!terms.is_empty());
        assert!(terms.iter().map(|term| term.bytes.len()).sum::<usize>() <= self.most_letters());
        let mut matcher = Matcher::new(Config::DEFAULT.match_paths());
        let (mut scores, mut undecided) = (Vec::new(), Vec::new());
        for (id, path) in self.paths.iter().enumerate() {
            if id % 7 == 3 || !path.is_ascii() {
                undecided.push(id as u32);
                continue;
            }
            let each = terms.iter().map(|term| {
                matcher.config.ignore_case = term.ignores_case;
                let needle = Utf32Str::Ascii(term.bytes);
                matcher.fuzzy_match(Utf32Str::Ascii(path.as_bytes()), needle).map(u32::from)
            });
            scores.extend(each.sum::<Option<u32>>().map(|score| (id as u32, score)));
        }
        let mut sorted: Vec<u32> = scores.iter().map(|(_, score)| *score).collect();
        sorted.sort_unstable_by_key(|score| Reverse(*score));
        let least = if limit == 0 { u32::MAX } else { sorted.get(limit - 1).copied().unwrap_or(0) };
        let count = scores.len();
        scores.retain(|(_, score)| *score >= least);
        scores.reverse();
        (!self.has_failed).then_some(Ranked { count, best: scores, undecided })
    }
}

#[test]
fn another_engine_that_scores_the_names_changes_nothing() {
    let mut random = Seeded::new(5);
    let volume = volume(&mut random, 1500);
    let names = gather(&volume, 2);
    let [working, failed] =
        [false, true].map(|has_failed| Arc::new(ByNucleo { paths: paths(&names), has_failed }));
    let texts = paths(&names);
    let mut with_others = 0;
    for number in 0..150 {
        let mut text = query(&mut random, &texts);
        for more in [" !'x", " 'src", " .rs$ | main", " ^/", " é", " |", " Src"] {
            if random.chance(15) {
                text += more;
                with_others += 1;
            }
        }
        let query = Query::parse(&text);
        let limit = *random.pick(&[0, 1, 10, 100, usize::MAX]);
        let expected = Finder::new(&names, 1).search(&query, limit);
        let threads = 1 + number % 3;
        for ranker in [&working, &failed] {
            let mut finder = Finder::new(&names, threads).with_ranker(ranker.clone());
            assert_eq!(finder.search(&query, limit), expected, "{text:?}, at most {limit}");
        }
    }
    assert!(with_others > 50, "{with_others}");
}

#[test]
fn a_search_that_is_stopped_has_no_result_and_leaves_no_trace() {
    let mut random = Seeded::new(6);
    let names = gather(&volume(&mut random, 1500), 2);
    let mut finder = Finder::new(&names, 2);
    for text in ["s", "sr", "src"] {
        let query = Query::parse(text);
        assert_eq!(finder.search_until(&query, 10, &|| true), None);
        let found = finder.search_until(&query, 10, &|| false);
        assert_eq!(found, Some(Finder::new(&names, 1).search(&query, 10)), "{text}");
        assert!(found.is_some_and(|(_, count)| count > 0));
    }
}
