//! What a lease says, and when it may be taken.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use super::LeaseError;

/// How long a lease lasts, and what follows from that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    duration: Duration,
}

impl Timing {
    /// A lease of `seconds`, from 3 to 3600.
    pub fn try_new(seconds: u64) -> Result<Self, LeaseError> {
        if (3..=3_600).contains(&seconds) {
            let duration = Duration::from_secs(seconds);
            Ok(Self { duration })
        } else {
            Err(LeaseError::Duration { found: seconds })
        }
    }

    /// After so long without renewal others take it.
    pub const fn duration(self) -> Duration {
        self.duration
    }

    /// The holder stops so long before that.
    pub fn margin(self) -> Duration {
        self.duration / 3
    }

    /// It is asked for so often.
    pub fn period(self) -> Duration {
        self.duration / 5
    }

    /// So long may one request take.
    pub fn request(self) -> Duration {
        self.duration / 5
    }
}

/// A lease as it was seen, and since when it has looked like that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    version: Option<String>,
    since: Instant,
}

impl Seen {
    /// What is known after `lease` was seen at `now`.
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

/// Whether `identity` may write itself into `lease`, which was last seen to change as `seen` says.
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

/// `lease` with `identity` as its holder, renewed now.
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

/// `lease` given back.
pub(super) fn released(mut lease: Lease) -> Lease {
    if let Some(spec) = &mut lease.spec {
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(MicroTime(Timestamp::now()));
    }
    lease
}
