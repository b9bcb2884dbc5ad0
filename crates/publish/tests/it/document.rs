//! `docs/publication.md` has the tables of the structures as the code declares them.
//!
//! With `UPDATE_DOCS=1` (`make docs`) they are written again.

use lanefs::format::Layout;
use lanefs_publish::STRUCTURES;
use std::fmt::Write;
use std::path::PathBuf;

const END: &str = "<!-- end -->";

fn table(layout: &Layout) -> String {
    let mut text = format!("`{}`, {} bytes\n\n", layout.name, layout.size);
    text += "| at | bytes | field | type | what |\n|---|---|---|---|---|\n";
    for field in layout.fields {
        let word = match field.len {
            1 => field.word.to_string(),
            len => format!("{} × {len}", field.word),
        };
        let bytes = field.len * field.bytes;
        let _ = writeln!(
            text,
            "| {} | {bytes} | `{}` | {word} | {} |",
            field.offset,
            field.name,
            field.doc.trim()
        );
    }
    text
}

/// The document with every table as the code has it.
fn rewritten(document: &str) -> String {
    let mut text = String::new();
    let mut left: Vec<&Layout> = STRUCTURES.iter().collect();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        let _ = writeln!(text, "{line}");
        let name = line.strip_prefix("<!-- layout ").and_then(|line| line.strip_suffix(" -->"));
        let Some(name) = name else { continue };
        let found = left.iter().position(|layout| layout.name == name);
        let layout =
            left.remove(found.unwrap_or_else(|| panic!("`{line}` names no structure, or one twice")));
        assert!(lines.by_ref().any(|line| line == END), "`{line}` is not closed");
        let _ = writeln!(text, "{}{END}", table(layout));
    }
    let missing: Vec<_> = left.iter().map(|layout| layout.name).collect();
    assert!(missing.is_empty(), "the document lacks {missing:?}");
    text
}

#[test]
fn every_structure_is_in_the_document() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/publication.md");
    let document = std::fs::read_to_string(&path).expect("docs/publication.md");
    let expected = rewritten(&document);
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        std::fs::write(&path, expected).expect("docs/publication.md can be written");
        return;
    }
    assert!(document == expected, "docs/publication.md differs from the code; `make docs` writes its tables");
}

#[test]
fn canary_a_changed_cell_is_seen() {
    let all: String =
        STRUCTURES.iter().map(|layout| format!("<!-- layout {} -->\n{END}\n", layout.name)).collect();
    let good = rewritten(&all);
    assert_eq!(rewritten(&good), good);
    let planted = good.replacen("| 8 | 4 | `VERSION` |", "| 12 | 4 | `VERSION` |", 1);
    assert_ne!(planted, good);
    assert_ne!(rewritten(&planted), planted);
}
