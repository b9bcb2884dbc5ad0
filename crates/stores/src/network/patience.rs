//! Between `object_store` and a server that asks for time, or has no measure.
//!
//! The library tries again after pauses of its own, and does not look at `Retry-After`. It reads whole bodies
//! into memory, as large as the server says or sends. So all bodies are read here, to a bound. Only those of
//! ranged reads go on as streams, whose reader has a bound of its own.

use super::connection::{Connected, Connector};
use super::early;
use super::failure::{Endless, Oversized};
use crate::options::Redirects;
use async_trait::async_trait;
use futures_util::StreamExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService,
};
use std::cell::RefCell;
use std::collections::HashSet;
use std::time::Duration;

/// Longest wait that a server gets.
const LONGEST: Duration = Duration::from_secs(30);
/// Status of a server that gets too many requests.
const TOO_MANY_REQUESTS: u16 = 429;
/// Status of a server that is not available.
const UNAVAILABLE: u16 = 503;

/// Most bytes of an answer that is not a success, and of one to a write.
const MAX_SMALL_BYTES: usize = 64 << 10;
/// Most bytes of any other answer: a page of a listing, a small object, credentials.
const MAX_BODY_BYTES: usize = 16 << 20;

/// Pages of a listing at most: of 1,000 objects each, these are more than the memory for a listing takes.
const MAX_PAGES: usize = 1 << 16;

tokio::task_local! {
    /// The pages that the listing of this task has had so far.
    static PAGES: RefCell<HashSet<String>>;
}

/// Does the work of a listing, whose pages end: none comes twice.
pub(crate) async fn listing<T>(work: impl Future<Output = T>) -> T {
    PAGES.scope(RefCell::default(), work).await
}

/// Notes a page of a listing that was answered.
fn note_page(page: &str) -> Result<(), HttpError> {
    let is_new = PAGES.try_with(|pages| {
        let mut pages = pages.borrow_mut();
        pages.len() < MAX_PAGES && pages.insert(page.into())
    });
    match is_new {
        Ok(false) => Err(HttpError::new(HttpErrorKind::Decode, Endless)),
        _ => Ok(()),
    }
}

/// Makes clients that wait.
#[derive(Debug, Default)]
pub(crate) struct Patient(Connector);

impl Patient {
    /// Makes clients that follow these redirects.
    pub(crate) fn with(redirects: Redirects) -> Self {
        Patient(Connector(redirects))
    }
}

impl HttpConnector for Patient {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let Connected { client, is_one_by_one } = self.0.connect(options)?;
        let early = is_one_by_one.then(|| client.clone());
        Ok(HttpClient::new(PatientClient { client: HttpClient::new(client), early }))
    }
}

#[derive(Debug)]
struct PatientClient {
    client: HttpClient,
    /// The same, where connections may be made early.
    early: Option<reqwest::Client>,
}

#[async_trait]
impl HttpService for PatientClient {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let is_ranged = request.headers().contains_key("range");
        let most = if request.method() == "PUT" { MAX_SMALL_BYTES } else { MAX_BODY_BYTES };
        let page = request.uri().to_string();
        if let Some(client) = &self.early {
            early::connect_beside(client, &request);
        }
        let response = self.client.execute(request).await?;
        let response = match response.status().is_success() {
            true if is_ranged => response,
            true => {
                let response = whole(response, most).await?;
                note_page(&page)?;
                response
            }
            false => beginning(response).await,
        };
        if matches!(response.status().as_u16(), TOO_MANY_REQUESTS | UNAVAILABLE) {
            let asked = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
            if let Some(seconds) = asked.and_then(|text| text.trim().parse().ok()) {
                tokio::time::sleep(Duration::from_secs(seconds).min(LONGEST)).await;
            }
        }
        Ok(response)
    }
}

/// Receives the body of a success, which is an error where it is too large.
async fn whole(response: HttpResponse, most: usize) -> Result<HttpResponse, HttpError> {
    let (mut head, body) = response.into_parts();
    let (mut bytes, mut stream) = (Vec::new(), body.bytes_stream());
    while let Some(part) = stream.next().await {
        let part = part.map_err(cut)?;
        if bytes.len() + part.len() > most {
            return Err(HttpError::new(HttpErrorKind::Decode, Oversized(most)));
        }
        bytes.extend_from_slice(&part);
    }
    // A body in chunks has no length, and the library wants one of an object.
    head.headers.insert("content-length", bytes.len().into());
    Ok(HttpResponse::from_parts(head, bytes.into()))
}

/// The error of a body. The server has answered by then. So none may look as if the request had not been
/// sent: the library would send it again, even one that must not be repeated.
fn cut(error: HttpError) -> HttpError {
    match error.kind() {
        HttpErrorKind::Timeout => error,
        _ => HttpError::new(HttpErrorKind::Interrupted, error),
    }
}

/// Receives the beginning of the body of an answer that is not a success. Its status is what counts, so a
/// body that is too large or cut ends early.
async fn beginning(response: HttpResponse) -> HttpResponse {
    let (mut head, body) = response.into_parts();
    let (mut bytes, mut stream) = (Vec::new(), body.bytes_stream());
    while let Some(Ok(part)) = stream.next().await {
        bytes.extend_from_slice(&part[..part.len().min(MAX_SMALL_BYTES - bytes.len())]);
        if bytes.len() == MAX_SMALL_BYTES {
            break;
        }
    }
    head.headers.remove("content-length");
    // The library wants text, and the end may be half a character.
    let text = String::from_utf8_lossy(&bytes).into_owned();
    HttpResponse::from_parts(head, HttpResponseBody::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers every request with a status and a `Retry-After`.
    #[derive(Debug)]
    struct Answers(u16, &'static str);

    #[async_trait]
    impl HttpService for Answers {
        async fn call(&self, _: HttpRequest) -> Result<HttpResponse, HttpError> {
            let mut response = HttpResponse::new(HttpResponseBody::from(String::new()));
            *response.status_mut() = self.0.try_into().expect("a status");
            response.headers_mut().insert("retry-after", self.1.parse().expect("a value"));
            Ok(response)
        }
    }

    /// The time is tokio's own, which stands still but for sleeps.
    #[tokio::test(start_paused = true)]
    async fn a_server_is_given_the_time_that_it_asks_for_within_reason() {
        for (status, asked, seconds) in
            [(503, "7", 7), (429, "7", 7), (429, "86400", 30), (200, "7", 0), (500, "7", 0), (503, "soon", 0)]
        {
            let client = PatientClient { client: HttpClient::new(Answers(status, asked)), early: None };
            let begin = tokio::time::Instant::now();
            client.call(HttpRequest::new(String::new().into())).await.expect("an answer");
            assert_eq!(begin.elapsed().as_secs(), seconds, "{status} {asked}");
        }
    }
}
