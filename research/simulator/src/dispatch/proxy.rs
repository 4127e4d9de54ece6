//! A proxy that binds requests to instances at their arrival.

use super::request::Request;

/// Requests of an instance.
#[derive(Clone, Copy, Debug, Default)]
struct Bound {
    outstanding: u64,
    /// Number of the last request that it got.
    given: u64,
}

/// A proxy without a queue: it knows how many requests each instance has, and nothing of capacity.
#[derive(Clone, Debug)]
pub(super) struct Proxy {
    by_requests: bool,
    instances: Vec<Bound>,
    given: u64,
    arrived: Option<Request>,
}

impl Proxy {
    /// Creates a proxy before so many instances: each gets a request in turn, or with `by_requests`
    /// the one with the fewest, among equals in turn.
    pub(super) fn new(instances: usize, by_requests: bool) -> Self {
        Self {
            by_requests,
            instances: vec![Bound::default(); instances],
            given: 0,
            arrived: None,
        }
    }

    pub(super) const fn arrives(&mut self, request: Request) {
        self.arrived = Some(request);
    }

    pub(super) fn next(&mut self) -> Option<(usize, Request)> {
        let request = self.arrived.take()?;
        let by_requests = self.by_requests;
        let numbered = self.instances.iter_mut().enumerate();
        let (at, one) = numbered.min_by_key(|(_, instance)| {
            let outstanding = if by_requests { instance.outstanding } else { 0 };
            (outstanding, instance.given)
        })?;
        self.given += 1;
        one.given = self.given;
        one.outstanding += 1;
        Some((at, request))
    }

    pub(super) fn complete(&mut self, at: usize, count: u64) {
        if let Some(one) = self.instances.get_mut(at) {
            one.outstanding = one.outstanding.saturating_sub(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(by_requests: bool) -> Vec<usize> {
        let mut proxy = Proxy::new(3, by_requests);
        let mut order = Vec::new();
        for number in 0..6 {
            proxy.arrives(Request {
                number,
                arrived_us: 0,
                gateway: 0,
            });
            let (at, _) = proxy.next().unwrap();
            order.push(at);
            // The second instance answers at once, the others never.
            proxy.complete(at, u64::from(at == 1));
        }
        assert!(proxy.next().is_none());
        order
    }

    #[test]
    fn round_robin_takes_turns_and_least_connections_counts_requests() {
        assert_eq!(given(false), [0, 1, 2, 0, 1, 2]);
        assert_eq!(given(true), [0, 1, 2, 1, 1, 1]);
    }
}
