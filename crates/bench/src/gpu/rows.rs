//! Names of the rows.

/// Lists every row, in the order measured.
pub fn row_names() -> Vec<String> {
    [
        "gpu-lookup-host",
        "gpu-lookup-resident",
        "gpu-find",
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
    ]
    .map(Into::into)
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_names_every_row() {
        let text = include_str!("../../../../docs/benchmarks.md");
        for name in row_names() {
            assert!(text.contains(&format!("`{name}`")), "docs/benchmarks.md does not name {name}");
        }
    }
}
