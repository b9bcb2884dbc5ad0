//! Waiting as long as a server asks for. `object_store` tries again after pauses of its own, and does not
//! look at `Retry-After`.

use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use std::time::Duration;

/// Longest wait that a server gets.
const LONGEST: Duration = Duration::from_secs(30);
/// Status of a server that gets too many requests.
const TOO_MANY_REQUESTS: u16 = 429;
/// Status of a server that is not available.
const UNAVAILABLE: u16 = 503;

/// Makes clients that wait.
#[derive(Debug, Default)]
pub(crate) struct Patient(ReqwestConnector);

impl HttpConnector for Patient {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(PatientClient(self.0.connect(options)?)))
    }
}

#[derive(Debug)]
struct PatientClient(HttpClient);

#[async_trait]
impl HttpService for PatientClient {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let response = self.0.execute(request).await?;
        if matches!(response.status().as_u16(), TOO_MANY_REQUESTS | UNAVAILABLE) {
            let asked = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
            if let Some(seconds) = asked.and_then(|text| text.trim().parse().ok()) {
                tokio::time::sleep(Duration::from_secs(seconds).min(LONGEST)).await;
            }
        }
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::client::HttpResponseBody;

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
            let client = PatientClient(HttpClient::new(Answers(status, asked)));
            let begin = tokio::time::Instant::now();
            client.call(HttpRequest::new(String::new().into())).await.expect("an answer");
            assert_eq!(begin.elapsed().as_secs(), seconds, "{status} {asked}");
        }
    }
}
