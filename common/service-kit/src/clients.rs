//! Number of open connections, of all clients and of each address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Open connections by address.
#[derive(Clone, Debug)]
pub struct Clients {
    all: usize,
    each: usize,
    open: Arc<Mutex<Open>>,
}

#[derive(Debug, Default)]
struct Open {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// Place of an open connection; free again when it is dropped.
#[derive(Debug)]
pub struct Place {
    address: IpAddr,
    open: Arc<Mutex<Open>>,
}

impl Clients {
    /// Allows `all` connections, and `each` of one address.
    pub fn new(all: usize, each: usize) -> Self {
        Self {
            all,
            each,
            open: Arc::default(),
        }
    }

    /// Number of open connections.
    pub fn open(&self) -> usize {
        self.lock().all
    }

    /// Returns a place for a connection from `address`, if there is one.
    pub fn enter(&self, address: IpAddr) -> Option<Place> {
        let mut open = self.lock();
        let of_address = open.by_address.get(&address).copied().unwrap_or(0);
        if open.all >= self.all || of_address >= self.each {
            return None;
        }
        open.all = open.all.saturating_add(1);
        open.by_address
            .insert(address, of_address.saturating_add(1));
        Some(Place {
            address,
            open: Arc::clone(&self.open),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.all = open.all.saturating_sub(1);
        if let Some(of_address) = open.by_address.get_mut(&self.address) {
            *of_address = of_address.saturating_sub(1);
            if *of_address == 0 {
                open.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_takes_no_more_than_its_places_and_gives_them_back() {
        let (first, second): (IpAddr, IpAddr) =
            ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let clients = Clients::new(4, 3);
        let mut places: Vec<_> = (0..3).map(|_| clients.enter(first).unwrap()).collect();
        assert!(clients.enter(first).is_none());
        let other = clients.enter(second).unwrap();
        assert!(clients.enter(second).is_none(), "four in all");
        places.pop();
        drop(other);
        assert!(clients.enter(first).is_some() && clients.enter(second).is_some());
        drop(places);
        assert!(clients.lock().by_address.is_empty());
    }
}
