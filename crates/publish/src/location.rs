//! URLs of publications.
//!
//! No error repeats a URL, which may have a secret where none belongs.

use crate::error::{Error, Result};
use crate::publication::Reference;
use crate::store::url_of;
use percent_encoding::percent_decode_str;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Scheme of a directory of the host.
const FILE: &str = "file";

/// A publication by its URL, with the version that is meant: `file:///srv/photos#latest`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    directory: PathBuf,
    reference: Reference,
}

impl Location {
    /// True for text that begins like a URL: a scheme and `://`.
    pub fn is_url(text: &[u8]) -> bool {
        let scheme = text.windows(3).position(|part| part == b"://").map(|end| &text[..end]);
        scheme.is_some_and(|scheme| {
            scheme.first().is_some_and(u8::is_ascii_alphabetic)
                && scheme.iter().all(|c| c.is_ascii_alphanumeric() || b"+-.".contains(c))
        })
    }

    /// Parses a URL. The part behind `#` is a [`Reference`], the tag `latest` where it is missing.
    ///
    /// # Errors
    /// [`Error::Url`]: no URL, a scheme that is not known, no absolute path, a query, an impossible tag.
    pub fn parse(text: &str) -> Result<Self> {
        let bad = |why: &str| Err(Error::Url(why.into()));
        if !Self::is_url(text.as_bytes()) {
            return bad("write it like file:///srv/photos or file:///srv/photos#TAG");
        }
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        if !scheme.eq_ignore_ascii_case(FILE) {
            return Err(Error::Url(format!("the scheme {scheme} is not known; there is {FILE}")));
        }
        let (path, reference) = match rest.split_once('#') {
            Some((path, reference)) => (path, Reference::parse(reference)?),
            None => (rest, Reference::default()),
        };
        if path.contains('?') {
            return bad("it has a query; write %3F for a ? in a path");
        }
        let path = path.strip_prefix("localhost").filter(|path| path.starts_with('/')).unwrap_or(path);
        if !path.starts_with('/') {
            return bad("that of a directory has an absolute path, as in file:///srv/photos");
        }
        let path: Vec<u8> = percent_decode_str(path).collect();
        if path.contains(&0) {
            return bad("its path has a NUL");
        }
        // The components without empty ones, so that a directory has one URL.
        let directory = PathBuf::from(OsString::from_vec(path)).components().collect();
        Ok(Location { directory, reference })
    }

    /// Returns the directory of the host.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the version that is meant.
    pub fn reference(&self) -> &Reference {
        &self.reference
    }
}

/// Shows the URL, which [`Location::parse`] understands.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", url_of(&self.directory), self.reference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Location {
        Location::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn urls_parse_and_are_shown_so_that_they_parse_again() {
        for (text, directory, shown) in [
            ("file:///srv/photos", "/srv/photos", "file:///srv/photos#latest"),
            ("FILE:///srv//photos/#v-1", "/srv/photos", "file:///srv/photos#v-1"),
            ("file://localhost/a", "/a", "file:///a#latest"),
            ("file:///a%23b%20c%3F@d", "/a#b c?@d", "file:///a%23b%20c%3F@d#latest"),
            ("file:///ö", "/ö", "file:///%C3%B6#latest"),
            ("file:///", "/", "file:///#latest"),
        ] {
            let location = parsed(text);
            assert_eq!(location.directory(), Path::new(directory));
            assert_eq!(location.to_string(), shown);
            assert_eq!(parsed(shown), location);
        }
        let version = "a".repeat(64);
        let location = parsed(&format!("file:///a#{version}"));
        assert!(matches!(location.reference(), Reference::Version(_)));
    }

    #[test]
    fn paths_are_no_urls() {
        for text in ["v.lane", "/a/b", "./file:///a", "mem:1G", "://a", "1s3://a", "a b://c", "file:/a"] {
            assert!(!Location::is_url(text.as_bytes()), "{text}");
        }
        assert!(Location::is_url(b"file:///\xff"));
    }

    #[test]
    fn what_is_no_url_of_a_publication_is_refused_without_its_text() {
        for text in [
            "/srv/secret",
            "ftp://me:secret@host/a",
            "file://secret/a",
            "file:///secret?a",
            "file:///secret#.a",
            "file:///secret#",
            "file:///secret%00",
        ] {
            let refused = Location::parse(text).expect_err(text).to_string();
            assert!(!refused.contains("secret"), "{refused}");
        }
    }
}
