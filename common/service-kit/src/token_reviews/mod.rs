//! Tokens of clients that the API server has decided about.
//!
//! Guarantees:
//! - A decision is good for [`ReviewLimits::good_for`] since the API server made it. It is made anew
//!   before, in the background, so an API server that is away for less than the rest of that time
//!   keeps no client out that was admitted, and none longer.
//! - Clients without access cost the API server little: it is asked a few times a second for all
//!   of them, and an address with a refused token must wait. Clients that were admitted are not
//!   among them.
//! - The number of decisions that are kept is limited, for all accounts and for each of their
//!   namespaces. Tokens themselves are not kept.

#[cfg(feature = "kubernetes")]
mod api_server;

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use thiserror::Error;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

#[cfg(feature = "kubernetes")]
pub use api_server::TokenReviews;

/// Longest token. Those of the API server have about a kilobyte.
const TOKEN_BYTES: usize = 16 << 10;
/// Largest number of addresses that are put off at a time. With more, no token is reviewed until the
/// time of one is over.
const MOST_PUT_OFF: usize = 4096;

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
pub struct ReviewLimits {
    /// Time for which a decision is good without a new one.
    pub good_for: Duration,
    /// Age at which a decision is made anew in the background, and least time between two attempts.
    pub renew_after: Duration,
    /// Time for which an address whose token was refused is not reviewed again.
    pub put_off: Duration,
    /// Longest wait for a decision.
    pub answer: Duration,
    /// Reviews at once of clients that are not admitted yet.
    pub reviews: usize,
    /// Least time between two of these, over a longer time,
    pub interval: Duration,
    /// and number of them that may come at once after a quiet time.
    pub burst: u32,
    /// Largest number of kept decisions,
    pub kept: usize,
    /// and of those about the accounts of one namespace.
    pub kept_of_namespace: usize,
}

impl Default for ReviewLimits {
    /// Limits for a few clients, e.g. the scrapers and schedulers of a daemon.
    fn default() -> Self {
        Self {
            good_for: Duration::from_mins(2),
            renew_after: Duration::from_secs(40),
            put_off: Duration::from_secs(10),
            answer: Duration::from_secs(3),
            reviews: 4,
            interval: Duration::from_millis(200),
            burst: 10,
            kept: 64,
            kept_of_namespace: 64,
        }
    }
}

/// Decision about a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The token of this account.
    Account(Arc<str>),
    /// The token of an account that is not among those of [`Reviews::only`].
    Unwanted,
    /// No token that is valid here.
    Invalid,
    /// The address must wait for [`ReviewLimits::put_off`].
    PutOff,
    /// The API server does not answer, or was asked too often.
    Undecided,
}

/// Digest of a token (SHA-256).
type Key = [u8; 32];

/// Decides about tokens, and keeps the decisions.
#[derive(Debug)]
pub struct Reviews<R> {
    reviewer: R,
    /// Clients of the tokens, for the log.
    clients: &'static str,
    /// `None` for all accounts.
    wanted: Option<BTreeSet<String>>,
    limits: ReviewLimits,
    turns: Semaphore,
    decisions: Mutex<Decisions>,
}

#[derive(Debug, Default)]
struct Decisions {
    admitted: HashMap<Key, Admitted>,
    /// End of the time for which an address is put off.
    put_off: HashMap<IpAddr, Instant>,
    /// Time at which the next review would be due at an even pace.
    next_review: Option<Instant>,
    /// True while the API server does not decide, which was logged.
    is_undecided: bool,
}

#[derive(Debug, Clone)]
struct Admitted {
    account: Arc<str>,
    decided: Instant,
    /// Start of the latest attempt to decide anew.
    renewed: Instant,
}

/// State of a token admitted before.
enum Known {
    No,
    Good(Arc<str>),
    /// Good, and the caller must have it decided anew.
    Ageing(Arc<str>),
}

impl<R: TokenReviewer> Reviews<R> {
    /// Decides by `reviewer` about tokens of `clients`, as the log names them.
    pub fn new(reviewer: R, clients: &'static str, limits: ReviewLimits) -> Self {
        Self {
            reviewer,
            clients,
            wanted: None,
            limits,
            turns: Semaphore::new(limits.reviews.max(1)),
            decisions: Mutex::default(),
        }
    }

