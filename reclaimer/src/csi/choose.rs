//! Which store a pod gets: the administrator's mapping decides, and the pod may choose within it. Purely.

use super::config::{NAMESPACE, PerNamespace};
use super::error::VolumeError;
use crate::config::StoreConfig;

/// A store for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen {
    /// One of the configured stores.
    Fixed(StoreConfig),
    /// The namespace's own, which may have to be made.
    Own(StoreConfig),
}

/// The store for a pod of `namespace` that asks for `wanted`. Without a wish: a store that names the namespace, before the
/// namespace's own, before one for all, in the order of the configuration.
pub fn choose(
    stores: &[StoreConfig],
    per_namespace: Option<&PerNamespace>,
    namespace: &str,
    wanted: Option<&str>,
) -> Result<Chosen, VolumeError> {
    let named = stores
        .iter()
        .filter(|store| store.namespaces.iter().any(|name| name == namespace));
    let for_all = stores.iter().filter(|store| store.namespaces.is_empty());
    let own = per_namespace.and_then(|rule| own(rule, namespace));
    let mut allowed = named
        .cloned()
        .map(Chosen::Fixed)
        .chain(own.map(Chosen::Own))
        .chain(for_all.cloned().map(Chosen::Fixed));
    let all: Vec<Chosen> = allowed.by_ref().collect();
    let chosen = match wanted {
        Some(name) => all.iter().find(|chosen| chosen.config().name == name),
        None => all.first(),
    };
    match chosen {
        Some(Chosen::Own(store)) => {
            refuse_taken(stores, store, namespace)?;
            Ok(Chosen::Own(store.clone()))
        }
        Some(fixed) => Ok(fixed.clone()),
        None => Err(not_allowed(&all, namespace, wanted)),
    }
}

impl Chosen {
    /// The store.
    pub fn config(&self) -> &StoreConfig {
        match self {
            Self::Fixed(store) | Self::Own(store) => store,
        }
    }
}

/// The store that the rule has for a namespace.
pub fn own(rule: &PerNamespace, namespace: &str) -> Option<StoreConfig> {
    let included = rule.namespaces.is_empty() || rule.namespaces.iter().any(|n| n == namespace);
    let last = rule.path.file_name()?.to_str()?;
    included.then(|| StoreConfig {
        name: rule.name.replace(NAMESPACE, namespace),
        path: rule.parent().join(last.replace(NAMESPACE, namespace)),
        namespaces: vec![namespace.to_owned()],
    })
}

/// Whoever may create a namespace chooses its name, and so could choose that of another store.
fn refuse_taken(
    stores: &[StoreConfig],
    own: &StoreConfig,
    namespace: &str,
) -> Result<(), VolumeError> {
    let taken = stores.iter().find(|other| {
        let nested = own.path.starts_with(&other.path) || other.path.starts_with(&own.path);
        nested || other.name == own.name
    });
    match taken {
        None => Ok(()),
        Some(other) => Err(VolumeError::Taken {
            namespace: namespace.to_owned(),
            path: own.path.clone(),
            other: other.name.clone(),
        }),
    }
}

fn not_allowed(allowed: &[Chosen], namespace: &str, wanted: Option<&str>) -> VolumeError {
    let names: Vec<_> = allowed
        .iter()
        .map(|chosen| format!("`{}`", chosen.config().name))
        .collect();
    VolumeError::NotAllowed {
        namespace: namespace.to_owned(),
        wanted: wanted.map_or("any store".to_owned(), |name| format!("store `{name}`")),
        allowed: if names.is_empty() {
            "none; the administrator maps namespaces to stores in `stores[].namespaces`".to_owned()
        } else {
            names.join(", ")
        },
    }
}
