//! Numbers of nodes and switches, by the names that executors give them.

use std::collections::HashMap;

/// Numbers of the names that executors use now. A name that no executor uses is forgotten, and its number used again.
#[derive(Debug, Default)]
pub(super) struct Places {
    by_name: HashMap<Box<str>, Place>,
    /// Numbers below the greatest that no name has.
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place {
    number: u32,
    users: u32,
}

impl Places {
    /// Number of a name, which gets one user more.
    pub(super) fn take(&mut self, name: &str) -> u32 {
        if let Some(place) = self.by_name.get_mut(name) {
            place.users = place.users.saturating_add(1);
            return place.number;
        }
        let next = u32::try_from(self.by_name.len()).unwrap_or(u32::MAX);
        let number = self.free.pop().unwrap_or(next);
        self.by_name.insert(name.into(), Place { number, users: 1 });
        number
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Takes one user from a name.
    pub(super) fn release(&mut self, name: &str) {
        let Some(place) = self.by_name.get_mut(name) else {
            return;
        };
        place.users = place.users.saturating_sub(1);
        if place.users == 0 {
            self.free.push(place.number);
            self.by_name.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number_while_it_has_users() {
        let mut places = Places::default();
        assert_eq!(places.take("a"), places.take("a"));
        let other = places.take("b");
        places.release("a");
        assert_ne!(places.take("a"), other);
        places.release("b");
        places.release("b");
        assert_eq!(places.take("c"), other, "its number is free");
    }

    #[test]
    fn names_without_users_are_forgotten() {
        let mut places = Places::default();
        places.take("stays");
        for round in 0..10_000 {
            let name = format!("node {round}");
            assert_eq!(places.take(&name), 1);
            places.release(&name);
        }
        assert_eq!((places.by_name.len(), places.free.len()), (1, 1));
        assert!(places.by_name.capacity() < 10);
    }
}
