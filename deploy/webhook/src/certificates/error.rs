//! Errors with certificates.

use std::fmt::Display;

use thiserror::Error;

/// A flaw of the secret's contents. New certificates mend it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Flaw {
    /// A field is not there.
    #[error("field `{field}` is missing")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// A field holds something else.
    #[error("field `{field}`: {reason}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// Description of the flaw.
        reason: String,
    },
    /// A certificate is not valid now.
    #[error("field `{field}`: not valid now")]
    Expired {
        /// The field.
        field: &'static str,
    },
    /// It has served two thirds of its life.
    #[error("field `{field}`: two thirds of its life are over")]
    Due {
        /// The field.
        field: &'static str,
    },
}

impl Flaw {
    pub(super) fn invalid(field: &'static str, reason: impl Display) -> Self {
        // Some libraries quote what they were given, and it may be long or secret.
        let reason = reason.to_string().chars().take(200).collect();
        Self::Invalid { field, reason }
    }
}

/// The reason a certificate could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IssueError {
    /// Keys or signatures cannot be made.
    #[error("cannot make a certificate: {0}; check the names of service and namespace")]
    Issue(#[from] rcgen::Error),
    /// The clock is out of range.
    #[error("cannot make a certificate for the time {now} (seconds since 1970); correct the clock")]
    Time {
        /// Time of the clock, in seconds since 1970.
        now: i64,
    },
    /// An authority that cannot sign.
    #[error("cannot sign: {0}")]
    Flaw(#[from] Flaw),
}
