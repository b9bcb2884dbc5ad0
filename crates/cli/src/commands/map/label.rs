//! Text of the picture: paths that are cut to the room that there is.

use crate::text::escape::escape;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Characters of a path in a title at most.
const MAX_PATH: usize = 1000;
/// Columns of a name that is cut at least.
const MIN_COLUMNS: usize = 4;

/// A path, escaped, without its beginning if it is too long.
pub(super) fn whole(path: &[u8]) -> String {
    let text = escape(path);
    match text.chars().count() {
        count if count > MAX_PATH => format!("…{}", text.chars().skip(count - MAX_PATH).collect::<String>()),
        _ => text,
    }
}

/// The path `dir`, then `last`, in `columns`: without the first components, then without the end of `last`;
/// `None` if there is too little room.
pub(super) fn fitting(dir: &str, last: &str, columns: usize) -> Option<String> {
    let starts = [0].into_iter().chain(dir.match_indices('/').map(|(at, _)| at + 1)).chain([dir.len()]);
    let width = last.width();
    for rest in starts.filter_map(|start| dir.get(start..)) {
        if rest.width() + width <= columns {
            return Some(format!("{rest}{last}"));
        }
    }
    (columns >= MIN_COLUMNS).then(|| cut(last, columns))
}

/// A text in `columns`, without its end if it is longer.
pub(super) fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_string();
    }
    let mut left = columns.saturating_sub(1);
    let fits = |c: &char| {
        let width = c.width().unwrap_or(0);
        let fits = width <= left;
        left -= if fits { width } else { left };
        fits
    };
    let mut begin: String = text.chars().take_while(fits).collect();
    begin.push('…');
    begin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_fit() {
        assert_eq!(fitting("usr/lib/", "debug", 13).as_deref(), Some("usr/lib/debug"));
        assert_eq!(fitting("usr/lib/", "debug", 12).as_deref(), Some("lib/debug"));
        assert_eq!(fitting("usr/lib/", "debug", 8).as_deref(), Some("debug"));
        assert_eq!(fitting("usr/lib/", "debug", 4).as_deref(), Some("deb…"));
        assert_eq!(fitting("usr/lib/", "debug", 3), None);
        assert_eq!(fitting("", "/", 5).as_deref(), Some("/"));
        assert_eq!(cut("漢字漢字", 6), "漢字…");
        assert_eq!(cut("漢字漢字", 8), "漢字漢字");
        assert_eq!(cut("abc", 0), "…");
    }

    #[test]
    fn long_paths_keep_their_end() {
        let long = [&[b'/'; 5000][..], b"\xffend"].concat();
        let text = whole(&long);
        assert!(text.starts_with('…') && text.ends_with(r"/\xffend"), "{text}");
        assert_eq!(text.chars().count(), MAX_PATH + 1);
        assert_eq!(whole(b"/a\nb"), r"/a\x0ab");
    }
}
