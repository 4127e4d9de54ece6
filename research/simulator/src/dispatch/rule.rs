//! Rules by which requests go to instances.

use std::fmt;

use serde::Serialize;

/// A rule by which requests go to instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Each ready instance in turn, as soon as the request comes.
    RoundRobin,
    /// The ready instance with the fewest requests, as soon as the request comes.
    LeastConnections,
    /// `tetris_scaler_dispatch`.
    Dispatcher,
    /// Two of these, each without knowledge of the other's requests.
    TwoDispatchers,
    /// Four of these.
    FourDispatchers,
}

impl Rule {
    /// All rules, in the order of reports.
    pub const ALL: [Self; 5] = [
        Self::RoundRobin,
        Self::LeastConnections,
        Self::Dispatcher,
        Self::TwoDispatchers,
        Self::FourDispatchers,
    ];

    /// Name of the rule in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round robin",
            Self::LeastConnections => "least connections",
            Self::Dispatcher => "dispatcher",
            Self::TwoDispatchers => "two dispatchers",
            Self::FourDispatchers => "four dispatchers",
        }
    }

    /// The rule in a sentence.
    pub const fn about(self) -> &'static str {
        match self {
            Self::RoundRobin => {
                "each ready instance in turn, at arrival, as kube-proxy and proxies do without a queue"
            }
            Self::LeastConnections => {
                "the ready instance with the fewest requests, at arrival, whatever its capacity"
            }
            Self::Dispatcher => {
                "the gateway's own: by capacity, deadline and observed latency, from one queue"
            }
            Self::TwoDispatchers => {
                "two gateways, each with half of the requests and no knowledge of the other's"
            }
            Self::FourDispatchers => "four gateways, each with a quarter of the requests",
        }
    }

    /// Number of dispatchers; zero for rules without.
    pub(super) const fn dispatchers(self) -> u32 {
        match self {
            Self::RoundRobin | Self::LeastConnections => 0,
            Self::Dispatcher => 1,
            Self::TwoDispatchers => 2,
            Self::FourDispatchers => 4,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
