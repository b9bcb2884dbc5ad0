//! `docs/format.md` says what the code does: every generated table in it is compared with the code.
//!
//! A table stands between `<!-- NAME -->` and `<!-- end -->`; with `UPDATE_DOCS=1` (`make docs`) all are
//! written again.

use lanefs_format as format;
use lanefs_format::{BlockKind, Code, FileKind, HashSeed, Layout, Pointer, dir};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// End of a generated table.
const END: &str = "<!-- end -->";

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/format.md")
}

/// One Markdown table; every cell is escaped, so that no text of the code can break a row.
fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: Vec<String>| {
        format!(
            "| {} |\n",
            cells.iter().map(|c| c.trim().replace('|', "\\|")).collect::<Vec<_>>().join(" | ")
        )
    };
    let mut text = line(head.iter().map(ToString::to_string).collect());
    let _ = writeln!(text, "|{}", "---|".repeat(head.len()));
    text.extend(rows.into_iter().map(line));
    text
}

fn layout_table(layout: &Layout) -> String {
    let rows = layout.fields.iter().map(|f| {
        let word = if f.len == 1 { f.word.to_string() } else { format!("{} × {}", f.word, f.len) };
        vec![f.offset.to_string(), (f.len * f.bytes).to_string(), format!("`{}`", f.name), word, f.doc.into()]
    });
    format!(
        "`{}`, {} bytes\n\n{}",
        layout.name,
        layout.size,
        table(&["at", "bytes", "field", "type", "what"], rows)
    )
}

fn constants() -> String {
    let rows: &[(&str, u64, &str)] = &[
        ("VERSION", format::superblock::VERSION.into(), "version of the format"),
        ("MAGIC", format::superblock::MAGIC, "`LaneFS\\r\\n` as a little-endian word"),
        ("SUPERBLOCK_COPY", format::SUPERBLOCK_COPY, "position of the superblock's second copy"),
        ("BLOCK", format::BLOCK, "bytes in a block"),
        ("CHUNK", format::CHUNK, "bytes in a chunk"),
        ("BLOCKS_PER_CHUNK", format::BLOCKS_PER_CHUNK, "blocks in a chunk"),
        (
            "CHUNK_HEADER_BLOCKS",
            format::CHUNK_HEADER_BLOCKS,
            "blocks of a metadata chunk that hold its table",
        ),
        ("CHUNKS_PER_GROUP", format::CHUNKS_PER_GROUP, "chunks in a group"),
        ("BLOCKS_PER_GROUP", format::BLOCKS_PER_GROUP, "blocks in a group"),
        ("GROUP", format::GROUP, "bytes in a group"),
        ("BLOCKS_PER_SUMS", format::BLOCKS_PER_SUMS, "data blocks whose checksums one block of sums has"),
        ("SUMS_PER_GROUP", format::SUMS_PER_GROUP, "blocks of sums in a group"),
        ("POINTERS_PER_BLOCK", format::POINTERS_PER_BLOCK, "pointers in a pointer block"),
        ("MAX_MAP_DEPTH", format::MAX_MAP_DEPTH.into(), "levels of pointer blocks at most"),
        ("MAX_FILE_SIZE", format::MAX_FILE_SIZE, "bytes in a file at most"),
        ("MIN_VOLUME", format::MIN_VOLUME, "bytes in a volume at least"),
        ("MAX_VOLUME", format::MAX_VOLUME, "bytes in a volume at most"),
        ("MAX_NAME", format::MAX_NAME as u64, "bytes in a name at most"),
        ("MAX_SYMLINK", format::MAX_SYMLINK as u64, "bytes in the target of a symbolic link at most"),
        ("MAX_LINKS", format::MAX_LINKS.into(), "link count of an inode at most"),
        ("INODE_CORE", format::INODE_CORE as u64, "bytes of an inode before its inline data"),
        ("INODE_INLINE", format::INODE_INLINE.into(), "flag of an inode: the content lies in the inode"),
        ("JOURNAL_HEADERS", format::JOURNAL_HEADERS, "blocks of a journal before its ring"),
        ("MIN_JOURNAL", format::MIN_JOURNAL, "blocks in a journal at least"),
        ("MAX_JOURNAL", format::MAX_JOURNAL, "blocks in a journal at most"),
        (
            "INODE_NO_DATA_CHECKSUMS",
            format::INODE_NO_DATA_CHECKSUMS.into(),
            "flag of an inode: its data have no checksums; of a directory: new files in it get the flag",
        ),
        (
            "INODE_ACCESS_ACL",
            format::INODE_ACCESS_ACL.into(),
            "flag of an inode: it has an access control list",
        ),
        (
            "INODE_DEFAULT_ACL",
            format::INODE_DEFAULT_ACL.into(),
            "flag of a directory: it has a default access control list",
        ),
        ("UNIT", format::UNIT, "bytes in a unit of a leaf block"),
        ("UNITS_PER_LEAF", format::UNITS_PER_LEAF, "units in a leaf block"),
        ("LEAF_HEADER_UNITS", dir::LEAF_HEADER_UNITS as u64, "units of a leaf block that its header takes"),
        (
            "LEAF_ROOM",
            dir::LEAF_ROOM as u64,
            "free units from which a leaf is on the list of those with room",
        ),
        ("REGION_MAX", dir::REGION_MAX as u64, "entries of a region that have a slot, at most"),
        ("TREE_MAX", dir::TREE_MAX as u64, "children of a tree block at most"),
        ("MAX_TREE_LEVEL", dir::MAX_TREE_LEVEL.into(), "levels of tree blocks at most"),
        ("BUCKETS", dir::BUCKETS as u64, "buckets in a region index block"),
        ("BUCKET_SLOTS", dir::BUCKET_SLOTS as u64, "slots in a bucket"),
        ("Slot::OVERFLOW", dir::Slot::OVERFLOW, "overflow bit of a bucket's first slot"),
        ("Slot::SHIFT", dir::Slot::SHIFT.into(), "shift of the position in a slot"),
    ];
    table(
        &["constant", "value", "hexadecimal", "what"],
        rows.iter().map(|(name, value, what)| {
            vec![format!("`{name}`"), value.to_string(), format!("`{value:#x}`"), (*what).into()]
        }),
    )
}

