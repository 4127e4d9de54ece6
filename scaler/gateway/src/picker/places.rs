//! Places of streams: of all data planes, one address gets a part that leaves as many places free.

use std::net::IpAddr;
use std::sync::Arc;

use tetris_service_kit::budget::{Budget, Charge};

use crate::memory;

/// Places of all streams. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Places(Budget<IpAddr>);

/// Place of one stream; free again when the last clone is dropped.
#[derive(Clone, Debug)]
pub(super) struct Place {
    _charge: Arc<Charge<IpAddr>>,
}

impl Places {
    /// Allows `all` streams.
    pub(super) fn new(all: usize) -> Self {
        Self(Budget::new(all))
    }

    /// Returns a place for a stream from `address`, if there is one.
    pub(super) fn enter(&self, address: IpAddr) -> Option<Place> {
        let charge = self.0.charge(memory::client(address), 1).ok()?;
        Some(Place {
            _charge: Arc::new(charge),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_half_of_the_places_at_most() {
        let places = Places::new(10);
        let (first, second) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let enter_all =
            |address| -> Vec<_> { std::iter::from_fn(|| places.enter(address)).collect() };
        let mut of_first = enter_all(first);
        assert_eq!(of_first.len(), 5);
        assert_eq!(enter_all(second).len(), 2);
        let clone = of_first.pop().unwrap();
        drop((clone.clone(), of_first));
        assert_eq!(places.0.used(), 1);
        drop(clone);
        assert_eq!(places.0.used(), 0);
    }
}
