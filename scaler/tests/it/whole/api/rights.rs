//! The operator's rights according to the manifests, in a cluster where the namespace `blue` lets it
//! write.

use serde_json::Value;

use super::target::Target;

const RBAC: &str = include_str!("../../../../../deploy/base/scaler/rbac.yaml");

/// The namespace with bindings to the roles that no manifest binds.
const LETS_IT_WRITE: &str = "blue";

/// Rules, each with its namespace, or `None` for all.
pub struct Rights(Vec<(Option<String>, Value)>);

impl Rights {
    pub fn read() -> Self {
        let documents = serde_saphyr::from_multiple::<Value>(RBAC).unwrap();
        let rules = documents.iter().flat_map(|document| {
            let metadata = &document["metadata"];
            let namespace = match metadata["name"].as_str() {
                Some("tetris-scaler-namespace" | "tetris-scaler-models") => {
                    Some(LETS_IT_WRITE.to_owned())
                }
                _ => metadata["namespace"].as_str().map(str::to_owned),
            };
            let rules = document["rules"].as_array().cloned().unwrap_or_default();
            rules.into_iter().map(move |rule| (namespace.clone(), rule))
        });
        Self(rules.collect())
    }

    pub fn allow(&self, verb: &str, target: &Target) -> bool {
        let has = |list: &Value, wanted: &str| {
            let mut all = list.as_array().into_iter().flatten();
            all.any(|entry| entry == wanted)
        };
        self.0.iter().any(|(namespace, rule)| {
            let names = &rule["resourceNames"];
            namespace.as_ref().is_none_or(|it| *it == target.namespace)
                && has(&rule["apiGroups"], &target.group)
                && has(&rule["resources"], &target.full())
                && has(&rule["verbs"], verb)
                && (names.is_null()
                    || target
                        .name
                        .as_ref()
                        .or(target.selected.as_ref())
                        .is_some_and(|name| has(names, name)))
        })
    }
}
