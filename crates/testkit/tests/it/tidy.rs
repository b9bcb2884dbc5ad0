//! The form of the code, as far as a machine can keep it: no file and no function grows past the length that
//! a reader takes in at once, a constant's name says its unit ([`units`]), and a name belongs to one type of
//! a crate ([`types`]). Lists have the breaches of today, and only shrink. (`scripts/prose.sh` keeps the
//! prose.)

mod files;
mod types;
mod units;

use files::rust_files;
use std::fmt;

/// Most lines of a file, and of a function from its name to its end.
const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 70;

/// Files that are longer.
const LONG_FILES: &[&str] = &[];

/// Functions that are longer, each with its file.
const LONG_FUNCTIONS: &[(&str, &str)] = &[
    ("crates/format/src/superblock.rs", "decode"),
    ("crates/fs/src/batches/bulk/tests.rs", "rebuild"),
    ("crates/fs/src/check/inodes/mod.rs", "check_fields"),
    ("crates/fs/src/check/inodes/maps.rs", "walk_slot"),
    ("crates/fs/src/check/blocks/space.rs", "check_group"),
    ("crates/fs/src/names/namespace.rs", "rename"),
    ("crates/fs/src/by_path/steps.rs", "make"),
    ("crates/fs/tests/it/acl.rs", "random_calls_have_the_outcome_of_the_host"),
    ("crates/gpu/src/shared/layout.rs", "words"),
    ("crates/gpu/src/twin/kernels/walk.rs", "resolve"),
    ("crates/gpu/tests/it/twin.rs", "a_kernel_with_a_wrong_comparison_does_not_pass_its_probe"),
    ("crates/gpu/tests/it/validation.rs", "work"),
    ("crates/store/src/residency/fetch.rs", "fetch_data"),
    ("crates/testkit/src/bin/alloc_soak.rs", "soak"),
    ("crates/transfer/src/archive/reader.rs", "member"),
];

/// A breach of a rule.
#[derive(Debug, PartialEq, Eq)]
enum Breach {
    File {
        path: String,
        lines: usize,
    },
    Function {
        path: String,
        name: String,
        lines: usize,
    },
    /// An entry of a list that is not a breach any more.
    Mended {
        entry: String,
    },
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Breach::File { path, lines } => {
                write!(f, "{path}: {lines} lines, more than {FILE_LINES}: split it")
            }
            Breach::Function { path, name, lines } => {
                write!(f, "{path}: fn {name} has {lines} lines, more than {FUNCTION_LINES}: split it")
            }
            Breach::Mended { entry } => write!(f, "{entry} is short now: take it from the list in tidy.rs"),
        }
    }
}

/// Returns the name of the function that a line begins, and the line's indentation.
fn function_begun(line: &str) -> Option<(&str, &str)> {
    let text = line.trim_start();
    let indentation = &line[..line.len() - text.len()];
    let mut rest = text;
    if let Some(public) = rest.strip_prefix("pub") {
        rest = public.trim_start_matches(|c| c != ' ').trim_start();
        // `pub(in a::b)` has a blank inside.
        rest = rest.split_once(") ").filter(|_| public.starts_with("(in ")).map_or(rest, |(_, rest)| rest);
    }
    for word in ["default ", "const ", "async ", "unsafe ", "extern \"C\" "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    let name = rest.strip_prefix("fn ")?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    Some((&name[..end], indentation))
}

/// Lists the functions of a file that rustfmt has formatted, with their lines. A body ends with the brace
/// that has the indentation of the function.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        let Some((name, indentation)) = function_begun(line) else { continue };
        if line.ends_with([';', '}']) {
            continue;
        }
        let ends = |line: &&str| {
            let text = line.strip_prefix(indentation).filter(|text| !text.starts_with([' ', '\t']));
            text.filter(|text| *text == "}" || text.ends_with(';')).is_some()
        };
        let Some(more) = lines[first + 1..].iter().position(ends) else { continue };
        // A declaration without a body ends with a semicolon.
        if lines[first + 1 + more].ends_with('}') {
            found.push((name, more + 2));
        }
    }
    found
}

/// Returns the breaches of files, given by path and text, that no list has, and entries of lists without a
/// breach.
fn breaches(files: &[(String, String)], long_files: &[&str], long_functions: &[(&str, &str)]) -> Vec<Breach> {
    let mut found = Vec::new();
    let (mut files_left, mut functions_left) = (long_files.to_vec(), long_functions.to_vec());
    for (path, text) in files {
        let lines = text.lines().count();
        if lines > FILE_LINES {
            match files_left.iter().position(|known| known == path) {
                Some(known) => drop(files_left.remove(known)),
                None => found.push(Breach::File { path: path.clone(), lines }),
            }
        }
        for (name, lines) in functions(text).into_iter().filter(|(_, lines)| *lines > FUNCTION_LINES) {
            match functions_left.iter().position(|known| *known == (path, name)) {
                Some(known) => drop(functions_left.remove(known)),
                None => found.push(Breach::Function { path: path.clone(), name: name.to_owned(), lines }),
            }
        }
    }
    found.extend(files_left.into_iter().map(|path| Breach::Mended { entry: path.to_owned() }));
    found.extend(
        functions_left.into_iter().map(|(path, name)| Breach::Mended { entry: format!("{path}: {name}") }),
    );
    found
}

#[test]
fn files_and_functions_are_short() {
    let files = rust_files();
    let all: usize = files.iter().map(|(_, text)| functions(text).len()).sum();
    assert!(all > 5000, "only {all} functions");
    let found = breaches(&files, LONG_FILES, LONG_FUNCTIONS);
    assert!(found.is_empty(), "\n{}", found.iter().map(|breach| format!("{breach}\n")).collect::<String>());
}

#[test]
fn planted_breaches_are_found() {
    let body = |lines: usize| "    step();\n".repeat(lines);
    let function = |head: &str, lines: usize| format!("{head} {{\n{}}}\n", body(lines - 2));
    let file = |text: String| vec![("a.rs".to_owned(), text)];
    let breach = |name: &str, lines| Breach::Function { path: "a.rs".into(), name: name.into(), lines };

    for head in ["fn long()", "pub(crate) fn long()", "pub(in crate::a) fn long()", "const unsafe fn long()"]
    {
        let files = file(function(head, FUNCTION_LINES) + &function(head, FUNCTION_LINES + 1));
        assert_eq!(breaches(&files, &[], &[]), [breach("long", FUNCTION_LINES + 1)], "{head}");
        assert_eq!(breaches(&files, &[], &[("a.rs", "long")]), []);
    }
    // Declarations have no body, also where they take several lines.
    let declared = "fn short();\nfn wide(\n    a: u8,\n);\n".to_owned() + &function("fn long()", 100);
    assert_eq!(breaches(&file(declared), &[], &[]), [breach("long", 100)]);

    let files = file("\n".repeat(FILE_LINES + 1));
    let found = Breach::File { path: "a.rs".into(), lines: FILE_LINES + 1 };
    assert_eq!(breaches(&files, &[], &[]), [found]);
    assert_eq!(breaches(&files, &["a.rs"], &[]), []);
    let mended = |entry: &str| Breach::Mended { entry: entry.into() };
    let files = file("\n".repeat(FILE_LINES));
    assert_eq!(breaches(&files, &["a.rs"], &[("a.rs", "long")]), [mended("a.rs"), mended("a.rs: long")]);
}
