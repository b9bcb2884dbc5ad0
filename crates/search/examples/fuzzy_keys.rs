//! Times of fuzzy searches, key by key.
//!
//! `cargo run --release -p lanefs-search --example fuzzy_keys [PATHS [THREADS [nucleo|alone [QUERY...]]]]`
//! makes a volume in memory with so many files, gathers its names, and types some queries. A line is a
//! query, its matches, and the milliseconds of its last key; with `nucleo` also those of nucleo-matcher, on
//! one thread, for a list of the same paths in memory.

use lanefs::bulk::Change;
use lanefs::{CreateOptions, FileKind, Volume};
use lanefs_search::fuzzy::{Finder, GatherOptions, Names, Query, Start};
use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use std::time::Instant;

const WORDS: &[&str] = &[
    "src", "kernel", "drivers", "net", "include", "arch", "x86", "sound", "block", "crypto", "tools", "test",
    "module", "config", "main", "device", "manager", "buffer", "queue", "Reader", "Writer", "index", "page",
    "table", "cache", "inode", "socket", "filter", "timer", "signal", "memory", "string", "format", "parser",
];
const QUERIES: &[&str] = &["srcmain", "kernel/dev", "netbufrs", "x86 .c$", "'socket !test", "zzz"];
const ENDS: &[&str] = &[".c", ".h", ".rs", ".txt", ".toml", ".o", "", ".md"];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default| args.get(index).and_then(|arg| arg.parse().ok()).unwrap_or(default);
    let (files, threads) = (number(0, 1_000_000usize), number(1, 2usize));
    let size = (files as u64 * 1024).max(256 << 20);
    let volume =
        Volume::create_memory(&CreateOptions { size, ..CreateOptions::default() }).expect("a volume");
    fill(&volume, files);

    let begin = Instant::now();
    let start = Start { path: b"/".to_vec(), ino: volume.root(), kind: FileKind::Directory };
    let options = GatherOptions { threads, with_starts: false, max_depth: None };
    let (names, _) = Names::gather(&volume, &[start], &options, &|| false);
    println!("{} names gathered in {:.1} ms", names.len(), begin.elapsed().as_secs_f64() * 1e3);

    let list: Vec<Vec<u8>> = match args.get(2).is_some_and(|arg| arg == "nucleo") {
        true => (0..names.len() as u32).map(|id| names.path(id)).collect(),
        false => Vec::new(),
    };
    let given: Vec<&str> = args.iter().skip(3).map(String::as_str).collect();
    let queries = if given.is_empty() { QUERIES } else { &given };
    for text in queries {
        let mut finder = Finder::new(&names, threads);
        for (at, key) in text.char_indices() {
            let typed = &text[..at + key.len_utf8()];
            let begin = Instant::now();
            let (_, count) = finder.search(&Query::parse(typed), 100);
            let own = begin.elapsed().as_secs_f64() * 1e3;
            match list.is_empty() {
                true => println!("{typed:16} {count:>9} matches {own:8.2} ms"),
                false => println!(
                    "{typed:16} {count:>9} matches {own:8.2} ms, nucleo {:8.2} ms",
                    nucleo(&list, typed)
                ),
            }
        }
    }
}

fn nucleo(list: &[Vec<u8>], query: &str) -> f64 {
    let begin = Instant::now();
    let pattern = Pattern::parse(query, CaseMatching::Smart, Normalization::Smart);
    let mut matcher = Matcher::new(Config::DEFAULT.match_paths());
    let scores = list.iter().filter_map(|path| pattern.score(Utf32Str::Ascii(path), &mut matcher));
    std::hint::black_box(scores.max());
    begin.elapsed().as_secs_f64() * 1e3
}

/// Makes files with a hundred in a directory, about five levels deep.
fn fill(volume: &Volume, files: usize) {
    let mut state = 1u64;
    let mut below = |end: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as usize) % end
    };
    let mut paths = Vec::with_capacity(files);
    let mut dir = String::new();
    for number in 0..files {
        if number % 100 == 0 {
            dir = (0..3 + below(3)).map(|_| format!("/{}", WORDS[below(WORDS.len())])).collect();
            dir += &format!("/{}{}", WORDS[below(WORDS.len())], number / 100);
            volume.mkdir_all(&dir, 0o755).expect("mkdir");
        }
        let [first, second] = [below(WORDS.len()), below(WORDS.len())];
        paths.push(format!(
            "{dir}/{}_{}{}{}",
            WORDS[first],
            WORDS[second],
            number % 100,
            ENDS[below(ENDS.len())]
        ));
    }
    for part in paths.chunks(20_000) {
        let changes: Vec<Change<'_>> = part
            .iter()
            .map(|path| Change::Create { path: path.as_bytes(), perm: 0o644, data: b"" })
            .collect();
        volume.apply(volume.root(), &changes).expect("files");
    }
}