fn block_kinds() -> String {
    table(
        &["number", "kind", "checksum and owner"],
        BlockKind::ALL.into_iter().map(|kind| {
            let header = match kind {
                BlockKind::Pointers => "in the entry of its chunk's table",
                BlockKind::Inodes => "checksum in each inode; no owner",
                _ => "in the block: checksum at 4, owner at 8",
            };
            assert_eq!(kind.has_header(), header.starts_with("in the block"), "{kind:?}");
            vec![(kind as u8).to_string(), format!("`{kind:?}`"), header.into()]
        }),
    )
}

fn file_kinds() -> String {
    table(
        &["number", "kind", "type bits of the mode", "word"],
        (0..=u8::MAX).filter_map(FileKind::from_number).map(|kind| {
            let mode = format!("`{:#o}`", kind.mode());
            vec![(kind as u8).to_string(), format!("`{kind:?}`"), mode, kind.word().into()]
        }),
    )
}

fn codes() -> String {
    table(
        &["number", "code", "errno", "text"],
        Code::ALL.iter().map(|code| {
            vec![
                code.number().to_string(),
                format!("`{code:?}`"),
                code.errno().to_string(),
                match code.is_reserved() {
                    true => format!("{}; reserved: no operation returns it", code.text()),
                    false => code.text().into(),
                },
            ]
        }),
    )
}

