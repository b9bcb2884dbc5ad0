//! URLs of publications.
//!
//! No error repeats a URL, which may have a secret where none belongs.

use crate::error::{Error, Result};
use crate::publication::Reference;
use crate::store::{ENCODED, url_of};
use percent_encoding::{AsciiSet, percent_decode_str, utf8_percent_encode};
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Scheme of a directory of the host.
const FILE: &str = "file";
/// All schemes, for messages.
const SCHEMES: &str = "file, s3, gs, az, https and http";
/// Characters that a folder of a bucket does not have as they are.
const FOLDER_ENCODED: &AsciiSet = &ENCODED.add(b'@');
/// Most characters of a bucket's name.
const MAX_BUCKET: usize = 255;

/// A publication by its URL, with the version that is meant: `s3://bucket/photos#latest`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    store_url: StoreUrl,
    reference: Reference,
}

/// The store of a publication, by its URL without a version.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreUrl {
    /// A directory of the host.
    Directory(PathBuf),
    /// A folder of a bucket (or container).
    Bucket {
        /// The service.
        service: Service,
        /// Name of the bucket.
        bucket: String,
        /// The folder, without slashes at its ends; empty for the bucket itself.
        folder: String,
    },
    /// A folder of a web server, which is read only: its URL without a slash at its end.
    Web(String),
}

/// A service that has buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Service {
    /// Amazon S3, and all that speak its protocol.
    S3,
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage.
    Azure,
}

impl Service {
    /// Returns the scheme of its URLs.
    pub fn scheme(self) -> &'static str {
        match self {
            Service::S3 => "s3",
            Service::Google => "gs",
            Service::Azure => "az",
        }
    }
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

    /// Parses a URL. The part after `#` is a [`Reference`], the tag `latest` where it is missing.
    ///
    /// # Errors
    /// [`Error::Url`]: no URL, a scheme that is not known, a path, bucket or server that cannot be, a user or
    /// a query, an impossible tag.
    pub fn parse(text: &str) -> Result<Self> {
        if !Self::is_url(text.as_bytes()) {
            return bad("write it like file:///srv/photos, s3://bucket/photos or s3://bucket/photos#TAG");
        }
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let scheme = scheme.to_ascii_lowercase();
        let parse: fn(&str, &str) -> Result<StoreUrl> = match &scheme[..] {
            FILE => |_, path| directory(path),
            "s3" => |_, path| bucket(Service::S3, path),
            "gs" => |_, path| bucket(Service::Google, path),
            "az" => |_, path| bucket(Service::Azure, path),
            "http" | "https" => web,
            _ => return Err(Error::Url(format!("the scheme {scheme} is not known; there are {SCHEMES}"))),
        };
        // First of all: no other message may show a part of a password.
        if scheme != FILE && rest.contains('@') {
            return bad(
                "it has an @: users and passwords do not belong in it, the environment has them; write \
                 %40 for an @ in a path",
            );
        }
        let (path, reference) = match rest.split_once('#') {
            Some((path, reference)) => (path, Some(reference)),
            None => (rest, None),
        };
        if path.contains('?') {
            return bad("it has a query; write %3F for a ? in a path");
        }
        let store_url = parse(&scheme, path)?;
        let reference = reference.map_or(Ok(Reference::default()), Reference::parse)?;
        Ok(Location { store_url, reference })
    }

    /// Returns the URL of the store.
    pub fn store_url(&self) -> &StoreUrl {
        &self.store_url
    }

    /// Returns the same publication with another version.
    pub fn at(self, reference: Reference) -> Self {
        Location { reference, ..self }
    }

    /// Returns the version that is meant.
    pub fn reference(&self) -> &Reference {
        &self.reference
    }
}

fn bad<T>(why: &str) -> Result<T> {
    Err(Error::Url(why.into()))
}

fn directory(path: &str) -> Result<StoreUrl> {
    let path = path.strip_prefix("localhost").filter(|path| path.starts_with('/')).unwrap_or(path);
    if !path.starts_with('/') {
        return bad("that of a directory has an absolute path, as in file:///srv/photos");
    }
    let path: Vec<u8> = percent_decode_str(path).collect();
    if path.contains(&0) {
        return bad("its path has a NUL");
    }
    // The components without empty ones, so that a directory has one URL.
    Ok(StoreUrl::Directory(PathBuf::from(OsString::from_vec(path)).components().collect()))
}

