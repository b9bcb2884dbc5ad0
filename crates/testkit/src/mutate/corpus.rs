//! Cases that failed once. They are kept and tried first, for ever.

use std::path::Path;

/// A base and a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Name of the base image.
    pub base: String,
    /// Seed of the mutations and of the work on the image.
    pub seed: u64,
}

/// Reads the cases in `corpus/hostile.txt`: one per line, `base seed`; `#` begins a comment.
///
/// # Errors
/// A line of another form.
pub fn kept_cases() -> Result<Vec<Case>, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/hostile.txt");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut cases = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let parsed = line.split_once(' ').and_then(|(base, seed)| Some((base, seed.trim().parse().ok()?)));
        let (base, seed) = parsed.ok_or_else(|| format!("line {}: `base seed` was expected", number + 1))?;
        cases.push(Case { base: base.to_owned(), seed });
    }
    Ok(cases)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kept_cases_can_be_read() {
        super::kept_cases().expect("every line is a case");
    }
}
