//! The wait that a bucket asks for: `object_store` would not look at it, and ask again at once.

use std::error::Error as StdError;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use thiserror::Error;

use super::http::retry_after;

/// The answer of a server that names the time of the next attempt.
#[derive(Debug, Error)]
#[error("status {status}")]
pub(super) struct RetryLater {
    status: reqwest::StatusCode,
    /// The wait that it asks for.
    pub(super) after: Duration,
}

impl RetryLater {
    /// The one among the causes of an error.
    pub(super) fn among<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            next = error.source();
        }
        None
    }
}

/// Connects clients that end a request with [`RetryLater`] where the server asks for it.
#[derive(Debug)]
pub(super) struct PatientConnector;

impl HttpConnector for PatientConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(PatientClient(client)))
    }
}

#[derive(Debug)]
struct PatientClient(HttpClient);

type Answer<'c> = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'c>>;

impl HttpService for PatientClient {
    fn call<'client, 'call>(&'client self, request: HttpRequest) -> Answer<'call>
    where
        'client: 'call,
    {
        Box::pin(async move {
            let response = self.0.execute(request).await?;
            let status = response.status();
            match retry_after(response.headers()) {
                // Of this kind nothing is tried again at once.
                Some(after) if matches!(status.as_u16(), 429 | 503) => Err(HttpError::new(
                    HttpErrorKind::Unknown,
                    RetryLater { status, after },
                )),
                _ => Ok(response),
            }
        })
    }
}