fn bucket(service: Service, path: &str) -> Result<StoreUrl> {
    let (bucket, folder) = path.split_once('/').unwrap_or((path, ""));
    let is_fine = |c: u8| c.is_ascii_alphanumeric() || b"._-".contains(&c);
    // Clients of HTTP take "." and ".." as steps in the path of their server.
    let is_step = matches!(bucket, "." | "..");
    if is_step || !(1..=MAX_BUCKET).contains(&bucket.len()) || !bucket.bytes().all(is_fine) {
        return bad("a bucket has a name of letters, digits, '.', '_' and '-', as in s3://bucket/photos");
    }
    let Ok(folder) = percent_decode_str(folder).decode_utf8() else { return bad("its path is not UTF-8") };
    let folder = folder.trim_matches('/');
    let is_fine = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(char::is_control);
    if !folder.is_empty() && !folder.split('/').all(is_fine) {
        return bad("its path has an empty part, '.', '..' or control characters");
    }
    Ok(StoreUrl::Bucket { service, bucket: bucket.into(), folder: folder.into() })
}

fn web(scheme: &str, path: &str) -> Result<StoreUrl> {
    let path = path.trim_end_matches('/');
    let (server, rest) = path.split_once('/').unwrap_or((path, ""));
    let is_server = |c: u8| c.is_ascii_alphanumeric() || b".-:[]".contains(&c);
    if server.is_empty() || !server.bytes().all(is_server) {
        return bad("it has no name of a server, as in https://example.org/photos");
    }
    let is_fine = |part: &str| !matches!(part, "" | "." | "..");
    let is_path = |c: u8| c.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&c);
    if !rest.bytes().all(is_path) || !rest.is_empty() && !rest.split('/').all(is_fine) {
        return bad("its path has an empty part, '.', '..' or characters that a URL has as %XX only");
    }
    Ok(StoreUrl::Web(format!("{scheme}://{}{}", server.to_ascii_lowercase(), &path[server.len()..])))
}

/// Shows the URL.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreUrl::Directory(path) => write!(f, "{}", url_of(path)),
            StoreUrl::Bucket { service, bucket, folder } => {
                let slash = if folder.is_empty() { "" } else { "/" };
                let folder = utf8_percent_encode(folder, FOLDER_ENCODED);
                write!(f, "{}://{bucket}{slash}{folder}", service.scheme())
            }
            StoreUrl::Web(url) => write!(f, "{url}"),
        }
    }
}

/// Shows the URL, which [`Location::parse`] understands.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.store_url, self.reference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Location {
        Location::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn in_bucket(service: Service, folder: &str) -> StoreUrl {
        StoreUrl::Bucket { service, bucket: "b-1".into(), folder: folder.into() }
    }

    #[test]
    fn urls_parse_and_are_shown_so_that_they_parse_again() {
        let directory = |path: &str| StoreUrl::Directory(path.into());
        let web = |url: &str| StoreUrl::Web(url.into());
        for (text, store_url, shown) in [
            ("file:///srv/photos", directory("/srv/photos"), "file:///srv/photos#latest"),
            ("FILE:///srv//photos/#v-1", directory("/srv/photos"), "file:///srv/photos#v-1"),
            ("file://localhost/a", directory("/a"), "file:///a#latest"),
            ("file:///a%23b%20c%3F@d", directory("/a#b c?@d"), "file:///a%23b%20c%3F@d#latest"),
            ("file:///ö", directory("/ö"), "file:///%C3%B6#latest"),
            ("file:///", directory("/"), "file:///#latest"),
            ("s3://b-1", in_bucket(Service::S3, ""), "s3://b-1#latest"),
            ("S3://b-1/a/b/#t", in_bucket(Service::S3, "a/b"), "s3://b-1/a/b#t"),
            ("gs://b-1/a%40b%20ö", in_bucket(Service::Google, "a@b ö"), "gs://b-1/a%40b%20%C3%B6#latest"),
            ("az://b-1/a", in_bucket(Service::Azure, "a"), "az://b-1/a#latest"),
            (
                "https://Host.org:8443/a%20b/",
                web("https://host.org:8443/a%20b"),
                "https://host.org:8443/a%20b#latest",
            ),
            ("http://[::1]:80", web("http://[::1]:80"), "http://[::1]:80#latest"),
        ] {
            let location = parsed(text);
            assert_eq!(location.store_url(), &store_url);
            assert_eq!(location.to_string(), shown);
            assert_eq!(parsed(shown), location);
        }
        let version = "a".repeat(64);
        let location = parsed(&format!("s3://b/a#{version}"));
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
            "s3://key:secret@bucket/a",
            "s3://key:se#secret@bucket/a",
            "s3://key:se/secret@bucket/a",
            "s3://key:secret/a",
            "s3://bucket/a/../secret",
            "s3://bucket/secret//a",
            "s3://bucket/secret%0A",
            "s3:///secret",
            "s3://../secret",
            "gs://./secret",
            "az://..",
            "gs://bucket/a?token=secret",
            "az://bucket/secret%FF",
            "https://me:secret@host/a",
            "https://me:se/secret@host/a",
            "https://host/a?sig=secret#latest",
            "https:///secret",
            "https://host/secret|",
            "http://host/secret/./a",
        ] {
            let refused = Location::parse(text).expect_err(text).to_string();
            assert!(!refused.contains("secret"), "{refused}");
        }
    }
}
