//! The label by which a secret is known to be this component's.

/// Its name.
pub const OWNER_LABEL: &str = "app.kubernetes.io/name";
/// Its value.
pub const OWNER_VALUE: &str = "tetris-webhook";