/// Words and hashes that another implementation can be tried against.
fn examples() -> String {
    let at = 3 * format::CHUNK;
    let mut unwritten = Pointer::data(at, format::BlockSize::Medium);
    unwritten.unwritten = true;
    let word = |what: &str, value: u64| vec![what.to_string(), format!("`{value:#018x}`")];
    let hash = |what: &str, seed: HashSeed, name: &[u8]| {
        vec![what.to_string(), format!("`{:#010x}`", format::half_md4(seed, name))]
    };
    let seed = HashSeed::from_bytes(std::array::from_fn(|i| i as u8));
    let uuid: [u8; 16] = std::array::from_fn(|i| i as u8);
    let sums = format::Checksummer::new(format::Checksummer::seed_of(&uuid));
    table(
        &["what", "value"],
        [
            word("pointer: hole", Pointer::HOLE),
            word("pointer: 4 KiB of data at 6 MiB", Pointer::data(at, format::BlockSize::Small).word()),
            word("pointer: 2 MiB of data at 6 MiB", Pointer::data(at, format::BlockSize::Medium).word()),
            word("pointer: 2 MiB at 6 MiB, unwritten", unwritten.word()),
            word("pointer: 1 GiB of data at 6 MiB", Pointer::data(at, format::BlockSize::Large).word()),
            word("pointer: block of pointers at 6 MiB", Pointer::indirect(at).word()),
            word("directory root: small, leaf at 6 MiB", format::DirRoot::Small(at).word()),
            word("directory root: region, index at 6 MiB", format::DirRoot::Region(at).word()),
            word("directory root: tree block at 6 MiB", format::DirRoot::Tree(at).word()),
            word("directory root: the same, level 2, 9 children", format::DirRoot::tree_word(at, 2, 9)),
            word("slot: hash 0xdeadbeef, entry at 6 MiB + 80", dir::Slot::new(0xdead_beef, at + 80).0),
            hash("hash of `a`, seed of MD4", HashSeed::MD4, b"a"),
            hash("hash of `lost+found`, seed of MD4", HashSeed::MD4, b"lost+found"),
            hash("hash of `a`, seed bytes 0, 1, ... 15", seed, b"a"),
            hash("hash of 255 times `x`, seed bytes 0, 1, ... 15", seed, &[b'x'; 255]),
            hash("hash of the byte 255, seed bytes 0, 1, ... 15", seed, &[255]),
            vec![
                "`CHECKSUM_SEED` of the UUID bytes 0, 1, ... 15".into(),
                format!("`{:#010x}`", format::Checksummer::seed_of(&uuid)),
            ],
            vec![
                "checksum of 4096 zeros at 6 MiB with that seed".into(),
                format!("`{:#010x}`", sums.of(at, &[0; 4096], None)),
            ],
        ],
    )
}

/// All generated tables by the name in their marker.
fn generated() -> BTreeMap<String, String> {
    let mut tables: BTreeMap<String, String> =
        format::STRUCTURES.iter().map(|l| (format!("layout {}", l.name), layout_table(l))).collect();
    assert_eq!(tables.len(), format::STRUCTURES.len(), "two structures have one name");
    tables.insert("constants".into(), constants());
    tables.insert("block kinds".into(), block_kinds());
    tables.insert("file kinds".into(), file_kinds());
    tables.insert("codes".into(), codes());
    tables.insert("examples".into(), examples());
    tables
}

/// The document with every table replaced by the generated one, and what is wrong with its markers.
fn rewritten(document: &str, tables: &BTreeMap<String, String>) -> (String, Vec<String>) {
    let (mut text, mut faults) = (String::new(), Vec::new());
    let mut seen = BTreeMap::<&str, usize>::new();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        text.push_str(line);
        text.push('\n');
        let marker = line.strip_prefix("<!-- ").and_then(|l| l.strip_suffix(" -->"));
        let Some((name, table)) = marker.and_then(|name| tables.get_key_value(name)) else {
            if marker.is_some() {
                faults.push(format!("`{line}` opens no table that the code has, or closes none"));
            }
            continue;
        };
        *seen.entry(name).or_default() += 1;
        if !lines.by_ref().any(|l| l == END) {
            faults.push(format!("`{line}` is not closed by `{END}`"));
        }
        let _ = writeln!(text, "{}\n{END}", table.trim_end());
    }
    for name in tables.keys() {
        match seen.get(name.as_str()) {
            Some(1) => {}
            Some(n) => faults.push(format!("`<!-- {name} -->` is there {n} times")),
            None => faults.push(format!("`<!-- {name} -->` is missing")),
        }
    }
    (text, faults)
}

