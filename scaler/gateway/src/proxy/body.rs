//! Bodies of requests: read whole before an instance is asked for, within limits.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::StatusCode;
use hyper::body::{Body as _, Incoming};
use hyper::http::request::Parts;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::problem::Problem;

/// Bytes of one permit of the budget.
const UNIT: usize = 4 << 10;

/// Number of permits for so many bytes.
pub(super) fn units(bytes: usize) -> usize {
    bytes.div_ceil(UNIT).min(Semaphore::MAX_PERMITS)
}

/// A body that was read, with its part of the budget.
#[derive(Debug)]
pub(super) struct WholeBody {
    pub(super) bytes: Bytes,
    _budget: Option<OwnedSemaphorePermit>,
}

/// Limits of bodies.
#[derive(Debug)]
pub(crate) struct Bodies {
    most: usize,
    pause: Duration,
    budget: Arc<Semaphore>,
}

impl Bodies {
    /// Limits each body to `most` bytes and each pause of it to `pause`, and all that are in memory
    /// to `budget`.
    pub(super) const fn new(most: usize, pause: Duration, budget: Arc<Semaphore>) -> Self {
        Self {
            most,
            pause,
            budget,
        }
    }

    /// Largest size of a body, in bytes.
    pub(crate) const fn most(&self) -> usize {
        self.most
    }

    /// Reads a body.
    pub(super) async fn read(
        &self,
        parts: &Parts,
        mut body: Incoming,
    ) -> Result<WholeBody, Problem> {
        let declared = body.size_hint().lower();
        if declared > self.most as u64 {
            return Err(self.too_large(declared));
        }
        let mut budget: Option<OwnedSemaphorePermit> = None;
        let mut whole: Option<Bytes> = None;
        let mut more = BytesMut::new();
        let mut length = 0_usize;
        while let Some(frame) = tokio::time::timeout(self.pause, body.frame())
            .await
            .map_err(|_| self.slow())?
        {
            let frame = frame.map_err(|error| {
                let problem = format!(
                    "the body of {} {} ended early: {error}",
                    parts.method,
                    parts.uri.path()
                );
                Problem::new(StatusCode::BAD_REQUEST, "body-ended", problem)
            })?;
            // Trailers of a request mean nothing to servers of models.
            let Ok(data) = frame.into_data() else {
                continue;
            };
            length = length.saturating_add(data.len());
            if length > self.most {
                return Err(self.too_large(length as u64));
            }
            self.pay(&mut budget, length)?;
            // Most bodies are one frame, which need not be copied.
            match whole.take() {
                None if more.is_empty() => whole = Some(data),
                first => {
                    more.extend_from_slice(first.as_deref().unwrap_or_default());
                    more.extend_from_slice(&data);
                }
            }
        }
        Ok(WholeBody {
            bytes: whole.unwrap_or_else(|| more.freeze()),
            _budget: budget,
        })
    }

    /// Longest pause within a body.
    pub(crate) const fn pause(&self) -> Duration {
        self.pause
    }

    /// Takes the part of the budget that a body of `length` bytes needs.
    pub(crate) fn pay(
        &self,
        paid: &mut Option<OwnedSemaphorePermit>,
        length: usize,
    ) -> Result<(), Problem> {
        let have = paid.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = units(length).saturating_sub(have);
        if missing == 0 {
            return Ok(());
        }
        let count = u32::try_from(missing).unwrap_or(u32::MAX);
        let Ok(permit) = Arc::clone(&self.budget).try_acquire_many_owned(count) else {
            let problem =
                "the gateway holds too many bodies of requests; try again, or raise limits.bodies";
            return Err(Problem::unavailable(
                "bodies",
                problem.to_owned(),
                Duration::from_secs(1),
            ));
        };
        match paid {
            Some(paid) => paid.merge(permit),
            None => *paid = Some(permit),
        }
        Ok(())
    }

    pub(crate) fn too_large(&self, found: u64) -> Problem {
        let problem = format!(
            "the body has at least {found} bytes, expected {} at most (limits.body)",
            self.most
        );
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body-size", problem)
    }

    pub(crate) fn slow(&self) -> Problem {
        let problem = format!(
            "nothing of the body came within {:?} (timeouts.body)",
            self.pause
        );
        Problem::new(StatusCode::REQUEST_TIMEOUT, "body-timeout", problem)
    }
}
