//! Names of the rows.

use super::{auto, paths, texts};

/// Lists every row, in the order measured.
pub fn row_names() -> Vec<String> {
    let others = [
        "gpu-latency-dispatch",
        "gpu-chain-lookup",
        "gpu-wide-lookup",
        "gpu-create",
        "gpu-unlink",
        "gpu-create-flat",
        "gpu-mkdir-all",
        "gpu-wide-create",
        "gpu-chain-create",
        "gpu-sectors-cache",
        "gpu-sectors-tree",
    ];
    paths::row_names()
        .into_iter()
        .chain(auto::row_names())
        .chain(others)
        .chain(texts::ROWS)
        .map(Into::into)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::documented::assert_documented;

    #[test]
    fn the_documentation_names_every_row() {
        assert_documented(row_names());
    }
}
