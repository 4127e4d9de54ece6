//! Target of a request path.

use super::objects::{Id, id};

#[derive(Clone, Debug)]
pub struct Target {
    pub group: String,
    pub resource: String,
    pub namespace: String,
    pub name: Option<String>,
    /// The name that the field selector of a list or a watch demands.
    pub selected: Option<String>,
    pub is_status: bool,
    /// True for tokens of a service account.
    pub is_token: bool,
}

impl Target {
    pub fn read(path: &str) -> Option<Self> {
        let mut parts = path.trim_matches('/').split('/');
        let group = match parts.next()? {
            "api" => "",
            "apis" => parts.next()?,
            _ => return None,
        };
        let mut rest: Vec<&str> = parts.skip(1).collect();
        let namespace = if rest.len() > 2 && rest[0] == "namespaces" {
            rest.drain(..2).nth(1)?
        } else {
            ""
        };
        Some(Self {
            group: group.to_owned(),
            resource: (*rest.first()?).to_owned(),
            namespace: namespace.to_owned(),
            name: rest.get(1).map(ToString::to_string),
            selected: None,
            is_status: rest.get(2) == Some(&"status"),
            is_token: rest.get(2) == Some(&"token"),
        })
    }

    pub fn id(&self) -> Id {
        let name = self.name.as_deref().unwrap_or_default();
        id(&self.resource, &self.namespace, name)
    }

    /// Name of the resource in rules of rights.
    pub fn full(&self) -> String {
        let sub = match (self.is_status, self.is_token) {
            (true, _) => "/status",
            (_, true) => "/token",
            _ => "",
        };
        format!("{}{sub}", self.resource)
    }

    /// Returns `apiVersion` and `kind` of its objects.
    pub fn kind(&self) -> (&'static str, &'static str) {
        match self.resource.as_str() {
            "inferencefunctions" => ("tetris.dev/v1alpha1", "InferenceFunction"),
            "modelprofiles" => ("tetris.dev/v1alpha1", "ModelProfile"),
            "models" => ("tetris.dev/v1alpha1", "Model"),
            "deployments" => ("apps/v1", "Deployment"),
            "daemonsets" => ("apps/v1", "DaemonSet"),
            "jobs" => ("batch/v1", "Job"),
            "podtemplates" => ("v1", "PodTemplate"),
            "leases" => ("coordination.k8s.io/v1", "Lease"),
            "events" => ("events.k8s.io/v1", "Event"),
            "pods" => ("v1", "Pod"),
            "nodes" => ("v1", "Node"),
            other => panic!("a resource that there is not: {other}"),
        }
    }
}
