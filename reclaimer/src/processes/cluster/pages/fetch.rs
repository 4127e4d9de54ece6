//! One exchange with the broker: a page, with every mistake of the broker as an error.

use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, VARY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri};
use futures::TryStreamExt as _;
use tetris_service_kit::unix_http::{UnixClient, UnixHttpError};
use thiserror::Error;

use super::budget::Reserved;
use crate::http::OBSERVED_HEADER;

/// Headers passed on. The broker may be in a pod's hands, so there are no others.
const PASSED_ON: [HeaderName; 7] = [
    CACHE_CONTROL,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    ETAG,
    VARY,
    HeaderName::from_static(OBSERVED_HEADER),
];
/// Largest reason of an answer without a page, in bytes.
const REASON: usize = 64 << 10;

/// A page to fetch.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) path: &'static str,
    pub(super) gzip: bool,
    /// Tags of the pages that are there already.
    pub(super) tags: Option<HeaderValue>,
    /// Largest page, in bytes.
    pub(super) most: usize,
}

/// The broker's answer.
#[derive(Debug)]
pub(super) struct Fetched {
    /// 200; 304 if tags were sent; 400, 404, 500 or 503 with a reason.
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// The reason that there is no answer to pass on.
#[derive(Debug, Error)]
pub(super) enum FetchError {
    /// The broker is away, too slow, or no HTTP server.
    #[error(
        "{0}; check that `tetris-node broker` runs on this node: its log says why it does not answer"
    )]
    Exchange(#[from] UnixHttpError),
    /// The broker answers with something that no version of it does.
    #[error(
        "`{socket}` answered {path} with {found}; check the version and the log of `tetris-node broker`"
    )]
    Unexpected {
        socket: String,
        path: &'static str,
        found: String,
    },
    /// The page is too large.
    #[error(
        "`{socket}` answered {path} with a page of over {most} bytes; ask for less, such as /status without models"
    )]
    TooLarge {
        socket: String,
        path: &'static str,
        most: usize,
    },
    /// Clients still read as many pages as there may be.
    #[error(
        "slow clients read older pages, which take all of the {0} bytes for pages; try again in 30 s"
    )]
    NoMemory(usize),
}

/// Fetches a page. `reserve` gives the memory for it, or the error that there is none.
pub(super) async fn fetch(
    client: &UnixClient,
    wanted: &Wanted,
    reserve: impl FnMut(usize) -> Result<Reserved, FetchError>,
) -> Result<Fetched, FetchError> {
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = Uri::from_static(wanted.path);
    let headers = request.headers_mut();
    if wanted.gzip {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if let Some(tags) = &wanted.tags {
        headers.insert(IF_NONE_MATCH, tags.clone());
    }
    let read = |answer| Answer { client, wanted }.read(answer, reserve);
    client.exchange(request, read).await?
}

struct Answer<'a> {
    client: &'a UnixClient,
    wanted: &'a Wanted,
}

impl Answer<'_> {
    async fn read(
        self,
        answer: Response<Body>,
        mut reserve: impl FnMut(usize) -> Result<Reserved, FetchError>,
    ) -> Result<Fetched, FetchError> {
        let (parts, body) = answer.into_parts();
        let status = parts.status;
        let encoding = parts.headers.get(CONTENT_ENCODING);
        if encoding.is_some_and(|encoding| encoding != "gzip" || !self.wanted.gzip) {
            return Err(self.unexpected(format!("the encoding {encoding:?}")));
        }
        let body = match status {
            StatusCode::OK => {
                let length = body.size_hint().exact();
                let length = length.map(|length| usize::try_from(length).unwrap_or(usize::MAX));
                let room = length.unwrap_or(self.wanted.most);
                if room > self.wanted.most {
                    return Err(self.too_large(self.wanted.most));
                }
                let reserved = reserve(room)?;
                let start = Vec::with_capacity(length.unwrap_or_default());
                reserved.keep(self.bytes(body, start, room).await?)
            }
            StatusCode::NOT_MODIFIED if self.wanted.tags.is_some() => Bytes::new(),
            StatusCode::BAD_REQUEST
            | StatusCode::NOT_FOUND
            | StatusCode::INTERNAL_SERVER_ERROR
            | StatusCode::SERVICE_UNAVAILABLE => self.bytes(body, Vec::new(), REASON).await?.into(),
            _ => return Err(self.unexpected(format!("the status {status}"))),
        };
        let passed_on = PASSED_ON.into_iter().filter_map(|name| {
            let value = parts.headers.get(&name)?.clone();
            Some((name, value))
        });
        Ok(Fetched {
            status,
            headers: passed_on.collect(),
            body,
        })
    }

    /// Reads at most `most` bytes.
    async fn bytes(
        &self,
        body: Body,
        mut bytes: Vec<u8>,
        most: usize,
    ) -> Result<Vec<u8>, FetchError> {
        let mut frames = body.into_data_stream();
        loop {
            match frames.try_next().await {
                Ok(None) => return Ok(bytes),
                Ok(Some(frame)) if frame.len() > most - bytes.len() => {
                    return Err(self.too_large(most));
                }
                Ok(Some(frame)) => bytes.extend_from_slice(&frame),
                Err(error) => {
                    let path = self.client.path().to_owned();
                    let source = error.into_inner();
                    return Err(UnixHttpError::Exchange { path, source }.into());
                }
            }
        }
    }

    fn unexpected(&self, found: String) -> FetchError {
        FetchError::Unexpected {
            socket: self.client.path().display().to_string(),
            path: self.wanted.path,
            found,
        }
    }

    fn too_large(&self, most: usize) -> FetchError {
        FetchError::TooLarge {
            socket: self.client.path().display().to_string(),
            path: self.wanted.path,
            most,
        }
    }
}
