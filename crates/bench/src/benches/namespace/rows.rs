//! Names of the rows.

use crate::systems::workload::Sizes;

/// Lists every row of a run with these sizes, in the order measured.
pub fn row_names(sizes: &Sizes) -> Vec<String> {
    let mut names: Vec<String> =
        ["resolve-random-1t", "resolve-random-2t", "resolve-absent-1t"].map(Into::into).into();
    names.extend(sizes.wide_steps().into_iter().map(wide_name));
    names.extend(
        ["create-flat", "unlink-flat", "bytes-per-file", "chain-create", "chain-lookup"].map(Into::into),
    );
    names.extend(["wide-mkdir", "wide-lookup", "readdir-stat", "import-tree"].map(Into::into));
    names
}

/// Names the row of lookups in a directory of `entries` entries.
pub(super) fn wide_name(entries: usize) -> String {
    format!("lookup-wide-{entries}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::documented::assert_documented;

    #[test]
    fn the_documentation_names_every_row() {
        assert_documented(row_names(&Sizes::FULL));
    }
}
