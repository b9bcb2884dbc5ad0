//! Connections to servers. A redirect is followed to the same server only: another one would learn which
//! objects are asked for, and a store could have its reader ask any server that the reader reaches.

use crate::options::Redirects;
use object_store::{ClientConfigKey, ClientOptions};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{NoProxy, Proxy, Url};
use std::fmt;
use std::time::Duration;

/// Redirects in a row at most.
const MOST_REDIRECTS: usize = 10;

/// A redirect that is not followed.
#[derive(Debug)]
pub(crate) struct Redirected;

impl std::error::Error for Redirected {}

impl fmt::Display for Redirected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server redirects to another server, which is not followed; give the URL of that one")
    }
}

/// Makes clients with connections of their own.
#[derive(Debug, Default)]
pub(crate) struct Connector(pub(crate) Redirects);

/// A client with connections.
pub(crate) struct Connected {
    pub(crate) client: reqwest::Client,
    /// Each connection has one request at a time: HTTP/1.
    pub(crate) is_one_by_one: bool,
}

impl Connector {
    pub(crate) fn connect(&self, options: &ClientOptions) -> object_store::Result<Connected> {
        let failed = |error: reqwest::Error| object_store::Error::Generic {
            store: "connection",
            source: error.without_url().into(),
        };
        let redirects = self.0;
        let value = |key| options.get_config_value(&key).filter(|value| !value.is_empty());
        let is_set = |key| value(key).as_deref() == Some("true");
        let mut builder = reqwest::Client::builder()
            .user_agent(value(ClientConfigKey::UserAgent).unwrap_or_else(|| "lanefs".into()))
            .redirect(Policy::custom(move |attempt| judge(attempt, redirects)))
            .https_only(!is_set(ClientConfigKey::AllowHttp))
            .tls_danger_accept_invalid_certs(is_set(ClientConfigKey::AllowInvalidCertificates));
        if let Some(url) = value(ClientConfigKey::ProxyUrl) {
            let excluded = value(ClientConfigKey::ProxyExcludes).and_then(|list| NoProxy::from_string(&list));
            builder = builder.proxy(Proxy::all(url).map_err(failed)?.no_proxy(excluded));
        }
        if let Some(time) = value(ClientConfigKey::Timeout).as_deref().and_then(duration) {
            builder = builder.timeout(time);
        }
        if let Some(time) = value(ClientConfigKey::ConnectTimeout).as_deref().and_then(duration) {
            builder = builder.connect_timeout(time);
        }
        let is_one_by_one = is_set(ClientConfigKey::Http1Only);
        if is_one_by_one {
            builder = builder.http1_only();
        }
        Ok(Connected { client: builder.build().map_err(failed)?, is_one_by_one })
    }
}

fn judge(attempt: Attempt<'_>, redirects: Redirects) -> reqwest::redirect::Action {
    let is_fine = match attempt.previous().first() {
        _ if redirects == Redirects::Anywhere => true,
        Some(first) => is_same_server(first, attempt.url()),
        None => false,
    };
    match is_fine && attempt.previous().len() <= MOST_REDIRECTS {
        true => attempt.follow(),
        false => attempt.error(Redirected),
    }
}

fn is_same_server(first: &Url, next: &Url) -> bool {
    let is_upgraded = first.scheme() == "http" && next.scheme() == "https";
    let is_same =
        first.scheme() == next.scheme() && first.port_or_known_default() == next.port_or_known_default();
    first.host_str() == next.host_str() && (is_same || is_upgraded)
}

/// Reads a time as settings have it: numbers with units.
fn duration(text: &str) -> Option<Duration> {
    let parse = |word: &str| {
        let unit = word.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = word[..unit].parse().ok()?;
        Some(match &word[unit..] {
            "ms" => Duration::from_millis(number),
            "s" | "sec" | "second" | "seconds" => Duration::from_secs(number),
            "m" | "min" | "minute" | "minutes" => Duration::from_secs(number.checked_mul(60)?),
            "h" | "hour" | "hours" => Duration::from_secs(number.checked_mul(3600)?),
            _ => return None,
        })
    };
    text.split_whitespace().map(parse).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_server_is_another_host_port_or_scheme() {
        let is_same = |first: &str, next: &str| {
            let url = |text: &str| Url::parse(text).expect("a URL");
            is_same_server(&url(first), &url(next))
        };
        assert!(is_same("http://a/x", "http://a:80/y") && is_same("http://a:8080/x", "https://a/x"));
        for next in ["http://b/x", "http://a:81/x", "http://a.b/x", "ftp://a/x"] {
            assert!(!is_same("http://a/x", next), "{next}");
        }
        assert!(!is_same("https://a/x", "http://a/x"), "no encryption any more");
    }

    #[test]
    fn times_are_read_as_settings_have_them() {
        assert_eq!(duration("90s"), Some(Duration::from_secs(90)));
        assert_eq!(duration("1m 30s"), Some(Duration::from_secs(90)));
        assert_eq!(duration("10m"), Some(Duration::from_secs(600)));
        assert_eq!(duration("soon"), None);
    }
}
