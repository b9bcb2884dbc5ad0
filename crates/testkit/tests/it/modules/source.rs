//! Modules, imports and paths of one source file, read from its tokens.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeSet;

/// A path in a source file, and the line on which its last segment stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathUse {
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
}

/// One leaf of a `use` tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) path: PathUse,
    /// Name that it binds; `None`: all names of the module (`*`).
    pub(crate) bound: Option<String>,
}

/// Contents of one module, the code of its tests excepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Source {
    /// Modules declared by `mod name;`, each with the file of its `#[path]` attribute.
    pub(crate) declared: Vec<(String, Option<String>)>,
    /// Modules written inside this one.
    pub(crate) inline: Vec<(String, Source)>,
    /// Imports of the module itself, which name things for its submodules as well.
    pub(crate) imports: Vec<Import>,
    /// Imports in functions, and paths that begin with `crate`, `self` or `super`.
    pub(crate) paths: Vec<PathUse>,
    /// Names of the items that the module defines.
    pub(crate) items: BTreeSet<String>,
    /// Macros that the module defines by `macro_rules!`.
    pub(crate) macros: BTreeSet<String>,
    /// Macros called by their name alone.
    pub(crate) calls: Vec<PathUse>,
}

impl Source {
    /// Reads a file.
    ///
    /// # Errors
    /// Text that is not Rust.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let tokens: TokenStream = text.parse().map_err(|error| format!("{error}"))?;
        let mut source = Source::default();
        source.scan(tokens, true);
        Ok(source)
    }

    /// Reads tokens; `is_item_level`: they are items of the module, and not the inside of one.
    fn scan(&mut self, tokens: TokenStream, is_item_level: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let (mut at, mut file) = (0, None);
        while let Some(token) = tokens.get(at) {
            at += match token {
                TokenTree::Punct(punct) if punct.as_char() == '#' => match attribute(&tokens[at..]) {
                    Some(Attribute::Test { inner: true }) => return,
                    Some(Attribute::Test { inner: false }) => item_length(&tokens[at..]),
                    Some(Attribute::File(name)) => {
                        file = Some(name);
                        2
                    }
                    Some(Attribute::Other { length }) => length,
                    None => 1,
                },
                TokenTree::Ident(ident) => {
                    let name = ident.to_string();
                    self.word(&name, &tokens[at..], is_item_level, &mut file)
                }
                TokenTree::Group(group) => {
                    self.scan(group.stream(), false);
                    1
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => 1,
            };
        }
    }

    /// Reads what begins with a word; returns the number of tokens read.
    fn word(
        &mut self,
        word: &str,
        tokens: &[TokenTree],
        is_item_level: bool,
        file: &mut Option<String>,
    ) -> usize {
        match word {
            "mod" => match (ident(tokens, 1), tokens.get(2)) {
                (Some(name), Some(TokenTree::Group(group))) => {
                    let mut inside = Source::default();
                    inside.scan(group.stream(), true);
                    self.inline.push((name, inside));
                    3
                }
                (Some(name), _) => {
                    self.declared.push((name, file.take()));
                    2
                }
                _ => 1,
            },
            // The bounds of an opaque type begin with `use<`.
            "use" if !is_punct(tokens, 1, '<') => {
                let length = tokens.iter().position(|token| is_char(token, ';')).unwrap_or(tokens.len());
                let imports = imports(&tokens[1..length]);
                match is_item_level {
                    true => self.imports.extend(imports),
                    false => self.paths.extend(imports.into_iter().map(|import| import.path)),
                }
                length
            }
            // A visibility names a module without using it.
            "pub" if matches!(tokens.get(1), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis) => {
                2
            }
            "macro_rules" => {
                self.macros.extend(ident(tokens, 2));
                3
            }
            "crate" | "self" | "super" if is_separator(tokens, 1) => {
                let path = path(tokens);
                let length = 3 * path.segments.len() - 2;
                self.paths.push(path);
                length
            }
            "fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static" => {
                if is_item_level {
                    self.items.extend(ident(tokens, 1));
                }
                1
            }
            _ if is_punct(tokens, 1, '!') => match tokens.get(2) {
                Some(TokenTree::Group(group)) => {
                    self.calls.push(PathUse { segments: vec![word.into()], line: line(&tokens[0]) });
                    // A macro called among items may define some.
                    self.scan(group.stream(), is_item_level);
                    3
                }
                _ => 1,
            },
            _ => 1,
        }
    }
}

