//! Limit on the connections of one address.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Number of open connections of each address.
#[derive(Debug, Clone)]
pub(super) struct AddressLimit {
    limit: usize,
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// Permit for one connection of an address; given back when dropped.
#[derive(Debug)]
pub(super) struct AddressPermit(AddressLimit, IpAddr);

impl AddressLimit {
    pub(super) fn new(limit: usize) -> Self {
        let open = Arc::default();
        Self { limit, open }
    }

    /// Returns a permit, or none if the address has the most connections that it may have.
    pub(super) fn permit(&self, address: IpAddr) -> Option<AddressPermit> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.get(&address).copied().unwrap_or_default();
        if count >= self.limit {
            return None;
        }
        open.insert(address, count + 1);
        Some(AddressPermit(self.clone(), address))
    }
}

impl Drop for AddressPermit {
    fn drop(&mut self) {
        let Self(limit, address) = self;
        let mut open = limit.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut count) = open.entry(*address) {
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
    fn an_address_has_its_limit_and_gets_permits_back() {
        let limit = AddressLimit::new(2);
        let address = IpAddr::from([10, 0, 0, 1]);
        let first = limit.permit(address).unwrap();
        let second = limit.permit(address).unwrap();
        assert!(limit.permit(address).is_none());
        assert!(limit.permit(IpAddr::from([10, 0, 0, 2])).is_some());
        drop(first);
        let third = limit.permit(address).unwrap();
        assert!(limit.permit(address).is_none());
        drop((second, third));
        assert!(limit.open.lock().unwrap().is_empty());
    }
}
