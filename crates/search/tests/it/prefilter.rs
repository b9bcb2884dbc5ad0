//! Another engine before the exact one: which texts it gets, and what its answers change.

use lanefs::{CreateOptions, Ino, Volume};
use lanefs_search::{Candidate, Form, Found, Grep, OutputOptions, Prefilter, QueryOptions, Text};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Finds nothing, or a word, and keeps the texts that it got.
#[derive(Default)]
struct Other {
    finds: Option<&'static [u8]>,
    got: Mutex<Vec<(Option<Ino>, Vec<u8>)>>,
    /// Answers from earlier searches.
    known: HashMap<Ino, bool>,
}

impl Other {
    fn new(finds: Option<&'static [u8]>) -> Arc<Self> {
        Arc::new(Other { finds, ..Other::default() })
    }

    /// Removes and returns the texts.
    fn got(&self) -> Vec<(Option<Ino>, Vec<u8>)> {
        std::mem::take(&mut self.got.lock().expect("no panic"))
    }
}

impl Prefilter for Other {
    fn may_match(&self, texts: &[Text<'_>]) -> Vec<bool> {
        let got = texts.iter().map(|text| (text.file, text.bytes.to_vec()));
        self.got.lock().expect("no panic").extend(got);
        let has = |word: &[u8], text: &Text<'_>| text.bytes.windows(word.len()).any(|part| part == word);
        texts.iter().map(|text| self.finds.is_some_and(|word| has(word, text))).collect()
    }

    fn known(&self, files: &[Ino]) -> Vec<Option<bool>> {
        files.iter().map(|file| self.known.get(file).copied()).collect()
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

fn search(volume: &Volume, query: QueryOptions, form: Form, other: Option<&Arc<Other>>) -> (Found, String) {
    let output = OutputOptions { form, paths: true, nul: false, colors: false };
    let mut grep = Grep::new(query, output, 2).expect("a query");
    if let Some(other) = other {
        grep = grep.with_prefilter(other.clone());
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
    let got = other.got();
    // Whole files may be kept, but not those that the exact engine converts.
    let ino = |path| volume.resolve(path).expect("a file").ino;
    // Two threads ask, in any order.
    let mut whole: Vec<Ino> = got.iter().filter_map(|(file, _)| *file).collect();
    whole.sort_unstable();
    assert_eq!(whole, ["/a", "/b", "/f"].map(ino));
    let got: Vec<Vec<u8>> = got.into_iter().map(|(_, text)| text).collect();
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
        assert!(other.got().is_empty());
    }
}

#[test]
fn what_the_other_engine_knows_is_not_asked_again_and_not_read_without_need() {
    let volume = volume();
    let ino = |path| volume.resolve(path).expect("a file").ino;
    // It is wrong about the first, which nobody would see who does not read the file.
    let known = HashMap::from([(ino("/a"), false), (ino("/b"), true), (ino("/f"), false)]);
    let other = Arc::new(Other { finds: Some(b"the word"), known, ..Other::default() });
    let found = search(&volume, word(), Form::Files, Some(&other));
    assert_eq!((found.0.files, &found.1[..]), (6, "/c\n/d\n"));
    let small = other.got().into_iter().filter(|(_, text)| text.len() < 100);
    assert_eq!(small.count(), 1, "only of one small file it has to look at the text");
}
