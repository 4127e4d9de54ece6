//! Plans of the policies.

mod plan;
