//! Access to the inventory: by a token that the API server vouches for, of an account that the
//! configuration names.
//!
//! Guarantees:
//! - An answer to a client without access has no body.
//! - A decision is good for [`AccessLimits::good_for`] since the API server made it. It is made anew
//!   before, in the background, so an API server that is away for less than the rest of that time
//!   keeps no client out that was admitted, and none longer.
//! - Clients without access cost the API server little: it is asked a few times a second for all
//!   of them, and an address with a refused token has to wait. Clients that were admitted are not
//!   among them.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tetris_service_kit::http::ClientAddress;
use tetris_store_layout::Digest;
use thiserror::Error;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// The reason the API server did not decide.
#[derive(Debug, Error)]
#[error("{problem}; {next_step}")]
pub struct ReviewError {
    /// The failure.
    pub problem: String,
    /// The administrator's next step.
    pub next_step: &'static str,
}

/// Decides about tokens: the API server.
pub trait TokenReviewer: Send + Sync + 'static {
    /// Returns the name of the account whose token this is; none if the token is not valid for this
    /// daemon.
    fn review(
        &self,
        token: &str,
    ) -> impl Future<Output = Result<Option<String>, ReviewError>> + Send;
}

/// Limits of decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessLimits {
    /// Time for which a client stays admitted without a new decision.
    pub good_for: Duration,
    /// Age at which a decision is made anew in the background, and least time between two attempts.
    pub renew_after: Duration,
    /// Time for which an address whose token was refused is not reviewed again.
    pub put_off: Duration,
    /// Longest wait for a decision: less than [`Limits::request`](super::Limits::request), after
    /// which the connection is cut.
    pub answer: Duration,
    /// Reviews at once of clients that are not admitted yet.
    pub reviews: usize,
    /// Least time between two of these, over a longer time,
    pub interval: Duration,
    /// and number of them that may come at once after a quiet time.
    pub burst: u32,
}

impl Default for AccessLimits {
    fn default() -> Self {
        Self {
            good_for: Duration::from_mins(2),
            renew_after: Duration::from_secs(40),
            put_off: Duration::from_secs(10),
            answer: Duration::from_secs(3),
            reviews: 4,
            interval: Duration::from_millis(200),
            burst: 10,
        }
    }
}

/// Tokens that are admitted at a time, and addresses that are put off. Of addresses there may be
/// more: then nobody is reviewed until one's time is over.
const MOST_ADMITTED: usize = 64;
const MOST_PUT_OFF: usize = 4096;
/// Longest token. Those of the API server have about a kilobyte.
const TOKEN_BYTES: usize = 16 << 10;

/// Decides who may read the inventory.
#[derive(Debug)]
pub struct Gate<R> {
    reviewer: R,
    clients: BTreeSet<String>,
    limits: AccessLimits,
    turns: Semaphore,
    decisions: Mutex<Decisions>,
}

#[derive(Debug, Default)]
struct Decisions {
    /// By the digest of the token: tokens themselves are not kept.
    admitted: HashMap<Digest, Admitted>,
    /// End of the time for which an address is put off.
    put_off: HashMap<IpAddr, Instant>,
    /// Time at which the next review would be due at an even pace.
    next_review: Option<Instant>,
    /// True while the API server does not decide, which was logged.
    is_undecided: bool,
}

#[derive(Debug, Clone, Copy)]
struct Admitted {
    decided: Instant,
    /// Start of the latest attempt to decide anew.
    renewed: Instant,
}

/// Decision about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Admitted,
    /// No token, or none that is valid here.
    Unauthenticated,
    /// The token of another account.
    Forbidden,
    /// The address has to wait.
    PutOff,
    /// Nobody can decide at the moment.
    Undecided,
}

/// State of a token that was admitted before.
enum Known {
    No,
    Good,
    /// Good, and the caller must have it decided anew.
    Ageing,
}

impl<R: TokenReviewer> Gate<R> {
    /// Admits `clients`, by decisions of `reviewer`.
    pub fn new(
        reviewer: R,
        clients: impl IntoIterator<Item = String>,
        limits: AccessLimits,
    ) -> Self {
        Self {
            reviewer,
            clients: clients.into_iter().collect(),
            limits,
            turns: Semaphore::new(limits.reviews.max(1)),
            decisions: Mutex::default(),
        }
    }

    async fn decide(self: &Arc<Self>, address: IpAddr, headers: &HeaderMap) -> Access {
        let Some(token) = bearer(headers) else {
            return Access::Unauthenticated;
        };
        let key = Digest::of(token.as_bytes());
        match self.known(key) {
            Known::Good => return Access::Admitted,
            Known::Ageing => {
                let (gate, token) = (Arc::clone(self), token.to_owned());
                tokio::spawn(async move { gate.review(key, &token).await });
                return Access::Admitted;
            }
            Known::No => {}
        }
        if self.is_put_off(address) {
            return Access::PutOff;
        }
        let Some(_turn) = self.turn() else {
            return Access::Undecided;
        };
        let access = self.review(key, token).await;
        if matches!(access, Access::Unauthenticated | Access::Forbidden) {
            self.put_off(address);
        }
        access
    }

