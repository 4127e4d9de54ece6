//! Contents of the store that each scenario begins with.

/// The user who owns the store in [`super::Scenario::OwnerReclaim`]: no one.
pub const OWNER: u32 = 65_534;
/// Seed of an object in the store.
pub(super) const THERE: u64 = 9_001;
/// Seed of another one.
pub(super) const ALSO_THERE: u64 = 9_002;
/// Length of both in bytes.
pub(super) const LEN: usize = 20_000;
