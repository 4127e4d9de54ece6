//! Contents of a lease, and the rule for taking it.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use super::LeaseError;

/// Duration of a lease, and the times derived from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    duration: Duration,
}

impl Timing {
    /// Creates the timing of a lease of `seconds`, from 3 to 3600.
    ///
    /// # Errors
    ///
    /// Fails if `seconds` is out of range.
    pub fn try_new(seconds: u64) -> Result<Self, LeaseError> {
        if (3..=3_600).contains(&seconds) {
            let duration = Duration::from_secs(seconds);
            Ok(Self { duration })
        } else {
            Err(LeaseError::Duration { found: seconds })
        }
    }

    /// Time without renewal after which others take the lease.
    pub const fn duration(self) -> Duration {
        self.duration
    }

    /// Time before the end of the lease at which the holder stops.
    pub fn margin(self) -> Duration {
        self.duration / 3
    }

    /// Interval between requests for the lease.
    pub fn period(self) -> Duration {
        self.duration / 5
    }

    /// Timeout of one request.
    pub fn request(self) -> Duration {
        self.duration / 5
    }
}

/// Last seen version of a lease, and the time since when it has not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    version: Option<String>,
    since: Instant,
}

impl Seen {
    /// Returns the state after `lease` was seen at `now`.
    pub(super) fn after(last: Option<Self>, lease: &Lease, now: Instant) -> Self {
        let version = lease.metadata.resource_version.clone();
        match last {
            Some(last) if last.version == version => last,
            _ => Self {
                version,
                since: now,
            },
        }
    }
}

/// Returns true if `identity` may take `lease`, given the time of its last change in `seen`.
pub(super) fn may_take(lease: &Lease, seen: &Seen, identity: &str, now: Instant) -> bool {
    let spec = lease.spec.as_ref();
    let holder = spec.and_then(|spec| spec.holder_identity.as_deref());
    match holder {
        None | Some("") => true,
        Some(holder) if holder == identity => true,
        Some(_) => {
            let seconds = spec.and_then(|spec| spec.lease_duration_seconds);
            let seconds = u64::try_from(seconds.unwrap_or(0)).unwrap_or(0);
            now.saturating_duration_since(seen.since) >= Duration::from_secs(seconds)
        }
    }
}

/// Returns `lease` with `identity` as its holder, renewed now.
pub(super) fn taken(mut lease: Lease, identity: &str, timing: Timing) -> Lease {
    let before = lease.spec.take().unwrap_or_default();
    let renewed = Some(MicroTime(Timestamp::now()));
    let is_mine = before.holder_identity.as_deref() == Some(identity);
    let transitions = before.lease_transitions.unwrap_or(0);
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: i32::try_from(timing.duration.as_secs()).ok(),
        acquire_time: if is_mine {
            before.acquire_time.clone()
        } else {
            renewed.clone()
        },
        renew_time: renewed,
        lease_transitions: Some(transitions.saturating_add(i32::from(!is_mine))),
        ..before
    });
    lease
}

/// Returns `lease` without a holder.
pub(super) fn released(mut lease: Lease) -> Lease {
    if let Some(spec) = &mut lease.spec {
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(MicroTime(Timestamp::now()));
    }
    lease
}
