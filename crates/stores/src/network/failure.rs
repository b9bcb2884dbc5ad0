//! Errors of `object_store` as errors of a store.
//!
//! Their texts have URLs with signatures, bodies of answers, and parts of files with credentials. So no text
//! is passed on, except for: the status of an answer, the code in its body, the reason of the network or of
//! TLS, and the first words of the library's own texts.

use super::connection::Redirected;
use lanefs_publish::StoreError;
use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};
use std::error::Error as _;
use std::fmt;

/// The library's text for an answer that is not a success; status and body follow.
const STATUS: &str = "Server returned non-2xx status code: ";
/// Codes by which services say that there is no bucket.
const NO_BUCKET: [&str; 3] = ["NoSuchBucket", "ContainerNotFound", "InvalidBucketName"];
/// Servers that give credentials to machines of a cloud. The library asks them where it has none.
const METADATA: [&str; 3] =
    ["http://169.254.169.254/", "http://metadata/", "http://metadata.google.internal/"];
/// The library's text for a request that failed; method, URL and reason follow.
const PERFORMING: &str = "Error performing ";
/// Begins the library's texts for an answer that is not a success; the server's own words follow.
const RETURNED: &str = "Server returned ";
/// The library's name of the store of a web server, which gets no credentials.
const WEB: &str = "HTTP";
/// Begins the library's text for a server that sends a whole object in place of a part.
const NO_RANGES: &str = "Range request not supported";
/// Status of a range that begins past the end of an object.
const RANGE_NOT_SATISFIABLE: u16 = 416;
/// Most characters of a code, and of the library's words.
const MAX_WORDS: usize = 100;

/// Converts an error of the library.
pub(crate) fn convert(error: &Error) -> StoreError {
    let answer = Answer::of(error);
    let is_no_bucket = answer.as_ref().is_some_and(|answer| NO_BUCKET.contains(&&answer.code[..]));
    match (error, answer.as_ref().map(|answer| answer.number)) {
        _ if needs_credentials(error) => StoreError::Denied(
            "there are no credentials: none in the environment and its files, and none of this machine"
                .into(),
        ),
        _ if is_no_bucket => StoreError::NoStore("there is no such bucket".into()),
        (Error::NotFound { .. }, _) => StoreError::Missing,
        (Error::AlreadyExists { .. } | Error::Precondition { .. }, _) => StoreError::Changed,
        (Error::PermissionDenied { .. } | Error::Unauthenticated { .. }, _) | (_, Some(401 | 403)) => {
            StoreError::Denied(reason(error))
        }
        (_, Some(507)) => StoreError::Full(reason(error)),
        (Error::NotSupported { .. } | Error::NotImplemented { .. }, _) => {
            StoreError::Unsupported(reason(error))
        }
        _ => StoreError::Failed(reason(error)),
    }
}

/// True where the body of an answer was cut off: it came from a server that answers, and another attempt may
/// succeed. The library says more about a request that failed as a whole, which it has tried again itself.
pub(crate) fn is_cut(error: &Error) -> bool {
    use HttpErrorKind::{Decode, Interrupted, Request, Unknown};
    let body = error.source().and_then(|source| source.downcast_ref::<HttpError>());
    body.is_some_and(|error| matches!(error.kind(), Decode | Interrupted | Request | Unknown))
}

/// True where a server says that an object ends before the bytes that were asked for.
pub(crate) fn is_behind_end(error: &Error) -> bool {
    Answer::of(error).is_some_and(|answer| answer.number == RANGE_NOT_SATISFIABLE)
}

/// True where a server of credentials was asked in vain.
fn needs_credentials(error: &Error) -> bool {
    let Error::Generic { store, .. } = error else { return false };
    *store != WEB && chain(error).any(|error| is_of_credentials(&error.to_string()))
}

/// True for the text of a request to a server of credentials. The server's own words do not count.
fn is_of_credentials(text: &str) -> bool {
    let text = text.split(RETURNED).next().unwrap_or_default();
    text.split(PERFORMING).skip(1).any(|request| {
        let url = request.split(' ').nth(1).unwrap_or_default();
        METADATA.iter().any(|server| url.starts_with(server))
    })
}

/// An answer with more bytes than any right one has.
#[derive(Debug)]
pub(crate) struct Oversized(pub(crate) usize);

impl std::error::Error for Oversized {}

impl fmt::Display for Oversized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the answer has more than {} bytes", self.0)
    }
}

/// A listing of which a page comes again, or that has too many pages.
#[derive(Debug)]
pub(crate) struct Endless;

impl std::error::Error for Endless {}

impl fmt::Display for Endless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the listing has no end: a page of it comes again, or there are too many")
    }
}

/// An answer of a server that is not a success.
struct Answer {
    number: u16,
    status: String,
    code: String,
}

impl Answer {
    /// Finds the answer in an error. The library has it in a private type; its text is all there is.
    fn of(error: &Error) -> Option<Answer> {
        let text = chain(error).map(ToString::to_string).find(|text| text.starts_with(STATUS))?;
        let (status, body) = text[STATUS.len()..].split_once(':')?;
        let number = status.split(' ').next()?.parse().ok()?;
        Some(Answer { number, status: status.to_owned(), code: code(body).unwrap_or_default() })
    }
}

