//! State of a function's measurement, for its condition `Profiled`.

/// Reason of a function that stays as assumed.
pub(crate) const NOT_MEASURABLE: &str = "NotMeasurable";

/// State of a function's measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfilingState {
    /// True, False or Unknown.
    pub status: &'static str,
    /// The reason, in one word.
    pub reason: &'static str,
    /// The reason, in a sentence.
    pub message: String,
}

impl ProfilingState {
    /// A measurement that has not ended.
    pub(in crate::operator) fn under_way(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            status: "Unknown",
            reason,
            message: message.into(),
        }
    }

    /// A function that cannot be measured.
    pub(in crate::operator) fn failed(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            status: "False",
            reason,
            message: message.into(),
        }
    }

    /// A measured function.
    pub(in crate::operator) fn measured(message: impl Into<String>) -> Self {
        Self {
            status: "True",
            reason: "Measured",
            message: message.into(),
        }
    }
}
