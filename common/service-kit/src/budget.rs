//! Budgets of bytes that clients share.
//!
//! A client gets more only while its own part is at most the part that stays free for others. So one client has at most half
//! of a budget, and N greedy ones that give back now and then leave one part of N + 1 free (dynamic thresholds: Choudhury and
//! Hahne, IEEE/ACM Transactions on Networking 6(2), 1998, with factor 1). They must give back: bytes that a client holds for
//! as long as it likes need a rule of progress as well ([`crate::pace`]).

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;

/// A budget of bytes, shared fairly by clients of type `C`. Clones share it.
#[derive(Debug)]
pub struct Budget<C> {
    shared: Arc<Shared<C>>,
}

#[derive(Debug)]
struct Shared<C> {
    total: usize,
    used: Mutex<Used<C>>,
}

#[derive(Debug)]
struct Used<C> {
    all: usize,
    by_client: HashMap<C, usize>,
}

/// Bytes that a client holds. Dropping it gives them back.
#[derive(Debug)]
pub struct Charge<C: Copy + Eq + Hash> {
    client: C,
    bytes: usize,
    shared: Arc<Shared<C>>,
}

/// The refusal of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "{asked} bytes more for a client that holds {held}: expected at most as many as stay free, found {free} free of {total}"
)]
pub struct Exceeded {
    /// Number of bytes asked for.
    pub asked: usize,
    /// Number of bytes that the client holds.
    pub held: usize,
    /// Number of bytes that no client holds.
    pub free: usize,
    /// Number of bytes of the whole budget.
    pub total: usize,
}

impl<C> Clone for Budget<C> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<C: Copy + Eq + Hash> Budget<C> {
    /// Creates a budget of `total` bytes.
    pub fn new(total: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                total,
                used: Mutex::new(Used {
                    all: 0,
                    by_client: HashMap::new(),
                }),
            }),
        }
    }

    /// Number of bytes of the whole budget.
    pub fn total(&self) -> usize {
        self.shared.total
    }

    /// Number of bytes that clients hold.
    pub fn used(&self) -> usize {
        self.shared.lock().all
    }

    /// Number of bytes that `client` holds.
    pub fn held(&self, client: C) -> usize {
        let used = self.shared.lock();
        used.by_client.get(&client).copied().unwrap_or(0)
    }

    /// Number of clients that hold bytes.
    pub fn clients(&self) -> usize {
        self.shared.lock().by_client.len()
    }

    /// Charges `bytes` to `client`.
    ///
    /// # Errors
    /// [`Exceeded`] if the client would hold more than stays free.
    pub fn charge(&self, client: C, bytes: usize) -> Result<Charge<C>, Exceeded> {
        let mut charge = Charge {
            client,
            bytes: 0,
            shared: Arc::clone(&self.shared),
        };
        charge.grow(bytes)?;
        Ok(charge)
    }
}

impl<C: Copy + Eq + Hash> Charge<C> {
    /// Number of bytes of this charge.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Charges `more` bytes to the same client.
    ///
    /// # Errors
    /// [`Exceeded`] if the client would hold more than stays free. The charge stays as it was.
    pub fn grow(&mut self, more: usize) -> Result<(), Exceeded> {
        if more == 0 {
            return Ok(());
        }
        self.shared.take(self.client, more)?;
        self.bytes = self.bytes.saturating_add(more);
        Ok(())
    }

    /// Grows to `bytes`, or stays if it is as large.
    ///
    /// # Errors
    /// As [`Charge::grow`].
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), Exceeded> {
        self.grow(bytes.saturating_sub(self.bytes))
    }

    /// Gives back all but `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        let back = self.bytes.saturating_sub(bytes);
        self.shared.give_back(self.client, back);
        self.bytes = self.bytes.saturating_sub(back);
    }
}

impl<C: Copy + Eq + Hash> Drop for Charge<C> {
    fn drop(&mut self) {
        self.shared.give_back(self.client, self.bytes);
    }
}

impl<C: Copy + Eq + Hash> Shared<C> {
    fn take(&self, client: C, more: usize) -> Result<(), Exceeded> {
        let mut used = self.lock();
        let taken = used.by_client.get(&client).copied().unwrap_or(0);
        let free = self.total.saturating_sub(used.all);
        let holds = taken.saturating_add(more);
        if more > free || holds > free.saturating_sub(more) {
            return Err(Exceeded {
                asked: more,
                held: taken,
                free,
                total: self.total,
            });
        }
        used.all = used.all.saturating_add(more);
        used.by_client.insert(client, holds);
        Ok(())
    }

    fn give_back(&self, client: C, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let mut used = self.lock();
        used.all = used.all.saturating_sub(bytes);
        if let Some(held) = used.by_client.get_mut(&client) {
            *held = held.saturating_sub(bytes);
            if *held == 0 {
                used.by_client.remove(&client);
            }
        }
    }
}

impl<C> Shared<C> {
    fn lock(&self) -> MutexGuard<'_, Used<C>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_gets_half_and_a_newcomer_half_of_the_rest() {
        let budget = Budget::new(1_000);
        let mut first = budget.charge("a", 500).unwrap();
        assert_eq!(
            first.grow(1).unwrap_err(),
            Exceeded {
                asked: 1,
                held: 500,
                free: 500,
                total: 1_000
            }
        );
        let second = budget.charge("b", 250).unwrap();
        assert!(budget.charge("b", 1).is_err());
        assert!(budget.charge("c", 125).is_ok());
        assert_eq!((budget.held("a"), budget.held("c")), (500, 0));
        drop(second);
        assert_eq!((budget.used(), budget.clients()), (500, 1));
    }

    #[test]
    fn charges_give_back_what_they_took() {
        let budget = Budget::new(1_000);
        let mut charge = budget.charge(7_u32, 100).unwrap();
        charge.grow_to(300).unwrap();
        charge.grow_to(200).unwrap();
        assert_eq!((charge.bytes(), budget.used()), (300, 300));
        charge.shrink_to(50);
        charge.shrink_to(80);
        assert_eq!((charge.bytes(), budget.used()), (50, 50));
        assert!(charge.grow(usize::MAX).is_err());
        assert_eq!(charge.bytes(), 50);
        drop(charge);
        assert_eq!((budget.used(), budget.clients()), (0, 0));
    }

    #[test]
    fn greedy_clients_that_give_back_in_turn_come_to_equal_parts() {
        let budget = Budget::new(1 << 20);
        let unit = 1 << 10;
        let mut charges_of_clients: [Vec<Charge<usize>>; 8] = Default::default();
        for _ in 0..50 {
            for (client, charges) in charges_of_clients.iter_mut().enumerate() {
                charges.clear();
                while let Ok(charge) = budget.charge(client, unit) {
                    charges.push(charge);
                }
            }
        }
        let equal = budget.total() / 9;
        for charges in &charges_of_clients {
            let bytes = charges.len() * unit;
            assert!(bytes.abs_diff(equal) <= 2 * unit, "{bytes}");
        }
        assert!(budget.charge(99, equal / 2 - 2 * unit).is_ok());
    }
}
