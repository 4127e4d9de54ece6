//! How many connections one address has.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Connections of each address, at most so many.
#[derive(Debug, Clone)]
pub(super) struct Seats {
    limit: usize,
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// One connection's seat; given back when dropped.
#[derive(Debug)]
pub(super) struct Seat(Seats, IpAddr);

impl Seats {
    pub(super) fn new(limit: usize) -> Self {
        let taken = Arc::default();
        Self { limit, taken }
    }

    /// A seat, unless the address has all that it may have.
    pub(super) fn take(&self, address: IpAddr) -> Option<Seat> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.get(&address).copied().unwrap_or_default();
        if count >= self.limit {
            return None;
        }
        taken.insert(address, count + 1);
        Some(Seat(self.clone(), address))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let Self(seats, address) = self;
        let mut taken = seats.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut count) = taken.entry(*address) {
            match count.get() {
                0 | 1 => drop(count.remove()),
                more => *count.get_mut() = more - 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_limit_and_gets_seats_back() {
        let seats = Seats::new(2);
        let address = IpAddr::from([10, 0, 0, 1]);
        let first = seats.take(address).unwrap();
        let second = seats.take(address).unwrap();
        assert!(seats.take(address).is_none());
        assert!(seats.take(IpAddr::from([10, 0, 0, 2])).is_some());
        drop(first);
        let third = seats.take(address).unwrap();
        assert!(seats.take(address).is_none());
        drop((second, third));
        assert!(seats.taken.lock().unwrap().is_empty());
    }
}
