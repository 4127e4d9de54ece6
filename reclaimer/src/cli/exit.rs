//! Exit codes of `tetris-node`.

use tetris_conventions::exit::{ExitStatus, FAILED, USAGE, help};

/// The configuration is wrong.
pub const CONFIGURATION: ExitStatus = ExitStatus {
    code: 3,
    name: "configuration",
    meaning: "the configuration cannot be read, or has mistakes",
};

/// Another daemon is there.
pub const OTHER_DAEMON: ExitStatus = ExitStatus {
    code: 4,
    name: "other-daemon",
    meaning: "another daemon looks after one of the stores, or listens on a socket of this one",
};

/// A pass had errors.
pub const INCOMPLETE: ExitStatus = ExitStatus {
    code: 5,
    name: "incomplete",
    meaning: "once: the pass met errors, which the result lists",
};

/// The end of `tetris-node --help`.
pub(super) fn table() -> String {
    help(&[FAILED, USAGE, CONFIGURATION, OTHER_DAEMON, INCOMPLETE])
}