    /// Has a token decided about, and keeps the decision.
    async fn review(&self, key: Digest, token: &str) -> Access {
        let review = tokio::time::timeout(self.limits.answer, self.reviewer.review(token)).await;
        let decided = review.unwrap_or_else(|_| {
            Err(ReviewError {
                problem: format!("no answer within {:?}", self.limits.answer),
                next_step: "check that this node reaches the API server",
            })
        });
        let access = match &decided {
            Ok(Some(account)) if self.clients.contains(account) => Access::Admitted,
            Ok(Some(account)) => {
                tracing::info!(
                    account,
                    "an account may not read the inventory; field `network.inventory_clients` names those that may"
                );
                Access::Forbidden
            }
            Ok(None) => Access::Unauthenticated,
            Err(_) => Access::Undecided,
        };
        let mut decisions = self.decisions();
        match access {
            Access::Admitted => decisions.admit(key, Instant::now(), self.limits.good_for),
            Access::Undecided => {}
            _ => drop(decisions.admitted.remove(&key)),
        }
        let was_undecided = std::mem::replace(&mut decisions.is_undecided, decided.is_err());
        drop(decisions);
        match decided {
            Err(error) if !was_undecided => {
                tracing::warn!(%error, "clients of the inventory cannot be checked: those that were admitted go on for a while");
            }
            Ok(_) if was_undecided => tracing::info!("clients of the inventory are checked again"),
            _ => {}
        }
        access
    }

    fn known(&self, key: Digest) -> Known {
        let now = Instant::now();
        let mut decisions = self.decisions();
        let Some(admitted) = decisions.admitted.get_mut(&key) else {
            return Known::No;
        };
        if now.duration_since(admitted.decided) >= self.limits.good_for {
            decisions.admitted.remove(&key);
            return Known::No;
        }
        if now.duration_since(admitted.renewed) < self.limits.renew_after {
            return Known::Good;
        }
        admitted.renewed = now;
        Known::Ageing
    }

    fn is_put_off(&self, address: IpAddr) -> bool {
        let now = Instant::now();
        let decisions = self.decisions();
        let until = decisions.put_off.get(&address);
        until.is_some_and(|until| now < *until)
    }

    fn put_off(&self, address: IpAddr) {
        let until = Instant::now() + self.limits.put_off;
        self.decisions().put_off.insert(address, until);
    }

    /// Returns a turn for a review of a client that is not admitted; none if there were too many.
    fn turn(&self) -> Option<SemaphorePermit<'_>> {
        let turn = self.turns.try_acquire().ok()?;
        let now = Instant::now();
        let mut decisions = self.decisions();
        if decisions.put_off.len() >= MOST_PUT_OFF {
            decisions.put_off.retain(|_, until| now < *until);
            if decisions.put_off.len() >= MOST_PUT_OFF {
                return None;
            }
        }
        let due = decisions.next_review.map_or(now, |due| due.max(now));
        if due.duration_since(now) > self.limits.interval * self.limits.burst.saturating_sub(1) {
            return None;
        }
        decisions.next_review = Some(due + self.limits.interval);
        Some(turn)
    }

    fn decisions(&self) -> MutexGuard<'_, Decisions> {
        self.decisions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Decisions {
    fn admit(&mut self, key: Digest, now: Instant, good_for: Duration) {
        if self.admitted.len() >= MOST_ADMITTED {
            self.admitted
                .retain(|_, one| now.duration_since(one.decided) < good_for);
        }
        if self.admitted.len() >= MOST_ADMITTED {
            let oldest = self.admitted.iter().min_by_key(|(_, one)| one.decided);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                self.admitted.remove(&oldest);
            }
        }
        let admitted = Admitted {
            decided: now,
            renewed: now,
        };
        self.admitted.insert(key, admitted);
    }
}

/// Admits a request, or answers it without a body.
pub(super) async fn admit<R: TokenReviewer>(
    State(gate): State<Arc<Gate<R>>>,
    request: Request,
    next: Next,
) -> Response {
    let address = request.extensions().get::<ClientAddress>();
    let address = address.map_or(Ipv4Addr::UNSPECIFIED.into(), |client| client.0);
    let access = gate.decide(address, request.headers()).await;
    if access != Access::Admitted {
        tracing::debug!(%address, ?access, "a client of the inventory is refused");
    }
    let wait = || {
        [(
            RETRY_AFTER,
            HeaderValue::from(gate.limits.put_off.as_secs()),
        )]
    };
    let bearer = [(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))];
    match access {
        Access::Admitted => next.run(request).await,
        Access::Unauthenticated => (StatusCode::UNAUTHORIZED, bearer).into_response(),
        Access::Forbidden => StatusCode::FORBIDDEN.into_response(),
        Access::PutOff => (StatusCode::TOO_MANY_REQUESTS, wait()).into_response(),
        Access::Undecided => (StatusCode::SERVICE_UNAVAILABLE, wait()).into_response(),
    }
}

/// Returns the request's token.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    let is_token = scheme.eq_ignore_ascii_case("bearer")
        && (1..=TOKEN_BYTES).contains(&token.len())
        && token.bytes().all(|byte| byte.is_ascii_graphic());
    is_token.then_some(token)
}

#[cfg(test)]
mod tests;