    /// Accepts these accounts only. Decisions about others are not kept, and put their address off.
    #[must_use]
    pub fn only(mut self, accounts: impl IntoIterator<Item = String>) -> Self {
        self.wanted = Some(accounts.into_iter().collect());
        self
    }

    /// Limits of decisions.
    pub const fn limits(&self) -> &ReviewLimits {
        &self.limits
    }

    /// Decides about the token that a client at `address` showed.
    pub async fn decide(self: &Arc<Self>, address: IpAddr, token: &str) -> Decision {
        if !is_token(token) {
            return Decision::Invalid;
        }
        let key = key(token);
        match self.known(key) {
            Known::Good(account) => return Decision::Account(account),
            Known::Ageing(account) => {
                let (reviews, token) = (Arc::clone(self), token.to_owned());
                tokio::spawn(async move { reviews.review(key, &token).await });
                return Decision::Account(account);
            }
            Known::No => {}
        }
        if self.is_put_off(address) {
            return Decision::PutOff;
        }
        let Some(_turn) = self.turn() else {
            return Decision::Undecided;
        };
        let decision = self.review(key, token).await;
        if matches!(decision, Decision::Invalid | Decision::Unwanted) {
            self.put_off(address);
        }
        decision
    }

    /// Has a token decided about, and keeps the decision.
    async fn review(&self, key: Key, token: &str) -> Decision {
        let review = tokio::time::timeout(self.limits.answer, self.reviewer.review(token)).await;
        let decided = review.unwrap_or_else(|_| {
            Err(ReviewError {
                problem: format!("no answer within {:?}", self.limits.answer),
                next_step: "check that this node reaches the API server",
            })
        });
        let is_wanted = |account: &String| {
            let wanted = self.wanted.as_ref();
            wanted.is_none_or(|wanted| wanted.contains(account))
        };
        let decision = match &decided {
            Ok(Some(account)) if is_wanted(account) => Decision::Account(account.as_str().into()),
            Ok(Some(account)) => {
                tracing::info!(account, "{} may not have this account", self.clients);
                Decision::Unwanted
            }
            Ok(None) => Decision::Invalid,
            Err(_) => Decision::Undecided,
        };
        let mut decisions = self.decisions();
        match &decision {
            Decision::Account(account) => {
                decisions.admit(key, account, Instant::now(), &self.limits);
            }
            Decision::Undecided => {}
            _ => drop(decisions.admitted.remove(&key)),
        }
        let was_undecided = std::mem::replace(&mut decisions.is_undecided, decided.is_err());
        drop(decisions);
        match decided {
            Err(error) if !was_undecided => {
                let clients = self.clients;
                tracing::warn!(%error, "{clients} cannot be checked: those that were admitted go on for a while");
            }
            Ok(_) if was_undecided => tracing::info!("{} are checked again", self.clients),
            _ => {}
        }
        decision
    }

