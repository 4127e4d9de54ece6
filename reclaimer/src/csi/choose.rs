//! Choice of a pod's store: the administrator's mapping decides, and the pod may choose within it.
//! Purely.

use super::config::{NAMESPACE, PerNamespace, is_namespace};
use super::error::VolumeError;
use crate::store::StoreConfig;
use crate::uuid::split_uuid;

/// Suffix of the name of a store that an earlier version made. Pods cannot ask for it.
const EARLIER: &str = "earlier";

/// A store for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen {
    /// One of the configured stores.
    Fixed(StoreConfig),
    /// The namespace's own, by the name that pods know it by. Which directory that is follows from
    /// the namespace's unique identifier.
    Own(String),
}

/// A store that the rule has for a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnStore {
    /// The namespace's name.
    pub namespace: String,
    /// Its unique identifier; none for a directory of an earlier version, which no pod gets any
    /// more.
    pub uid: Option<String>,
    /// Its name and directory.
    pub config: StoreConfig,
}

/// The store for a pod of `namespace` that asks for `wanted`. Without a wish: a store that names
/// the namespace, before the namespace's own, before one for all, in the order of the
/// configuration.
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
    let of_namespace = per_namespace
        .filter(|rule| rule.includes(namespace))
        .map(|rule| rule.name.replace(NAMESPACE, namespace));
    let allowed = named
        .cloned()
        .map(Chosen::Fixed)
        .chain(of_namespace.map(Chosen::Own))
        .chain(for_all.cloned().map(Chosen::Fixed));
    let mut all: Vec<Chosen> = allowed.collect();
    let chosen = match wanted {
        Some(name) => all.iter().position(|chosen| chosen.name() == name),
        None => (!all.is_empty()).then_some(0),
    };
    match chosen {
        Some(index) => Ok(all.swap_remove(index)),
        None => Err(not_allowed(&all, namespace, wanted)),
    }
}

impl Chosen {
    /// The name by which pods ask for it.
    pub fn name(&self) -> &str {
        match self {
            Self::Fixed(store) => &store.name,
            Self::Own(name) => name,
        }
    }
}

impl OwnStore {
    /// The store for the namespace that has this identifier, unless it would be one of `stores`.
    pub fn new(
        stores: &[StoreConfig],
        rule: &PerNamespace,
        namespace: &str,
        uid: &str,
    ) -> Result<Self, VolumeError> {
        let name = format!("{}.{uid}", rule.name.replace(NAMESPACE, namespace));
        let store = Self::at(rule, namespace, Some(uid), name);
        let path = &store.config.path;
        let taken = stores.iter().find(|other| {
            let nested = path.starts_with(&other.path) || other.path.starts_with(path);
            nested || other.name == store.config.name
        });
        match taken {
            None => Ok(store),
            Some(other) => Err(VolumeError::Taken {
                namespace: namespace.to_owned(),
                path: path.clone(),
                other: other.name.clone(),
            }),
        }
    }

    /// The store whose directory has this name; `None` for a name that is not the rule's.
    pub(crate) fn of_directory(rule: &PerNamespace, directory: &str) -> Option<Self> {
        let (before, after) = rule.last().split_once(NAMESPACE)?;
        let (rest, uid) = split_uuid(directory);
        let namespace = rest.strip_prefix(before)?.strip_suffix(after)?;
        if !is_namespace(namespace) {
            return None;
        }
        let name = rule.name.replace(NAMESPACE, namespace);
        let name = match uid {
            Some(uid) => format!("{name}.{uid}"),
            None => format!("{name}.{EARLIER}"),
        };
        Some(Self::at(rule, namespace, uid, name))
    }

    fn at(rule: &PerNamespace, namespace: &str, uid: Option<&str>, name: String) -> Self {
        let mut directory = rule.last().replace(NAMESPACE, namespace);
        if let Some(uid) = uid {
            directory = format!("{directory}.{uid}");
        }
        Self {
            namespace: namespace.to_owned(),
            uid: uid.map(str::to_owned),
            config: StoreConfig {
                name,
                path: rule.parent().join(directory),
                namespaces: vec![namespace.to_owned()],
                own: true,
            },
        }
    }
}

fn not_allowed(allowed: &[Chosen], namespace: &str, wanted: Option<&str>) -> VolumeError {
    let names: Vec<_> = allowed
        .iter()
        .map(|chosen| format!("`{}`", chosen.name()))
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
