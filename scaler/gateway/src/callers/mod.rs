//! Callers: who sends a request, and whether its function is for them.
//!
//! A caller is known by the address of its pod, or by a bearer token for the gateway that the API server vouches for.
//!
//! Guarantees:
//! - Unknown callers, and those that a function does not allow, get none of its instances' time, and no room for a body.
//! - An address that someone writes into a head counts only if it comes from a proxy that the configuration trusts.
//! - A token for the gateway reaches no instance.
//!
//! A pod's first requests can come before the API server knows its address: a request without a token from an unknown
//! address waits for news, 3 s at most, and is refused then.
//!
//! Caveats: pods in the network of their node have its address, and need a token. Who can send packets with the address
//! of a pod is that pod here. While the gateway has no news of the API server, what was known last stays in force.

mod addresses;
mod proxies;
mod token;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::{HeaderMap, StatusCode};
use kube::Client;
use tetris_scaler::resources::AllowedCallers;
use tetris_service_kit::token_reviews::{Decision, ReviewLimits, Reviews, TokenReviews, namespace};

use crate::config::CallersConfig;
use crate::function_name::FunctionName;
use crate::problem::Problem;

pub(crate) use addresses::{Addresses, PodAddresses};
use proxies::Proxies;

/// Limits of decisions about tokens: many clients come from outside of the cluster.
const LIMITS: ReviewLimits = ReviewLimits {
    good_for: Duration::from_mins(2),
    renew_after: Duration::from_secs(40),
    put_off: Duration::from_secs(10),
    answer: Duration::from_secs(3),
    reviews: 16,
    interval: Duration::from_millis(20),
    burst: 100,
    kept: 4_096,
    kept_of_namespace: 512,
};

/// Knows the callers of a cluster's functions.
#[derive(Debug)]
pub(crate) struct Callers {
    addresses: Addresses,
    proxies: Proxies,
    audience: String,
    reviews: Arc<Reviews<TokenReviews>>,
}

impl Callers {
    /// Knows no pods yet, and asks through `client` about tokens.
    pub(crate) fn new(client: Client, config: &CallersConfig) -> Self {
        let reviewer = TokenReviews::new(client, &config.audience);
        Self {
            addresses: Addresses::default(),
            proxies: Proxies::new(config),
            audience: config.audience.clone(),
            reviews: Arc::new(Reviews::new(reviewer, "callers of functions", LIMITS)),
        }
    }

    /// Addresses of pods.
    pub(crate) const fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Admits a request that came from `peer` to `function`, which is for those who are `allowed`. Takes a token for the
    /// gateway out of the head.
    ///
    /// # Errors
    ///
    /// The answer to a caller that is not admitted.
    pub(crate) async fn admit(
        &self,
        function: &FunctionName,
        allowed: &AllowedCallers,
        peer: IpAddr,
        headers: &mut HeaderMap,
    ) -> Result<(), Problem> {
        let token = token::take(headers, &self.audience);
        if *allowed == AllowedCallers::Anyone {
            return Ok(());
        }
        let mut address = self.proxies.caller(peer, headers, &self.addresses);
        let mut pod = address.and_then(|address| self.addresses.namespace(address));
        if let (None, None, Some(unknown)) = (&pod, &token, address) {
            self.addresses.wait_for(unknown).await;
            // It may be the address of a proxy.
            address = self.proxies.caller(peer, headers, &self.addresses);
            pod = address.and_then(|address| self.addresses.namespace(address));
        }
        if pod
            .as_deref()
            .is_some_and(|pod| allowed.allow_namespace(pod))
        {
            return Ok(());
        }
        let Some(token) = token else {
            return Err(match pod {
                Some(pod) => forbidden(function, &format!("pods of namespace {pod}")),
                None => self.unknown(function, "its address is that of no pod"),
            });
        };
        match self.reviews.decide(address.unwrap_or(peer), &token).await {
            Decision::Account(account) => {
                if allowed.allow_account(&account, namespace(&account)) {
                    return Ok(());
                }
                Err(forbidden(function, &format!("account {account}")))
            }
            Decision::Invalid | Decision::Unwanted => {
                Err(self.unknown(function, "the API server does not accept its token"))
            }
            Decision::PutOff => Err(Problem {
                status: StatusCode::TOO_MANY_REQUESTS,
                reason: "caller",
                message: "the last token from this address was not accepted".to_owned(),
                retry_after: Some(LIMITS.put_off),
            }),
            Decision::Undecided => Err(Problem::unavailable(
                "caller",
                "tokens cannot be checked at the moment".to_owned(),
                Duration::from_secs(1),
            )),
        }
    }

    fn unknown(&self, function: &FunctionName, reason: &str) -> Problem {
        let message = format!(
            "function {function}: the caller is not known: {reason}; send a bearer token for the audience {}",
            self.audience
        );
        Problem::new(StatusCode::UNAUTHORIZED, "caller", message)
    }
}

fn forbidden(function: &FunctionName, caller: &str) -> Problem {
    let message =
        format!("function {function} is not for {caller}; its `callers` say whom it is for");
    Problem::new(StatusCode::FORBIDDEN, "caller", message)
}

#[cfg(test)]
mod tests;