#[test]
fn every_table_of_the_document_is_what_the_code_says() {
    let path = path();
    let document = std::fs::read_to_string(&path).expect("docs/format.md");
    let (expected, faults) = rewritten(&document, &generated());
    assert!(faults.is_empty(), "docs/format.md: {}", faults.join("; "));
    if std::env::var_os("UPDATE_DOCS").is_some_and(|v| v == "1") {
        std::fs::write(&path, expected).expect("docs/format.md must be writable");
        return;
    }
    for (i, (is, should)) in document.lines().zip(expected.lines()).enumerate() {
        assert_eq!(
            is,
            should,
            "docs/format.md differs from the code from line {} on; `make docs` writes its tables again",
            i + 1
        );
    }
    assert_eq!(document.len(), expected.len(), "docs/format.md ends elsewhere; `make docs` writes it again");
}

/// The canary: the comparison sees a changed cell, a lost table, an unknown one and an unclosed one.
#[test]
fn a_document_that_differs_is_caught() {
    let tables = generated();
    let good: String = tables.keys().map(|name| format!("<!-- {name} -->\n{END}\n")).collect();
    let (good, faults) = rewritten(&good, &tables);
    assert_eq!((rewritten(&good, &tables).0, faults), (good.clone(), vec![]));

    let planted = good.replacen("| 24 | 4 | `HASH` |", "| 28 | 4 | `HASH` |", 1);
    assert_ne!(planted, good);
    assert_ne!(rewritten(&planted, &tables).0, planted, "a wrong offset");
    for (bad, fault) in [
        (good.replace("<!-- codes -->", ""), "`<!-- codes -->` is missing"),
        (
            good.replace("<!-- layout leaf -->", "<!-- layout twig -->"),
            "`<!-- layout twig -->` opens no table",
        ),
        (good.trim_end().trim_end_matches(END).to_string(), "is not closed"),
        (format!("{good}<!-- codes -->\n{END}\n"), "is there 2 times"),
    ] {
        let faults = rewritten(&bad, &tables).1.join("; ");
        assert!(faults.contains(fault), "{fault}: {faults}");
    }
}

/// Result codes are reserved where no crate names them, and nowhere else. (The model of the testkit returns
/// no others; the command line explains all.)
#[test]
fn reserved_codes_are_those_that_nothing_returns() {
    let mut sources = String::new();
    let mut folders = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let is_own =
                ["format", "cli", "testkit", "bench", "target"].iter().any(|name| path.ends_with(name));
            if path.is_dir() && !is_own {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push_str(&std::fs::read_to_string(path).expect("a source file"));
            }
        }
    }
    assert!(sources.len() > 1 << 20, "the sources of the other crates");
    for code in Code::ALL.iter().filter(|code| **code != Code::Success) {
        let is_named = sources.contains(&format!("Code::{code:?}"));
        assert_eq!(is_named, !code.is_reserved(), "{code:?}");
    }
}

/// Statements of the document about sizes on which other sentences depend.
#[test]
fn sentences_with_numbers_hold() {
    assert_eq!(format::group::BITMAP.len as u64 * 64, format::BLOCKS_PER_GROUP);
    assert_eq!(
        format::chunk_header::SIZE as u64,
        format::CHUNK_HEADER_BLOCKS * format::chunk_entry::SIZE as u64
    );
    assert_eq!(
        format::CHUNK_HEADER_BLOCKS * format::BLOCK,
        format::BLOCKS_PER_CHUNK * format::chunk_entry::SIZE as u64
    );
    assert_eq!(dir::index::SLOTS.len, dir::BUCKETS * dir::BUCKET_SLOTS);
    for (size, inline, small) in [(format::InodeSize::B128, 32, 8), (format::InodeSize::B256, 160, 28)] {
        assert_eq!((size.inline(), size.small_entries(), size.extents()), (inline, small, inline / 16));
    }
    assert_eq!(format::MAX_FILE_SIZE, format::BLOCK * 512u64.pow(format::MAX_MAP_DEPTH.into()));
}
