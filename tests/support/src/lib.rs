//! Common parts of tests of several packages.
//!
//! | part | contents |
//! |---|---|
//! | [`gpu_world`] | a scheduler of GPUs that its test moves by hand, and the checks that hold at all times |
//! | [`gpu_invariants`] | invariants of policies under any sequence of events |

pub mod gpu_invariants;
pub mod gpu_world;
