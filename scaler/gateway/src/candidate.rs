//! Servers that a dispatch chooses from, as its event shows them.

use std::fmt;

use crate::endpoint::EndpointLoad;

/// An instance or executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) name: String,
    /// Requests that it has.
    pub(crate) outstanding: u64,
    /// Largest number of requests that it gets.
    pub(crate) room: u64,
    /// The reason it gets none now.
    pub(crate) excluded: Option<&'static str>,
}

impl From<EndpointLoad> for Candidate {
    fn from(endpoint: EndpointLoad) -> Self {
        let load = endpoint.load;
        let excluded = if load.draining {
            Some("draining")
        } else {
            load.ejected.then_some("ejected")
        };
        Self {
            name: endpoint.name,
            outstanding: load.outstanding,
            room: load.room,
            excluded,
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            outstanding,
            room,
            excluded,
        } = self;
        write!(f, "{name} {outstanding}/{room}")?;
        excluded.map_or(Ok(()), |because| write!(f, " {because}"))
    }
}
