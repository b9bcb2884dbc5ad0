//! Words of a line of the shell.

use super::escape::{escape, hex_escape};

/// Splits a line at spaces and tabs. Quotes and backslashes work as `lanefs shell --help` says.
///
/// # Errors
/// A quote is not closed.
pub fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut at = 0;
    while let Some(&byte) = line.get(at) {
        at += 1;
        match byte {
            b' ' | b'\t' => words.extend(word.take()),
            b'#' if word.is_none() => break,
            b'\'' => {
                let rest = &line[at..];
                let length = rest.iter().position(|b| *b == b'\'').ok_or("a single quote is not closed")?;
                word.get_or_insert_default().extend_from_slice(&rest[..length]);
                at += length + 1;
            }
            b'"' => {
                let word = word.get_or_insert_default();
                loop {
                    match line.get(at).ok_or("a double quote is not closed")? {
                        b'"' => break,
                        b'\\' => at += escaped(&line[at..], word),
                        byte => {
                            word.push(*byte);
                            at += 1;
                        }
                    }
                }
                at += 1;
            }
            b'\\' => at = at - 1 + escaped(&line[at - 1..], word.get_or_insert_default()),
            byte => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Appends the byte that the backslash at the start of `rest` stands for; returns the number of bytes taken.
fn escaped(rest: &[u8], word: &mut Vec<u8>) -> usize {
    let after = rest.get(1..).unwrap_or_default();
    if let Some(byte) = hex_escape(after) {
        word.push(byte);
        return 4;
    }
    word.push(after.first().copied().unwrap_or(b'\\'));
    2.min(rest.len())
}

/// A word as a user can type it: every byte with a meaning to the shell is escaped.
pub fn quote(word: &[u8]) -> String {
    let mut out = Vec::new();
    for c in escape(word).bytes() {
        if matches!(c, b' ' | b'\'' | b'"') || c == b'#' && out.is_empty() {
            out.push(b'\\');
        }
        out.push(c);
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        split(line.as_bytes()).unwrap().iter().map(|w| String::from_utf8_lossy(w).into_owned()).collect()
    }

    #[test]
    fn lines_split_into_words() {
        assert_eq!(words("  ls  -l\t/a "), ["ls", "-l", "/a"]);
        assert_eq!(words(r#"cat 'a b' "c \" d"e f\ g ''"#), ["cat", "a b", "c \" de", "f g", ""]);
        assert_eq!(words("ls # all of it"), ["ls"]);
        assert_eq!(words("ls a#b"), ["ls", "a#b"]);
        assert_eq!(words(r"a\x41b\\ \"), [r"aAb\", r"\"]);
        assert_eq!(words("# nothing"), Vec::<String>::new());
        assert!(split(b"a 'b").is_err());
        assert!(split(b"a \"b\\\"").is_err());
    }

    #[test]
    fn what_is_quoted_comes_back() {
        for a in 1..=255u8 {
            for b in [b' ', b'\\', b'\'', b'"', b'#', b'x', 0xff] {
                let word = vec![a, b, a, b'4', b'1'];
                assert_eq!(split(quote(&word).as_bytes()).unwrap(), std::slice::from_ref(&word), "{word:?}");
            }
        }
    }
}
