//! Requests over HTTP: ranges, and what the statuses mean.

use std::ops::Range;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use reqwest::header::{
    AUTHORIZATION, CONTENT_RANGE, ETAG, HeaderMap, HeaderValue, RANGE, RETRY_AFTER,
};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Method, Response, StatusCode};
use rustls::crypto::ring::default_provider;
use tetris_tls_roots::roots_for;
use url::{Host, Url};

use super::Body;
use crate::error::{PullError, Trouble, chain};
use crate::name::shown;
use crate::options::PullOptions;

/// Most redirects of a request.
const REDIRECTS: usize = 5;
/// Longest time of an attempt to connect.
const CONNECT: Duration = Duration::from_secs(10);

/// Next steps for users, by the kind of source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Remedies {
    /// For status 401.
    pub(crate) unauthorized: &'static str,
    /// For status 403.
    pub(crate) forbidden: &'static str,
    /// For status 404.
    pub(crate) missing: &'static str,
}

/// A client over HTTP/1.1, which gives each range a connection: many of them are faster than streams of
/// one.
#[derive(Debug)]
pub(crate) struct HttpClient {
    client: reqwest::Client,
    remedies: Remedies,
}

/// A part of a file.
pub(crate) struct Part {
    pub(crate) body: Body,
    /// The address that answered, after redirects.
    pub(crate) url: Url,
}

/// Properties of a file, from the answer to a request of its first byte.
#[derive(Debug)]
pub(crate) struct Probe {
    pub(crate) size: u64,
    pub(crate) version: Option<String>,
}

