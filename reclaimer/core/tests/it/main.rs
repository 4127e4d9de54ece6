//! Plans of the policies, their replay and the command `reclaimer-replay`.

#[cfg(feature = "cli")]
mod cli;
mod default_policy;
mod plan;
