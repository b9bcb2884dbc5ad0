//! Numbers with their nouns: `1 file`, `2 files`.

use std::fmt::Display;

/// Returns a number with the form of the noun that fits it.
pub fn counted(count: impl Display + Copy + TryInto<u64>, one: &str, many: &str) -> String {
    let is_one = count.try_into().is_ok_and(|count: u64| count == 1);
    format!("{count} {}", if is_one { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        let texts = [0u64, 1, 2].map(|count| counted(count, "directory", "directories"));
        assert_eq!(texts, ["0 directories", "1 directory", "2 directories"]);
        assert_eq!(
            (counted(1usize, "file", "files"), counted(1u32, "file", "files")),
            ("1 file".into(), "1 file".into())
        );
    }
}
