//! Errors of `object_store` as errors of a store.
//!
//! Their texts have URLs with signatures, bodies of answers, and parts of files with credentials. So no text
//! is passed on, except for: the status of an answer, the code in its body, the reason of the network or of
//! TLS, and the first words of the library's own texts.

use lanefs_publish::StoreError;
use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};
use std::error::Error as _;

/// The library's text for an answer that is no success; status and body follow.
const STATUS: &str = "Server returned non-2xx status code: ";
/// Codes by which services say that there is no bucket.
const NO_BUCKET: [&str; 3] = ["NoSuchBucket", "ContainerNotFound", "InvalidBucketName"];
/// Servers that give credentials to machines of a cloud. The library asks them where it has none.
const METADATA: [&str; 3] = ["//169.254.169.254/", "//metadata/", "//metadata.google.internal/"];
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

/// True for a failure of the way to the store, after which another attempt may succeed.
pub(crate) fn is_of_network(error: &Error) -> bool {
    chain(error).any(|error| error.is::<HttpError>())
}

/// True where a server of credentials was asked in vain.
fn needs_credentials(error: &Error) -> bool {
    chain(error).map(ToString::to_string).any(|text| METADATA.iter().any(|server| text.contains(server)))
}

/// An answer of a server that is no success.
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
    let source = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    words(&source)
}

/// The first words of a text: those of the library, before any value.
fn words(text: &str) -> String {
    let text = text.split([':', '"', '\'', '`', '\n']).next().unwrap_or_default();
    let text = text.split(" (os error").next().unwrap_or_default();
    text.chars().take(MAX_WORDS).collect()
}

/// An error and the errors behind it.
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