impl HttpClient {
    /// A client for `base`. Where that has TLS, no redirect leads to an address without.
    pub(crate) fn new(
        base: &Url,
        remedies: Remedies,
        options: &PullOptions,
    ) -> Result<Self, PullError> {
        // For the process: a provider installed before is as good.
        let _installed = default_provider().install_default();
        let client = reqwest::Client::builder()
            .user_agent(concat!("tetris/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .pool_max_idle_per_host(options.connections.get())
            .https_only(base.scheme() == "https")
            // Headers with credentials stay behind where a redirect leads to another host.
            .redirect(Policy::limited(REDIRECTS))
            .http1_only()
            .no_gzip();
        let failed = |problem: String| PullError::Client {
            source_name: shown(base),
            problem,
        };
        let roots = match roots_for("https:") {
            Ok(roots) => roots,
            // Without TLS none is needed, and a redirect to a server with it fails with its certificate.
            Err(_) if base.scheme() == "http" => Vec::new(),
            Err(error) => return Err(failed(error.to_string())),
        };
        // Not those that the library looks for by itself: it makes no client where the system has none.
        let roots = roots
            .iter()
            .filter_map(|root| Certificate::from_der(root).ok());
        let client = client.tls_certs_only(roots);
        let client = client.build();
        let client = client.map_err(|error| failed(chain(&error.without_url())))?;
        Ok(Self { client, remedies })
    }

    /// The answer to a request, if it is a success.
    async fn get(
        &self,
        url: &Url,
        mut headers: HeaderMap,
        range: Option<&Range<u64>>,
    ) -> Result<Response, Trouble> {
        if let Some(range) = range {
            let last = range.end.saturating_sub(1);
            let range = HeaderValue::try_from(format!("bytes={}-{last}", range.start));
            headers.extend(range.ok().map(|range| (RANGE, range)));
        }
        let answer = self.send(url, headers).await?;
        if answer.status().is_success() {
            Ok(answer)
        } else {
            Err(self.refused(url, answer.status(), answer.headers()))
        }
    }

    /// The answer to a request, whatever its status.
    pub(crate) async fn send(&self, url: &Url, headers: HeaderMap) -> Result<Response, Trouble> {
        let answer = self.client.get(url.clone()).headers(headers).send().await;
        answer.map_err(|error| trouble(url, error))
    }

    /// Sends a body by this method, and returns the headers of a successful answer.
    pub(crate) async fn send_body(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: impl Into<reqwest::Body>,
    ) -> Result<HeaderMap, Trouble> {
        let request = self.client.request(method, url.clone());
        let answer = request.headers(headers).body(body).send().await;
        let mut answer = answer.map_err(|error| trouble(url, error))?;
        if answer.status().is_success() {
            Ok(std::mem::take(answer.headers_mut()))
        } else {
            Err(self.refused(url, answer.status(), answer.headers()))
        }
    }

    /// Returns true if there is something at `url`.
    pub(crate) async fn exists(&self, url: &Url, headers: HeaderMap) -> Result<bool, Trouble> {
        let answer = self.client.head(url.clone()).headers(headers).send().await;
        let answer = answer.map_err(|error| trouble(url, error))?;
        match answer.status() {
            StatusCode::NOT_FOUND => Ok(false),
            status if status.is_success() => Ok(true),
            status => Err(self.refused(url, status, answer.headers())),
        }
    }

    /// The whole body of at most `limit` bytes.
    pub(crate) async fn whole(
        &self,
        url: &Url,
        headers: HeaderMap,
        limit: u64,
    ) -> Result<Vec<u8>, Trouble> {
        let mut body = self.get(url, headers, None).await?;
        let mut bytes = Vec::new();
        while let Some(chunk) = body.chunk().await.map_err(|error| trouble(url, error))? {
            if (bytes.len() + chunk.len()) as u64 > limit {
                return Err(Trouble::Final(PullError::Listing {
                    address: shown(url),
                    problem: format!("expected at most {limit} bytes, found more"),
                }));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    /// Length and version of the file at `url`.
    pub(crate) async fn probe(&self, url: &Url, headers: HeaderMap) -> Result<Probe, Trouble> {
        let answer = self.get(url, headers.clone(), Some(&(0..1))).await;
        let answer = match answer {
            // An empty file has no first byte.
            Err(Trouble::Final(PullError::Changed { .. })) => self.get(url, headers, None).await?,
            answer => answer?,
        };
        let size = match answer.status() {
            StatusCode::PARTIAL_CONTENT => content_range(answer.headers()).map(|part| part.total),
            _ => answer.content_length(),
        };
        let size = size.ok_or_else(|| PullError::Listing {
            address: shown(url),
            problem: "the server does not say how long the file is".to_owned(),
        })?;
        Ok(Probe {
            size,
            version: strong_tag(answer.headers()),
        })
    }

    /// The bytes of `range` of a file of `size` bytes, in the version `version` if one is known.
    pub(crate) async fn part(
        &self,
        url: &Url,
        headers: HeaderMap,
        range: Range<u64>,
        size: u64,
        version: Option<&str>,
    ) -> Result<Part, Trouble> {
        let answer = match self.get(url, headers, Some(&range)).await {
            // Stores of hubs give this status within a file, too, when they are in trouble.
            Err(Trouble::Final(PullError::Changed {
                expected, found, ..
            })) => {
                return Err(Trouble::passing(format!(
                    "expected {expected}, found {found}"
                )));
            }
            answer => answer?,
        };
        let headers = answer.headers();
        let changed = |expected: String, found: String| PullError::Changed {
            address: shown(url),
            expected,
            found,
        };
        let is_whole = answer.content_length() == Some(size) && range == (0..size);
        match (answer.status(), content_range(headers)) {
            (StatusCode::PARTIAL_CONTENT, Some(part)) => {
                if part.total != size {
                    let bytes = |size| format!("{size} bytes");
                    return Err(changed(bytes(size), bytes(part.total)).into());
                }
                if part.first != range.start || part.last >= range.end {
                    return Err(Trouble::passing(format!(
                        "expected bytes from {} below {}, found {} to {}",
                        range.start, range.end, part.first, part.last
                    )));
                }
            }
            (StatusCode::OK, _) if is_whole => {}
            (status, _) => {
                return Err(Trouble::Final(PullError::NoRanges {
                    address: shown(url),
                    found: status.to_string(),
                }));
            }
        }
        if let (Some(expected), Some(found)) = (version, strong_tag(headers))
            && expected != found
        {
            return Err(changed(format!("entity tag {expected}"), found).into());
        }
        let url = answer.url().clone();
        let of_body = url.clone();
        let body = answer
            .bytes_stream()
            .map_err(move |error| trouble(&of_body, error))
            .boxed();
        Ok(Part { body, url })
    }

    fn refused(&self, url: &Url, status: StatusCode, headers: &HeaderMap) -> Trouble {
        let refused = |remedy| {
            Trouble::Final(PullError::Refused {
                address: shown(url),
                status: status.to_string(),
                remedy,
            })
        };
        match status.as_u16() {
            401 => refused(self.remedies.unauthorized),
            403 => refused(self.remedies.forbidden),
            404 | 410 => refused(self.remedies.missing),
            416 => Trouble::Final(PullError::Changed {
                address: shown(url),
                expected: "a file with that range".to_owned(),
                found: "a shorter one".to_owned(),
            }),
            408 | 425 | 429 | 500.. => Trouble::Passing {
                reason: format!("status {status}"),
                after: retry_after(headers),
            },
            _ => refused("see what the server expects"),
        }
    }
}

/// Returns true for an address of this machine: what is sent to it takes no network.
pub(crate) fn is_of_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Headers with an authorization, e.g. `Bearer TOKEN`, which no log shows.
pub(crate) fn authorized(authorization: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(mut value) = authorization.and_then(|text| HeaderValue::try_from(text).ok()) {
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    headers
}

/// Headers with a bearer token.
pub(crate) fn bearer(token: Option<&str>) -> HeaderMap {
    authorized(token.map(|token| format!("Bearer {token}")).as_deref())
}

/// `Content-Range: bytes FIRST-LAST/TOTAL`.
struct ContentRange {
    first: u64,
    last: u64,
    total: u64,
}

fn content_range(headers: &HeaderMap) -> Option<ContentRange> {
    let text = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    Some(ContentRange {
        first: first.trim().parse().ok()?,
        last: last.trim().parse().ok()?,
        total: total.trim().parse().ok()?,
    })
}

/// The entity tag that names the very bytes; a weak one does not.
fn strong_tag(headers: &HeaderMap) -> Option<String> {
    let tag = headers.get(ETAG)?.to_str().ok()?;
    (tag.starts_with('"') && tag.len() > 2).then(|| tag.to_owned())
}

/// The wait that a server asks for, in seconds. A date is not taken: the clocks may differ.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse();
    seconds.ok().map(Duration::from_secs)
}

/// The trouble of a request. Without the address in the error, which may be signed.
fn trouble(url: &Url, error: reqwest::Error) -> Trouble {
    Trouble::of_client(&shown(url), &error.without_url())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_leaves_this_machine_over_tls_only() {
        let is_here = |text: &str| is_of_this_machine(&Url::parse(text).unwrap());
        for here in [
            "http://localhost:1/x",
            "http://127.0.0.2/x",
            "http://[::1]/x",
        ] {
            assert!(is_here(here), "{here}");
        }
        for elsewhere in [
            "http://localhost.evil/x",
            "http://10.0.0.1/x",
            "http://[::2]/x",
        ] {
            assert!(!is_here(elsewhere), "{elsewhere}");
        }
    }
}
