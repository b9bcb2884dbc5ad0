//! Another engine before the exact one: which texts it gets, and what its answers change.

use lanefs::{CreateOptions, Volume};
use lanefs_search::{Candidate, Form, Found, Grep, OutputOptions, Prefilter, QueryOptions};
use std::sync::Mutex;

/// Finds nothing, or a word, and keeps the texts that it got.
struct Other {
    finds: Option<&'static [u8]>,
    got: Mutex<Vec<Vec<u8>>>,
}

impl Other {
    fn new(finds: Option<&'static [u8]>) -> Self {
        Other { finds, got: Mutex::default() }
    }
}

impl Prefilter for Other {
    fn may_match(&self, texts: &[&[u8]]) -> Vec<bool> {
        self.got.lock().expect("no panic").extend(texts.iter().map(|text| text.to_vec()));
        let has =
            |text: &&[u8]| self.finds.is_some_and(|word| text.windows(word.len()).any(|part| part == word));
        texts.iter().map(has).collect()
    }
}

/// Bytes of a piece of a large file.
const PIECE: usize = 4 << 20;

fn volume() -> Volume {
    let volume = Volume::create_memory(&CreateOptions { size: 256 << 20, ..CreateOptions::default() });
    let volume = volume.expect("a volume");
    let mut large = b"a line\n".repeat(PIECE / 7 * 2 + 100);
    large.extend_from_slice(b"the word");
    let write = |path: &str, content: &[u8]| {
        volume.write_file(path, content).expect("written");
    };
    write("/a", b"no\nthe word\n");
    write("/b", b"nothing\n");
    write(
        "/c",
        &"the word".encode_utf16().fold(vec![0xff, 0xfe], |mut all, one| {
            all.extend(one.to_le_bytes());
            all
        }),
    );
    write("/d", &large);
    write("/e", &vec![b'x'; PIECE + 1]);
    write("/f", b"");
    volume
}

fn search(volume: &Volume, query: QueryOptions, form: Form, other: Option<&Other>) -> (Found, String) {
    let output = OutputOptions { form, paths: true, nul: false, colors: false };
    let mut grep = Grep::new(query, output, 2).expect("a query");
    if let Some(other) = other {
        grep = grep.with_prefilter(other);
    }
    let mut names = ["/a", "/b", "/c", "/d", "/e", "/f"].into_iter();
    let next = || {
        let path = names.next()?;
        let attr = volume.resolve(path).expect("a file");
        Some(Candidate { path: path.into(), shown: None, ino: attr.ino, size: attr.size, is_named: false })
    };
    let mut out = Vec::new();
    let found = grep.search(volume, next, &mut out, &mut |_, error| panic!("{error}"), &|| false);
    (found.expect("searched"), String::from_utf8(out).expect("text"))
}

fn word() -> QueryOptions {
    QueryOptions { patterns: vec!["the word".into()], ..QueryOptions::default() }
}

#[test]
fn the_exact_engine_searches_where_the_other_says_so() {
    let volume = volume();
    let all = search(&volume, word(), Form::Files, None);
    assert_eq!((all.0.files, &all.1[..]), (6, "/a\n/c\n/d\n"));
    let other = Other::new(Some(b"the word"));
    assert_eq!(search(&volume, word(), Form::Files, Some(&other)), all);
    let got = other.got.into_inner().expect("no panic");
    // A large file comes in pieces of whole lines; one without a line feed is left to the exact engine.
    let pieces: Vec<&Vec<u8>> = got.iter().filter(|text| text.len() > 100).collect();
    assert_eq!(pieces.len(), 3, "{:?}", got.iter().map(Vec::len).collect::<Vec<_>>());
    assert!(pieces.iter().all(|piece| piece.starts_with(b"a line\n")) && pieces[0].ends_with(b"line\n"));
    assert_eq!(pieces.iter().map(|piece| piece.len()).sum::<usize>(), PIECE / 7 * 14 + 708);
}

#[test]
fn an_engine_that_misses_lines_is_seen_but_not_where_it_may_not_decide() {
    let volume = volume();
    let blind = || Other::new(None);
    // Only what is UTF-16, and what is left to the exact engine.
    let found = search(&volume, word(), Form::Files, Some(&blind()));
    assert_eq!((found.0.files, &found.1[..]), (6, "/c\n"));
    let inverted = QueryOptions { inverts: true, ..word() };
    for (query, form) in [(word(), Form::FilesWithout), (inverted, Form::Count)] {
        let other = blind();
        assert_eq!(
            search(&volume, query.clone(), form.clone(), Some(&other)),
            search(&volume, query, form, None)
        );
        assert!(other.got.into_inner().expect("no panic").is_empty());
    }
}