    fn known(&self, key: Key) -> Known {
        let now = Instant::now();
        let mut decisions = self.decisions();
        let Some(admitted) = decisions.admitted.get_mut(&key) else {
            return Known::No;
        };
        if now.duration_since(admitted.decided) >= self.limits.good_for {
            decisions.admitted.remove(&key);
            return Known::No;
        }
        let account = Arc::clone(&admitted.account);
        if now.duration_since(admitted.renewed) < self.limits.renew_after {
            return Known::Good(account);
        }
        admitted.renewed = now;
        Known::Ageing(account)
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
    fn admit(&mut self, key: Key, account: &Arc<str>, now: Instant, limits: &ReviewLimits) {
        let of_owner = |admitted: &Admitted| owner(&admitted.account) == owner(account);
        if self.admitted.len() >= limits.kept {
            let good_for = limits.good_for;
            let is_good = |admitted: &Admitted| now.duration_since(admitted.decided) < good_for;
            self.admitted.retain(|_, admitted| is_good(admitted));
        }
        // An account whose namespace has its part loses its own decision.
        let kept = |decisions: &Self| {
            let of_owner = decisions.admitted.values().filter(|known| of_owner(known));
            of_owner.count()
        };
        while kept(self) >= limits.kept_of_namespace.max(1) {
            self.forget_oldest(of_owner);
        }
        while self.admitted.len() >= limits.kept.max(1) {
            self.forget_oldest(|_| true);
        }
        let admitted = Admitted {
            account: Arc::clone(account),
            decided: now,
            renewed: now,
        };
        self.admitted.insert(key, admitted);
    }

    fn forget_oldest(&mut self, among: impl Fn(&Admitted) -> bool) {
        let among = self.admitted.iter().filter(|(_, admitted)| among(admitted));
        let oldest = among.min_by_key(|(_, admitted)| admitted.decided);
        if let Some(oldest) = oldest.map(|(key, _)| *key) {
            self.admitted.remove(&oldest);
        }
    }
}

/// Returns the namespace of a service account; none for other accounts.
pub fn namespace(account: &str) -> Option<&str> {
    let (namespace, _) = account
        .strip_prefix("system:serviceaccount:")?
        .split_once(':')?;
    Some(namespace)
}

/// Owner of a decision: the account's namespace, or the account if it has none.
fn owner(account: &str) -> &str {
    namespace(account).unwrap_or(account)
}

/// Returns the token of the value of a header `Authorization`.
pub fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && is_token(token)).then_some(token)
}

fn is_token(token: &str) -> bool {
    (1..=TOKEN_BYTES).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic())
}

fn key(token: &str) -> Key {
    Sha256::digest(token).into()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// Knows every token `NAMESPACE/NAME...` as that of the service account NAME.
    #[derive(Debug)]
    struct Reviewer;

    impl TokenReviewer for Reviewer {
        async fn review(&self, token: &str) -> Result<Option<String>, ReviewError> {
            let account = token.split_once('/');
            Ok(
                account
                    .map(|(namespace, name)| format!("system:serviceaccount:{namespace}:{name}")),
            )
        }
    }

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[tokio::test(start_paused = true)]
    async fn tokens_of_one_namespace_displace_no_others() {
        let limits = ReviewLimits {
            kept: 8,
            kept_of_namespace: 3,
            good_for: Duration::from_hours(1),
            ..ReviewLimits::default()
        };
        let reviews = Arc::new(Reviews::new(Reviewer, "clients", limits));
        let decide = |token: String| {
            let reviews = Arc::clone(&reviews);
            async move {
                tokio::time::advance(limits.interval).await;
                reviews.decide(CLIENT, &token).await
            }
        };
        let account = decide("mine/a".to_owned()).await;
        assert_eq!(
            account,
            Decision::Account("system:serviceaccount:mine:a".into())
        );
        for number in 0..100 {
            let decision = decide(format!("theirs/{number}")).await;
            assert!(matches!(decision, Decision::Account(_)), "{decision:?}");
        }
        let kept = |namespace: &str| {
            let decisions = reviews.decisions();
            let all = decisions.admitted.values();
            all.filter(|known| owner(&known.account) == namespace)
                .count()
        };
        assert_eq!((kept("mine"), kept("theirs")), (1, 3));
        for number in 0..100 {
            decide(format!("team-{number}/a")).await;
        }
        assert_eq!(reviews.decisions().admitted.len(), limits.kept);
    }

    #[test]
    fn a_header_has_a_token_of_the_scheme_bearer() {
        assert_eq!(bearer("Bearer abc"), Some("abc"));
        assert_eq!(bearer("bearer  abc "), Some("abc"));
        for wrong in ["Basic abc", "Bearer ", "Bearer a b", "abc", "Bearer \u{7f}"] {
            assert_eq!(bearer(wrong), None, "{wrong}");
        }
        let long = format!("Bearer {}", "a".repeat(TOKEN_BYTES + 1));
        assert_eq!(bearer(&long), None);
    }

    #[test]
    fn accounts_of_services_have_a_namespace() {
        assert_eq!(namespace("system:serviceaccount:team:bot"), Some("team"));
        assert_eq!(namespace("team"), None);
    }
}
