//! What a policy makes of each object of a store.

use crate::config::{Expiry, Order, StorePolicy};
use crate::snapshot::{Object, StoreSnapshot};
use crate::state::{StoreState, Worth};

/// Written by the last model that was counted for an object.
const NO_MODEL: u32 = u32::MAX;

/// One object as policies see it. Models share objects, so each of these is over all models that want
/// the object: it goes only when none of them has a claim.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fact {
    /// The latest of its publication and all uses.
    pub(crate) last_use_ms: u64,
    /// When the last of its windows ends.
    pub(crate) expires_ms: u64,
    /// The highest clock among its models.
    clock: u64,
    /// The sum of its models' values: a load of any of them uses it.
    value: u64,
    counted: u32,
    /// A model that is declared warm wants it.
    pub(crate) protected: bool,
    /// It is in the plan.
    pub(crate) planned: bool,
}

impl Fact {
    fn new(object: &Object) -> Self {
        Self {
            last_use_ms: object.published_ms.max(object.last_use_ms),
            expires_ms: 0,
            clock: 0,
            value: 0,
            counted: NO_MODEL,
            protected: false,
            planned: false,
        }
    }

    /// Greedy-Dual's priority. It is never below that of a model that wants the object.
    pub(crate) fn priority(&self) -> u64 {
        self.clock.saturating_add(self.value)
    }
}

/// What `policy` makes of each object.
pub(crate) fn facts(
    store: &StoreSnapshot,
    policy: &StorePolicy,
    state: Option<&StoreState>,
) -> Vec<Fact> {
    let mut facts: Vec<Fact> = store.objects.iter().map(Fact::new).collect();
    let standard = window_ms(policy, None);
    for fact in &mut facts {
        fact.expires_ms = fact.last_use_ms.saturating_add(standard);
    }
    // What a learnt window says replaces the standard one for objects that models want.
    if policy.expiry == Expiry::Learnt {
        for index in store.models.iter().flat_map(|model| &model.objects) {
            if let Some(fact) = facts.get_mut(*index as usize) {
                fact.expires_ms = 0;
            }
        }
    }
    for (model, number) in store.models.iter().zip(0..) {
        let learnt = state.and_then(|state| state.model(&model.id));
        let window = match (policy.expiry, learnt) {
            (Expiry::Learnt, Some(learnt)) => {
                let window = learnt.idle().window(&policy.learnt);
                window_ms(policy, Some(window.keep_alive_secs))
            }
            _ => standard,
        };
        let worth = match policy.order {
            Order::GreedyDual => Worth::of(model, state),
            Order::Lru => Worth::default(),
        };
        for &index in &model.objects {
            let (Some(fact), Some(object)) = (
                facts.get_mut(index as usize),
                store.objects.get(index as usize),
            ) else {
                continue;
            };
            // A model may name an object twice.
            if fact.counted == number {
                continue;
            }
            fact.counted = number;
            let own = object.published_ms.max(object.last_use_ms);
            let used = own.max(model.last_use_ms);
            fact.last_use_ms = fact.last_use_ms.max(used);
            fact.expires_ms = fact.expires_ms.max(used.saturating_add(window));
            fact.clock = fact.clock.max(worth.clock);
            fact.value = fact.value.saturating_add(worth.value);
            fact.protected |= model.warm;
        }
    }
    facts
}

/// How long an object stays after its last use, in milliseconds.
fn window_ms(policy: &StorePolicy, learnt_secs: Option<u64>) -> u64 {
    let secs = match policy.expiry {
        Expiry::Never => return u64::MAX,
        Expiry::Fixed => policy.expire_after_secs,
        Expiry::Learnt => learnt_secs.unwrap_or(policy.learnt.standard_secs),
    };
    secs.max(policy.keep_alive_secs).saturating_mul(1000)
}
