//! Ends of requests at instances.

/// End of a request that an instance got, label `outcome` of the metric of responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestOutcome {
    /// The whole response was passed on.
    Served,
    /// The same, with the status of a gateway's fault.
    Fault,
    /// The instance broke off, or sent no response.
    Broken,
    /// The instance sent no response in time.
    Timeout,
    /// Its engine had to sleep.
    Cut,
    /// The client left.
    Left,
    /// A data plane sent the request to another instance.
    Elsewhere,
}

impl RequestOutcome {
    /// The end of a whole response, which may have the status of a fault.
    pub(crate) const fn whole(is_fault: bool) -> Self {
        if is_fault { Self::Fault } else { Self::Served }
    }

    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Served => "served",
            Self::Fault => "fault",
            Self::Broken => "broken",
            Self::Timeout => "timeout",
            Self::Cut => "cut",
            Self::Left => "left",
            Self::Elsewhere => "elsewhere",
        }
    }
}