enum Attribute {
    /// `#[cfg(test)]`, alone or among other conditions that all must hold.
    Test {
        /// `#![cfg(test)]`: of the whole file.
        inner: bool,
    },
    /// `#[path = "..."]`
    File(String),
    Other {
        length: usize,
    },
}

fn attribute(tokens: &[TokenTree]) -> Option<Attribute> {
    let inner = is_punct(tokens, 1, '!');
    let length = if inner { 3 } else { 2 };
    let TokenTree::Group(group) = tokens.get(length - 1)? else { return None };
    let inside: Vec<TokenTree> = group.stream().into_iter().collect();
    Some(match (ident(&inside, 0).as_deref(), inside.get(1), inside.get(2)) {
        (Some("cfg"), Some(TokenTree::Group(condition)), _) if needs_test(condition.stream()) => {
            Attribute::Test { inner }
        }
        (Some("path"), _, Some(TokenTree::Literal(name))) => {
            Attribute::File(name.to_string().trim_matches('"').into())
        }
        _ => Attribute::Other { length },
    })
}

/// Whether a condition holds in tests only: `test`, or `all(..)` with it.
fn needs_test(condition: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = condition.into_iter().collect();
    (0..tokens.len()).any(|at| match (ident(&tokens, at).as_deref(), tokens.get(at + 1)) {
        (Some("test"), _) => true,
        (Some("all"), Some(TokenTree::Group(all))) => needs_test(all.stream()),
        _ => false,
    })
}

/// Number of tokens of an item with its attributes, or of a field, variant or statement.
fn item_length(tokens: &[TokenTree]) -> usize {
    const ITEMS: [&str; 14] = [
        "fn", "mod", "struct", "enum", "union", "impl", "trait", "const", "static", "use", "type", "unsafe",
        "async", "extern",
    ];
    let mut at = 0;
    while is_punct(tokens, at, '#') {
        at += 2;
    }
    if ident(tokens, at).as_deref() == Some("pub") {
        at += 1 + usize::from(matches!(tokens.get(at + 1), Some(TokenTree::Group(_))));
    }
    let word = ident(tokens, at);
    let is_item = word.as_deref().is_some_and(|word| ITEMS.contains(&word));
    let is_use = word.as_deref() == Some("use");
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace && !is_use,
        TokenTree::Punct(punct) => punct.as_char() == ';' || (punct.as_char() == ',' && !is_item),
        _ => false,
    };
    tokens[at..].iter().position(ends).map_or(tokens.len(), |end| at + end + 1)
}

/// The leaves of a `use` tree.
fn imports(tokens: &[TokenTree]) -> Vec<Import> {
    let mut all = Vec::new();
    leaves(&[], tokens, &mut all);
    all
}

fn leaves(prefix: &[String], tokens: &[TokenTree], all: &mut Vec<Import>) {
    for tree in tokens.split(|token| is_char(token, ',')).filter(|tree| !tree.is_empty()) {
        // `::name` is an external crate.
        let start = if is_separator(tree, 0) { 2 } else { 0 };
        let path = path(&tree[start..]);
        let mut segments = prefix.to_vec();
        if start == 2 {
            segments.push("::".into());
        }
        segments.extend(path.segments.iter().cloned());
        let read =
            (start + 3 * path.segments.len()).saturating_sub(if path.segments.is_empty() { 0 } else { 2 });
        // Behind the path stand nothing, `as name`, or `::` with a group or a star.
        let rest = if is_separator(tree, read) { &tree[read + 2..] } else { &tree[read..] };
        match rest.first() {
            Some(TokenTree::Group(group)) => {
                leaves(&segments, &group.stream().into_iter().collect::<Vec<_>>(), all);
            }
            Some(TokenTree::Punct(punct)) if punct.as_char() == '*' => {
                let path = PathUse { segments, line: line(&rest[0]) };
                all.push(Import { path, bound: None });
            }
            _ => {
                if segments.len() > 1 && segments.last().is_some_and(|last| last == "self") {
                    segments.pop();
                }
                let bound = if rest.is_empty() { segments.last().cloned() } else { ident(rest, 1) };
                all.push(Import { path: PathUse { segments, line: path.line }, bound });
            }
        }
    }
}

/// The path at the beginning of the tokens: words with `::` between.
fn path(tokens: &[TokenTree]) -> PathUse {
    let mut path = PathUse { segments: Vec::new(), line: tokens.first().map_or(0, line) };
    let mut at = 0;
    while let Some(segment) = ident(tokens, at) {
        path.segments.push(segment);
        path.line = line(&tokens[at]);
        if !is_separator(tokens, at + 1) {
            break;
        }
        at += 3;
    }
    path
}

