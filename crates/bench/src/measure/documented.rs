//! The test of each benchmark that its documentation has all rows.

/// Asserts that `docs/benchmarks.md` names each row, or its family: `T` stands for a number of threads, and
/// `FILES`, `N` or `WORKLOAD` for other parts of a name.
pub(crate) fn assert_documented(rows: impl IntoIterator<Item = String>) {
    let text = include_str!("../../../../docs/benchmarks.md");
    let is_named = |name: &str| text.contains(&format!("`{name}`"));
    for row in rows {
        let parts: Vec<&str> = row.split('-').map(part).collect();
        let family = match parts[..] {
            ["resident", ..] => "resident-WORKLOAD".to_owned(),
            ["memfs", operation, _, _] => format!("memfs-{operation}-FILES-Tt"),
            ["lookup", "wide", _] => "lookup-wide-N".to_owned(),
            _ => parts.join("-"),
        };
        assert!(is_named(&row) || is_named(&family), "docs/benchmarks.md names neither {row} nor {family}");
    }
}

/// Returns a part of a name, a number of threads as `Tt`.
fn part(part: &str) -> &str {
    let number = part.strip_suffix('t').is_some_and(|number| number.parse::<u32>().is_ok());
    if number { "Tt" } else { part }
}

#[test]
#[should_panic(expected = "docs/benchmarks.md names neither memfs-forget-10-2t nor memfs-forget-FILES-Tt")]
fn a_row_without_documentation_is_found() {
    assert_documented(["memfs-create-100-2t".into(), "memfs-forget-10-2t".into()]);
}
