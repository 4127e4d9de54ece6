//! Limits of the number of connections: one for all, and one for each user.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Limits;

/// Counts connections.
#[derive(Debug, Default)]
pub(super) struct Admission {
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    strangers: usize,
    users: HashMap<u32, usize>,
}

/// An admitted connection; it counts until this is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    admission: Arc<Admission>,
    uid: u32,
    stranger: bool,
}

impl Admission {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a connection of `uid`; `None` when it is one too many. A user gets no more than are
    /// left for all others, so that a few users never use up everything. A stranger may not ask for
    /// room: the many user ids that one person can have do not keep out those who may.
    pub(super) fn admit(
        self: &Arc<Self>,
        uid: u32,
        stranger: bool,
        limits: &Limits,
    ) -> Option<Slot> {
        let mut counts = self.counts();
        let of_user = counts.users.get(&uid).copied().unwrap_or(0);
        let left = limits.connections.saturating_sub(counts.all);
        let full = left <= of_user
            || of_user >= limits.per_user
            || (stranger && counts.strangers >= limits.strangers)
            || (stranger && of_user >= limits.per_stranger);
        if full {
            return None;
        }
        counts.all += 1;
        counts.strangers += usize::from(stranger);
        counts.users.insert(uid, of_user + 1);
        Some(Slot {
            admission: Arc::clone(self),
            uid,
            stranger,
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut counts = self.admission.counts();
        counts.all -= 1;
        counts.strangers -= usize::from(self.stranger);
        if let Some(of_user) = counts.users.get_mut(&self.uid) {
            *of_user -= 1;
            if *of_user == 0 {
                counts.users.remove(&self.uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: fn() -> Limits = || Limits {
        connections: 5,
        per_user: 3,
        strangers: 2,
        ..Limits::default()
    };

    #[test]
    fn one_user_cannot_use_up_all_connections() {
        let admission = Arc::new(Admission::default());
        let mut slots: Vec<_> = (0..4)
            .filter_map(|_| admission.admit(1, false, &LIMITS()))
            .collect();
        assert_eq!(slots.len(), 3);
        slots.extend(admission.admit(2, false, &LIMITS()));
        slots.extend(admission.admit(3, false, &LIMITS()));
        assert_eq!(slots.len(), 5);
        assert!(admission.admit(4, false, &LIMITS()).is_none());
    }

    #[test]
    fn a_few_users_that_take_all_they_can_leave_room_for_the_next() {
        let (admission, limits) = (Arc::new(Admission::default()), Limits::default());
        let mut slots = Vec::new();
        for uid in 0..6 {
            let mut taken = 0;
            while let Some(slot) = admission.admit(uid, false, &limits) {
                slots.push(slot);
                taken += 1;
            }
            assert!(taken > 0, "user {uid} got none");
        }
        assert!(admission.admit(6, false, &limits).is_some());
    }

    #[test]
    fn strangers_under_many_names_leave_room_for_those_who_may_ask() {
        let admission = Arc::new(Admission::default());
        let slots: Vec<_> = (100..200)
            .filter_map(|uid| admission.admit(uid, true, &LIMITS()))
            .collect();
        assert_eq!(slots.len(), 2);
        assert!(admission.admit(0, false, &LIMITS()).is_some());
    }

    #[test]
    fn one_stranger_leaves_room_for_another() {
        let limits = Limits {
            per_stranger: 1,
            ..LIMITS()
        };
        let admission = Arc::new(Admission::default());
        let slot = admission.admit(100, true, &limits);
        assert!(slot.is_some());
        assert!(admission.admit(100, true, &limits).is_none());
        assert!(admission.admit(101, true, &limits).is_some());
    }

    #[test]
    fn a_connection_that_ended_counts_no_more() {
        let admission = Arc::new(Admission::default());
        for _ in 0..10 {
            assert!(admission.admit(1, true, &LIMITS()).is_some());
        }
        let counts = admission.counts();
        assert_eq!((counts.all, counts.strangers), (0, 0));
        assert!(counts.users.is_empty());
    }
}
