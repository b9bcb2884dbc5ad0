//! Sizes as text: `8G`, `512M`, `4096`, `1.5T`.

const SUFFIXES: &[u8] = b"KMGTPE";

/// Parses a size: a number, perhaps with a fraction, and K, M, G, T, P or E for powers of 1024 (`iB` or `B`
/// may follow). A fraction of a byte is dropped.
///
/// # Errors
/// Tells how to write it.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let bad = || format!("`{text}` is not a size; write it like 4096, 512M, 8G or 1.5T");
    let digits_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits_end);
    let suffix = suffix.strip_suffix("iB").or_else(|| suffix.strip_suffix('B')).unwrap_or(suffix);
    let power = match suffix.as_bytes() {
        [] => 0,
        [letter] => {
            let index = SUFFIXES.iter().position(|s| *s == letter.to_ascii_uppercase()).ok_or_else(bad)?;
            index as u32 + 1
        }
        _ => return Err(bad()),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // Further digits do not change a byte, and would overflow.
    let fraction = &fraction[..fraction.len().min(15)];
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return Err(bad());
    }
    let unit = 1u128 << (10 * power);
    let digits = |d: &str| if d.is_empty() { Some(0) } else { d.parse::<u128>().ok() };
    let too_large = || format!("`{text}` is too large; the largest size is below 16E");
    let whole = digits(whole).and_then(|w| w.checked_mul(unit)).ok_or_else(too_large)?;
    let part = digits(fraction).ok_or_else(bad)? * unit / 10u128.pow(fraction.len() as u32);
    whole.checked_add(part).and_then(|sum| u64::try_from(sum).ok()).ok_or_else(too_large)
}

/// Formats a size as `du -h` and `ls -h` do: rounded up, one decimal below ten.
pub fn human(bytes: u64) -> String {
    if bytes < 1024 {
        return bytes.to_string();
    }
    let mut power = 1u32;
    while power < 6 && u128::from(bytes).div_ceil(1 << (10 * power)) >= 1024 {
        power += 1;
    }
    let unit = 1u128 << (10 * power);
    let suffix = char::from(SUFFIXES[power as usize - 1]);
    let tenths = (u128::from(bytes) * 10).div_ceil(unit);
    if tenths < 100 {
        format!("{}.{}{suffix}", tenths / 10, tenths % 10)
    } else {
        format!("{}{suffix}", u128::from(bytes).div_ceil(unit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse() {
        for (text, bytes) in [
            ("4096", 4096),
            ("512M", 512 << 20),
            ("8G", 8 << 30),
            ("8g", 8 << 30),
            ("8GiB", 8 << 30),
            ("8GB", 8 << 30),
            ("1.5T", 3 << 39),
            (".5K", 512),
            ("0", 0),
            ("1.00000000000000000001K", 1024),
            ("15E", 15 << 60),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in
            ["", "G", "8X", "8GG", "-1", "1.2.3", ".", "16E", "99999999999999999999", "1e3", "ü", "8 G"]
        {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_for_people() {
        for (bytes, text) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1.0K"),
            (1025, "1.1K"),
            (10 << 10, "10K"),
            ((1 << 20) - 1, "1.0M"),
            (8 << 30, "8.0G"),
            (u64::MAX, "16E"),
        ] {
            assert_eq!(human(bytes), text);
        }
    }
}
