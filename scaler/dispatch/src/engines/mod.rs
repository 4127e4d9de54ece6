//! Engines that sleep: which engines of a group are awake in one device's memory, and which requests they get.
//!
//! Each engine serves its models while it is awake. A request for a sleeping engine waits while engines without requests, the
//! least recently used first, make room. An [`EngineGroup`] has the waiting requests and the engines' states. Its owner passes
//! on requests, ends of orders and findings about engines, and carries out the actions of [`EngineGroup::pump`]. Like the rest of
//! the crate it is pure: times are arguments.
//!
//! **Fairness.** An engine stays awake for [`GroupRules::residence_us`] at least. After that it makes room if it has no requests,
//! or once a request for another engine has waited for [`GroupRules::turn_us`]. The engine with the oldest waiting request wakes
//! first, and later ones take only room that it does not need. So two busy engines alternate at the pace of the residence, never
//! of requests, and none waits forever.
//!
//! **Guarantees.** By the group's record, engines never take more than the capacity through a wake. Several requests cause one wake.
//! A wake without a waiting request was ordered before its client left. No request is lost or dispatched twice. Property
//! tests check all of them.

mod action;
mod engine;
mod group;
mod id;
mod plan;
mod rejection;
mod rules;

pub use action::{Action, Finding};
pub use engine::EngineState;
pub use group::EngineGroup;
pub use id::EngineId;
pub use rejection::EngineRejection;
pub use rules::{EngineRules, GroupRules};
