//! Eviction orders: everything in which they differ.
//!
//! The planner takes the candidate with the lowest priority first, and of equals the least recently
//! used one. An order gives models their worth, of which the priorities are made.

use crate::config::Order;
use crate::plan::Reason;
use crate::snapshot::ModelSnapshot;
use crate::state::{StoreState, Worth};

impl Order {
    /// All orders.
    pub const ALL: [Self; 2] = [Self::Lru, Self::GreedyDual];

    /// Its name in configuration files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::GreedyDual => "greedy-dual",
        }
    }

    /// Computes the worth of a model. Without worth, only the last use counts.
    pub(crate) fn worth(self, model: &ModelSnapshot, state: Option<&StoreState>) -> Worth {
        match self {
            Self::Lru => Worth::default(),
            Self::GreedyDual => Worth::of(model, state),
        }
    }

    /// The reason for freeing an object in this order when its mount is over the high watermark.
    pub(crate) fn watermark_reason(self) -> Reason {
        match self {
            Self::Lru => Reason::OverWatermark,
            Self::GreedyDual => Reason::Cost,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;

    use super::*;
    use crate::Expiry;

    /// Names that a configuration may have, from the error about another one.
    fn valid_names<T: DeserializeOwned>() -> Vec<String> {
        let error = serde_json::from_str::<T>("\"none-of-them\"").map(drop);
        let error = error.unwrap_err().to_string();
        let quoted = error.split('`').skip(1).step_by(2);
        quoted
            .filter(|name| *name != "none-of-them")
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn every_order_is_in_the_list() {
        let listed = Order::ALL.map(Order::name);
        assert_eq!(valid_names::<Order>(), listed, "Order::ALL or Order::name");
    }

    #[test]
    fn every_expiry_is_in_the_list() {
        let listed = Expiry::ALL.map(Expiry::name);
        assert_eq!(
            valid_names::<Expiry>(),
            listed,
            "Expiry::ALL or Expiry::name"
        );
    }
}