/// The code in the body of an answer, which is one word.
fn code(body: &str) -> Option<String> {
    let (_, rest) = body.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    let is_word = code.len() <= MAX_WORDS && code.chars().all(|c| c.is_ascii_alphanumeric());
    is_word.then(|| code.to_owned())
}

/// The reason in words.
fn reason(error: &Error) -> String {
    if let Some(Answer { status, code, .. }) = Answer::of(error) {
        return match &code[..] {
            "" => format!("the store answers: {status}"),
            code => format!("the store answers: {status} ({code})"),
        };
    }
    if chain(error).any(|error| error.to_string().starts_with(NO_RANGES)) {
        return "the web server must answer range requests, and does not".into();
    }
    if let Some(oversized) = chain(error).find_map(|error| error.downcast_ref::<Oversized>()) {
        return oversized.to_string();
    }
    if chain(error).any(|error| error.is::<Endless>()) {
        return Endless.to_string();
    }
    if chain(error).any(|error| error.is::<Redirected>()) {
        return Redirected.to_string();
    }
    if let Some(network) = chain(error).find_map(|error| error.downcast_ref::<HttpError>()) {
        let what = match network.kind() {
            HttpErrorKind::Connect => "cannot connect",
            HttpErrorKind::Timeout => "no answer in time",
            HttpErrorKind::Interrupted | HttpErrorKind::Request => "the connection was cut",
            _ => "the connection failed",
        };
        let deepest = chain(error).last().map(ToString::to_string).unwrap_or_default();
        return format!("{what}: {}", words(&deepest));
    }
    // The reason of a request that failed is the error after it.
    let mut texts = chain(error).skip(1).map(ToString::to_string);
    let said = texts.find(|text| !text.starts_with(PERFORMING));
    words(&said.unwrap_or_else(|| error.to_string()))
}

/// The first words of a text: those of the library, before any value.
fn words(text: &str) -> String {
    let text = text.split([':', '"', '\'', '`', '\n']).next().unwrap_or_default();
    let text = text.split(" (os error").next().unwrap_or_default();
    text.chars().take(MAX_WORDS).collect()
}

/// An error and the errors after it.
fn chain(error: &Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    let first: &(dyn std::error::Error + 'static) = error;
    std::iter::successors(Some(first), |&error| error.source())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(text: &str) -> Error {
        Error::Generic { store: "S3", source: text.to_owned().into() }
    }

    #[test]
    fn values_are_not_passed_on() {
        for (text, words) in [
            (
                "Unable to decode service account file: invalid type: string \"secret\"",
                "Unable to decode service account file",
            ),
            ("Configuration key: 'secret' is not known.", "Configuration key"),
            ("Missing SecretAccessKey", "Missing SecretAccessKey"),
        ] {
            assert!(matches!(convert(&generic(text)), StoreError::Failed(said) if said == words));
        }
    }

    #[test]
    fn a_server_of_credentials_that_is_not_there_is_none() {
        let error =
            generic("Error performing PUT http://169.254.169.254/latest/api/token in 1s - HTTP error");
        assert!(matches!(convert(&error), StoreError::Denied(why) if why.contains("no credentials")));
    }

    #[test]
    fn what_only_names_a_server_of_credentials_is_another_failure() {
        let url = "http://169.254.169.254/latest/";
        for error in [
            generic(&format!("Error performing GET https://host/x in 1s - {STATUS}403 Forbidden: {url}")),
            generic(&format!(
                "Error performing GET https://host/x in 1s - {STATUS}403 Forbidden: Error performing GET {url} "
            )),
            generic("Error performing GET https://host//metadata/packs/x in 1s - HTTP error"),
            Error::Generic {
                store: WEB,
                source: format!("Error performing GET {url} in 1s - HTTP error").into(),
            },
        ] {
            let told = convert(&error).to_string();
            assert!(!told.contains("no credentials"), "{told}");
        }
    }

    #[test]
    fn a_server_without_ranges_is_told_and_not_the_object() {
        let error = Error::NotSupported { source: format!("{NO_RANGES} by packs/75").into() };
        let told = convert(&error).to_string();
        assert!(told.contains("must answer range requests") && !told.contains("packs"), "{told}");
    }

    #[test]
    fn an_answer_is_its_status_and_its_code() {
        let answer = |body: &str| generic(&format!("{STATUS}403 Forbidden: {body}"));
        let denied = convert(&answer("<Error><Code>SignatureDoesNotMatch</Code><Key>secret</Key></Error>"));
        assert!(
            matches!(&denied, StoreError::Denied(why) if why == "the store answers: 403 Forbidden (SignatureDoesNotMatch)"),
            "{denied}"
        );
        let strange = convert(&answer("<Code>a secret</Code>"));
        assert!(matches!(&strange, StoreError::Denied(why) if why == "the store answers: 403 Forbidden"));
        let bucket = convert(&answer("<Code>NoSuchBucket</Code>"));
        assert!(matches!(bucket, StoreError::NoStore(_)));
        let full = generic(&format!("{STATUS}507 Insufficient Storage: "));
        assert!(matches!(convert(&full), StoreError::Full(_)));
    }
}