fn ident(tokens: &[TokenTree], at: usize) -> Option<String> {
    match tokens.get(at) {
        Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
        _ => None,
    }
}

fn is_char(token: &TokenTree, char: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == char)
}

fn is_punct(tokens: &[TokenTree], at: usize, char: char) -> bool {
    tokens.get(at).is_some_and(|token| is_char(token, char))
}

fn is_separator(tokens: &[TokenTree], at: usize) -> bool {
    is_punct(tokens, at, ':') && is_punct(tokens, at + 1, ':')
}

fn line(token: &TokenTree) -> usize {
    token.span().start().line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Source {
        Source::parse(text).expect("the text is Rust")
    }

    fn paths(paths: &[PathUse]) -> Vec<String> {
        paths.iter().map(|path| format!("{}:{}", path.segments.join("::"), path.line)).collect()
    }

    #[test]
    fn each_leaf_of_a_use_tree_is_an_import_with_its_line() {
        let text = "use crate::a::{self, b::{C, D as E},\n f::*};\npub(crate) use super::g;\nuse ::h::I;\nuse self::j as _;";
        let imports: Vec<String> = parse(text)
            .imports
            .iter()
            .map(|import| {
                let bound = import.bound.as_deref().unwrap_or("*");
                format!("{} {bound} {}", import.path.segments.join("::"), import.path.line)
            })
            .collect();
        let expected = [
            "crate::a a 1",
            "crate::a::b::C C 1",
            "crate::a::b::D E 1",
            "crate::a::f * 2",
            "super::g g 3",
            "::::h::I I 4",
            "self::j _ 5",
        ];
        assert_eq!(imports, expected);
    }

    #[test]
    fn paths_and_imports_in_functions_are_found_and_those_in_comments_and_strings_are_not() {
        let text = "
            //! crate::no
            /// crate::no
            pub(in crate::no) fn f(&self) -> crate::a::B { // crate::no
                use super::c::{D, e};
                let g = \"crate::no\"; /* crate::no */ let h = r#\"crate::no\"#;
                self.i(super::super::j::<u8>(), 'c', '\\'', |k: &crate::L| m!(self::n))
            }";
        let source = parse(text);
        let expected = ["crate::a::B:4", "super::c::D:5", "super::c::e:5", "super::super::j:7"];
        let more = ["crate::L:7", "self::n:7"];
        assert_eq!(paths(&source.paths), [&expected[..], &more].concat());
        assert_eq!(paths(&source.calls), ["m:7"]);
        assert!(source.items.contains("f"));
    }

    #[test]
    fn code_of_tests_does_not_count() {
        let text = "
            #[cfg(test)] use crate::no::{A, B};
            #[cfg(test)] mod tests { use crate::no; }
            #[cfg(all(test, feature = \"x\"))] #[allow(dead_code)] pub(crate) fn f<T, U>(t: [T; 2]) { crate::no() }
            #[cfg(test)] mod file;
            struct S { #[cfg(test)] field: crate::no::F, other: crate::yes::G }
            #[cfg(not(test))] fn g() { crate::yes::h() }
            #[cfg(any(test, feature = \"testing\"))] fn i() { crate::yes::j() }";
        let source = parse(text);
        assert_eq!(paths(&source.paths), ["crate::yes::G:6", "crate::yes::h:7", "crate::yes::j:8"]);
        assert!(source.imports.is_empty() && source.declared.is_empty() && source.inline.is_empty());
        assert_eq!(parse("#![cfg(test)] mod a; use crate::b;"), Source::default());
    }

    #[test]
    fn modules_items_and_macros_are_listed() {
        let text = "
            mod a; #[path = \"other.rs\"] pub mod b;
            mod c { use super::a; mod d; }
            macro_rules! e { () => {} }
            layout! { pub struct F { g: u8 } }
            pub const fn h() {} static I: u8 = 0;
            fn k() -> impl Iterator + use<> { e!() }";
        let source = parse(text);
        assert_eq!(source.declared, [("a".into(), None), ("b".into(), Some("other.rs".into()))]);
        assert_eq!(source.inline[0].0, "c");
        assert_eq!((source.inline[0].1.imports.len(), source.inline[0].1.declared.len()), (1, 1));
        assert_eq!(source.macros.iter().collect::<Vec<_>>(), ["e"]);
        assert_eq!(paths(&source.calls), ["layout:5", "e:7"]);
        for item in ["F", "h", "I", "k"] {
            assert!(source.items.contains(item), "{item}: {:?}", source.items);
        }
    }
}
