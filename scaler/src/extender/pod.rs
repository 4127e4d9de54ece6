//! What a pod says of itself.

/// The label that all instances of a function have.
pub const FUNCTION_LABEL: &str = "tetris.dev/function";
/// The annotation of a pod that is no function's instance: a ModelProfile of its namespace that a function uses.
pub const PROFILE_ANNOTATION: &str = "tetris.dev/profile";
