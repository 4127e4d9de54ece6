//! Exit codes of commands.

use std::fmt::Write as _;

/// An exit code that is not 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitStatus {
    /// The code.
    pub code: u8,
    /// Its name in JSON.
    pub name: &'static str,
    /// Its meaning, in the command's help.
    pub meaning: &'static str,
}

/// The operation failed.
pub const FAILED: ExitStatus = ExitStatus {
    code: 1,
    name: "failed",
    meaning: "the operation failed, as the message on standard error says",
};

/// The command line is wrong.
pub const USAGE: ExitStatus = ExitStatus {
    code: 2,
    name: "usage",
    meaning: "the command line is wrong, or the log filter cannot be read",
};

/// The table at the end of a command's help.
pub fn help(codes: &[ExitStatus]) -> String {
    let mut text = "Exit codes:\n    0  success".to_owned();
    for status in codes {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n  {:>3}  {}", status.code, status.meaning);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_code() {
        assert_eq!(
            help(&[FAILED, USAGE]),
            "Exit codes:\n    0  success\n    \
             1  the operation failed, as the message on standard error says\n    \
             2  the command line is wrong, or the log filter cannot be read"
        );
    }
}
