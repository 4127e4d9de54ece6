//! Open connections of a server, and the one that a newcomer displaces.
//!
//! A newcomer is always served. Where an address has as many connections as it may have, its
//! oldest one goes; where all places are taken, the oldest one of the address with the most. So a
//! client with one connection keeps it until every place has another address, and a client that
//! shares its address with a hostile one is served too: a probe ends long before as many newcomers
//! have come as there are places.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use tokio::task::{AbortHandle, Id};

/// Open connections, by the addresses of their clients.
#[derive(Debug)]
pub(crate) struct OpenConnections<A> {
    most: usize,
    per_address: usize,
    /// Connections of each address, oldest first, with their number in the order of arrival.
    by_address: HashMap<A, VecDeque<(u64, AbortHandle)>>,
    addresses: HashMap<Id, A>,
    arrived: u64,
}

impl<A: Copy + Eq + Hash> OpenConnections<A> {
    /// Creates the list of at most `most` connections, and `per_address` of one address. Either is
    /// at least one.
    pub(crate) fn new(most: usize, per_address: usize) -> Self {
        Self {
            most: most.max(1),
            per_address: per_address.max(1),
            by_address: HashMap::new(),
            addresses: HashMap::new(),
            arrived: 0,
        }
    }

    /// Ends as many connections as a newcomer of `address` needs to find a place. Returns the
    /// addresses that lost one.
    pub(crate) fn make_place(&mut self, address: A) -> Vec<A> {
        let mut displaced = Vec::new();
        let of_address = |open: &Self| open.by_address.get(&address).map_or(0, VecDeque::len);
        while of_address(self) >= self.per_address {
            displaced.extend(self.end_oldest(address));
        }
        while self.addresses.len() >= self.most {
            let Some(loser) = self.largest() else {
                break;
            };
            displaced.extend(self.end_oldest(loser));
        }
        displaced
    }

    /// Adds the connection of `address` that `task` serves.
    pub(crate) fn opened(&mut self, address: A, task: AbortHandle) {
        self.arrived += 1;
        self.addresses.insert(task.id(), address);
        let connections = self.by_address.entry(address).or_default();
        connections.push_back((self.arrived, task));
    }

    /// Removes the connection that the task served. One that was displaced is gone already.
    pub(crate) fn ended(&mut self, task: Id) {
        let Some(address) = self.addresses.remove(&task) else {
            return;
        };
        if let Some(connections) = self.by_address.get_mut(&address) {
            connections.retain(|(_, open)| open.id() != task);
            if connections.is_empty() {
                self.by_address.remove(&address);
            }
        }
    }

    /// Returns the address with the most connections; of several, the one with the oldest
    /// connection.
    fn largest(&self) -> Option<A> {
        let rank = |connections: &VecDeque<(u64, AbortHandle)>| {
            let oldest = connections.front().map(|(arrived, _)| *arrived);
            (connections.len(), Reverse(oldest))
        };
        let largest = self.by_address.iter().max_by_key(|(_, all)| rank(all));
        largest.map(|(address, _)| *address)
    }

    fn end_oldest(&mut self, address: A) -> Option<A> {
        let task = self.by_address.get(&address)?.front()?.1.clone();
        task.abort();
        self.ended(task.id());
        Some(address)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use tokio::task::JoinHandle;

    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
    const C: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 3));

    fn arrive(
        open: &mut OpenConnections<IpAddr>,
        address: IpAddr,
    ) -> (Vec<IpAddr>, JoinHandle<()>) {
        let displaced = open.make_place(address);
        let task = tokio::spawn(std::future::pending());
        open.opened(address, task.abort_handle());
        (displaced, task)
    }

    async fn is_cut(task: JoinHandle<()>) -> bool {
        tokio::task::yield_now().await;
        task.is_finished() && task.await.is_err_and(|error| error.is_cancelled())
    }

    #[tokio::test]
    async fn an_address_at_its_limit_loses_its_oldest_connection() {
        let mut open = OpenConnections::new(10, 2);
        let (_, first) = arrive(&mut open, A);
        let (_, second) = arrive(&mut open, A);
        assert!(arrive(&mut open, B).0.is_empty());
        assert_eq!(arrive(&mut open, A).0, [A]);
        assert!(is_cut(first).await);
        assert!(!is_cut(second).await);
    }

    #[tokio::test]
    async fn where_all_places_are_taken_the_address_with_the_most_loses_its_oldest() {
        let mut open = OpenConnections::new(4, 4);
        let (_, alone) = arrive(&mut open, B);
        let (_, first) = arrive(&mut open, A);
        let (_, second) = arrive(&mut open, A);
        let (_, third) = arrive(&mut open, A);
        assert_eq!(arrive(&mut open, C).0, [A]);
        assert!(is_cut(first).await);
        for other in [alone, second, third] {
            assert!(!is_cut(other).await);
        }
    }

    #[tokio::test]
    async fn connections_that_end_leave_nothing() {
        let mut open = OpenConnections::new(1, 1);
        let (_, task) = arrive(&mut open, A);
        open.ended(task.id());
        open.ended(task.id());
        assert!(arrive(&mut open, B).0.is_empty());
        assert_eq!(arrive(&mut open, C).0, [B]);
        assert_eq!((open.by_address.len(), open.addresses.len()), (1, 1));
    }
}
