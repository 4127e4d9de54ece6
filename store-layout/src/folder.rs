//! The folders of a store (LAYOUT.md 1).

/// A folder of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Folder {
    Objects,
    Manifests,
    Identities,
    Derived,
    Quarantine,
}

/// Name of the folder of hints at models' paths. A store of an earlier build has none, so it is opened
/// only where it is needed.
pub(crate) const PATHS: &str = "paths-v1";

/// Name of the folder of records that no process reads any more (LAYOUT.md 5.8). It is made when it is first needed.
pub(crate) const SUSPECT: &str = "suspect-v1";

/// Name of the directory, in a store's root, with the domains of pods.
pub const TRUST_DOMAINS: &str = "trust-domains";

impl Folder {
    pub(crate) const ALL: [Self; 5] = [
        Self::Objects,
        Self::Manifests,
        Self::Identities,
        Self::Derived,
        Self::Quarantine,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Objects => "objects-v1",
            Self::Manifests => "manifests-v1",
            Self::Identities => "identities-v1",
            Self::Derived => "derived-v1",
            Self::Quarantine => "quarantine-v1",
        }
    }
}
