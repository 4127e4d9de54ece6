//! Waiting requests, in the order of their deadlines.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::id::{InstanceId, RequestId};

/// A request that waits, or did before it was dispatched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) id: RequestId,
    pub(crate) arrived_us: u64,
    pub(crate) deadline_us: u64,
    /// Time until which it waits.
    pub(crate) expires_us: u64,
    /// Order of arrival, among equal deadlines.
    pub(crate) number: u64,
    /// The instance that could not be reached for it.
    pub(crate) avoid: Option<InstanceId>,
    /// The only instances that it may go to, if it may not go to all.
    pub(crate) among: Option<Arc<BTreeSet<InstanceId>>>,
}

impl Request {
    /// Returns true if it may go to this instance.
    pub(crate) fn allows(&self, id: InstanceId) -> bool {
        self.among.as_ref().is_none_or(|among| among.contains(&id))
    }

    fn place(&self) -> (u64, u64) {
        (self.deadline_us, self.number)
    }
}

/// Queue of requests by deadline, with their expiry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting {
    by_deadline: BTreeMap<(u64, u64), Request>,
    places: BTreeMap<RequestId, (u64, u64)>,
    /// Those that wait for a limited time.
    by_expiry: BTreeSet<(u64, RequestId)>,
}

impl Waiting {
    pub(crate) fn len(&self) -> usize {
        self.by_deadline.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_deadline.is_empty()
    }

    pub(crate) fn contains(&self, id: RequestId) -> bool {
        self.places.contains_key(&id)
    }

    pub(crate) fn push(&mut self, request: Request) {
        self.places.insert(request.id, request.place());
        if request.expires_us < u64::MAX {
            self.by_expiry.insert((request.expires_us, request.id));
        }
        self.by_deadline.insert(request.place(), request);
    }

    /// Request with the earliest deadline.
    pub(crate) fn first(&self) -> Option<&Request> {
        self.by_deadline.values().next()
    }

    /// Requests by their deadlines.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Request> {
        self.by_deadline.values()
    }

    /// Requests by their deadlines, from the first that is due at `deadline_us` or later.
    pub(crate) fn due_from(&self, deadline_us: u64) -> impl Iterator<Item = &Request> {
        let range = self.by_deadline.range((deadline_us, 0)..);
        range.map(|(_, request)| request)
    }

    pub(crate) fn remove(&mut self, id: RequestId) -> Option<Request> {
        let place = self.places.remove(&id)?;
        let request = self.by_deadline.remove(&place)?;
        if request.expires_us < u64::MAX {
            self.by_expiry.remove(&(request.expires_us, id));
        }
        Some(request)
    }

    /// Time of the first expiry, `u64::MAX` if no request expires; `None` if none waits.
    pub(crate) fn expires_us(&self) -> Option<u64> {
        self.first()?;
        let first = self.by_expiry.first();
        Some(first.map_or(u64::MAX, |&(at_us, _)| at_us))
    }

    /// Removes a request that has waited for as long as it may.
    pub(crate) fn expired(&mut self, now_us: u64) -> Option<RequestId> {
        let &(at_us, id) = self.by_expiry.first()?;
        if at_us > now_us {
            return None;
        }
        self.remove(id).map(|request| request.id)
    }
}
