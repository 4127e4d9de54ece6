//! Policy values of each object of a store.

use crate::config::{Expiry, StorePolicy};
use crate::snapshot::{ObjectSnapshot, StoreSnapshot};
use crate::state::StoreState;

/// Marks an object for which no model was counted yet.
const NO_MODEL: u32 = u32::MAX;

/// Policy values of one object. Models share objects, so each value covers all models with the
/// object: it is freed only when none of them has a claim.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fact {
    /// Time of its publication or latest use, whichever is later.
    pub(crate) last_use_ms: u64,
    /// Time at which the last of its windows ends.
    pub(crate) expires_ms: u64,
    /// The highest clock of its models.
    clock: u64,
    /// Sum of its models' values: a load of any of them uses the object.
    value: u64,
    counted: u32,
    /// True if a model declared warm contains it.
    pub(crate) protected: bool,
    /// True if it is in the plan.
    pub(crate) planned: bool,
}

impl Fact {
    fn new(object: &ObjectSnapshot) -> Self {
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

    /// Priority, at least that of every model with the object; 0 in an order without worth.
    pub(crate) fn priority(&self) -> u64 {
        self.clock.saturating_add(self.value)
    }
}

/// Computes the policy values of each object.
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
    // For objects of models, learned windows replace the standard one.
    if policy.expiry.is_per_model() {
        for index in store.models.iter().flat_map(|model| &model.objects) {
            if let Some(fact) = facts.get_mut(*index as usize) {
                fact.expires_ms = 0;
            }
        }
    }
    for (model, number) in store.models.iter().zip(0..) {
        let learned = state.and_then(|state| state.model(&model.id));
        let window = match learned {
            Some(learned) if policy.expiry.is_per_model() => {
                let window = learned.idle().window(&policy.learned);
                window_ms(policy, Some(window.keep_alive_secs))
            }
            _ => standard,
        };
        let worth = policy.order.worth(model, state);
        for &index in &model.objects {
            let (Some(fact), Some(object)) = (
                facts.get_mut(index as usize),
                store.objects.get(index as usize),
            ) else {
                continue;
            };
            // A model may list an object twice.
            if fact.counted == number {
                continue;
            }
            fact.counted = number;
            let used_alone = object.published_ms.max(object.last_use_ms);
            let used = used_alone.max(model.last_use_ms);
            fact.last_use_ms = fact.last_use_ms.max(used);
            fact.expires_ms = fact.expires_ms.max(used.saturating_add(window));
            fact.clock = fact.clock.max(worth.clock);
            fact.value = fact.value.saturating_add(worth.value);
            fact.protected |= model.warm;
        }
    }
    facts
}

/// Time that an object stays after its last use, in milliseconds.
fn window_ms(policy: &StorePolicy, learned_secs: Option<u64>) -> u64 {
    let secs = match policy.expiry {
        Expiry::Never => return u64::MAX,
        Expiry::Fixed => policy.expire_after_secs,
        Expiry::Learned => learned_secs.unwrap_or(policy.learned.standard_secs),
    };
    secs.max(policy.keep_alive_secs).saturating_mul(1000)
}
