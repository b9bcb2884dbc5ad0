//! Names of the rows.

use super::{paths, texts};

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
    paths::row_names().into_iter().chain(others).chain(texts::ROWS).map(Into::into).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_names_every_row() {
        let text = include_str!("../../../../../docs/benchmarks.md");
        for name in row_names() {
            assert!(text.contains(&format!("`{name}`")), "docs/benchmarks.md does not name {name}");
        }
    }
}
