//! Models that pods of this node declare warm.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::declaration::Declaration;

/// Identity of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// Trust in the declarations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum Freshness {
    /// There is no cluster, and so no declarations.
    NoCluster,
    /// The API server was not reached since the daemon started.
    Unknown,
    /// The watch is up.
    Current,
    /// The watch broke: these are the last declarations known. They stay in force.
    Stale {
        /// Time of the break.
        #[serde(skip)]
        since: SystemTime,
    },
}

/// All declarations at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WarmSet {
    /// Trust in them.
    pub freshness: Freshness,
    /// Declarations by pod. Pods without any are left out.
    pub pods: BTreeMap<Pod, BTreeSet<Declaration>>,
}

impl WarmSet {
    /// The set without a cluster.
    pub fn no_cluster() -> Self {
        Self {
            freshness: Freshness::NoCluster,
            pods: BTreeMap::new(),
        }
    }

    /// The set before the first complete list of the API server. `known`, from an earlier run of
    /// the daemon, is in force since `since`; without it nothing is known.
    pub fn before_first_sync(
        known: Option<BTreeMap<Pod, BTreeSet<Declaration>>>,
        since: SystemTime,
    ) -> Self {
        let freshness = match known {
            Some(_) => Freshness::Stale { since },
            None => Freshness::Unknown,
        };
        Self {
            freshness,
            pods: known.unwrap_or_default(),
        }
    }

    /// Declarations of pods in `namespaces`; of all pods if the list is empty.
    pub fn declared_for<'a>(&'a self, namespaces: &[String]) -> BTreeSet<&'a Declaration> {
        let counts = |pod: &Pod| namespaces.is_empty() || namespaces.contains(&pod.namespace);
        self.pods
            .iter()
            .filter(|(pod, _)| counts(pod))
            .flat_map(|(_, declared)| declared)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declares(namespace: &str, name: &str, models: &[&str]) -> (Pod, BTreeSet<Declaration>) {
        let pod = Pod {
            namespace: namespace.into(),
            name: name.into(),
            uid: format!("{namespace}-{name}"),
        };
        let models = models.iter().map(|model| model.parse().unwrap());
        (pod, models.collect())
    }

    fn three_pods() -> WarmSet {
        let pods = [
            declares("blue", "a", &["bert", "gpt2"]),
            declares("blue", "b", &["gpt2"]),
            declares("green", "a", &["llama"]),
        ];
        WarmSet::before_first_sync(Some(pods.into()), SystemTime::UNIX_EPOCH)
    }

    fn names(set: &WarmSet, namespaces: &[&str]) -> Vec<String> {
        let namespaces: Vec<String> = namespaces.iter().map(ToString::to_string).collect();
        let declared = set.declared_for(&namespaces);
        declared.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_store_of_all_namespaces_takes_every_declaration_once() {
        assert_eq!(names(&three_pods(), &[]), ["bert", "gpt2", "llama"]);
    }

    #[test]
    fn a_store_takes_the_declarations_of_its_namespaces_alone() {
        assert_eq!(names(&three_pods(), &["blue"]), ["bert", "gpt2"]);
        assert_eq!(names(&three_pods(), &["green", "red"]), ["llama"]);
        assert_eq!(names(&three_pods(), &["red"]), [""; 0]);
    }

    #[test]
    fn a_namespace_is_compared_whole() {
        assert_eq!(names(&three_pods(), &["blu", "Green", ""]), [""; 0]);
    }

    #[test]
    fn without_a_cluster_nothing_is_declared() {
        assert_eq!(names(&WarmSet::no_cluster(), &[]), [""; 0]);
    }

    #[test]
    fn what_an_earlier_run_knew_is_in_force_even_if_it_is_empty() {
        let since = SystemTime::UNIX_EPOCH;
        let known = WarmSet::before_first_sync(Some(BTreeMap::new()), since);
        assert_eq!(known.freshness, Freshness::Stale { since });
        let unknown = WarmSet::before_first_sync(None, since);
        assert_eq!(unknown.freshness, Freshness::Unknown);
    }
}
