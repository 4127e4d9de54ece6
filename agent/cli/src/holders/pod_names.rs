//! Names of this machine's pods, as the kubelet's folder of logs has them.

use std::collections::HashMap;
use std::path::Path;

use super::cgroup::Pod;

/// The kubelet's folder of logs: `<namespace>_<name>_<uid>/`.
const LOGS: &str = "/var/log/pods";

/// Namespace and name of each pod, by unique identifier.
#[derive(Debug, Default)]
pub(super) struct PodNames(HashMap<String, (String, String)>);

impl PodNames {
    /// Of this machine; none where there is no kubelet, or this process may not look.
    pub(super) fn of_node() -> Self {
        Self::in_folder(Path::new(LOGS))
    }

    fn in_folder(folder: &Path) -> Self {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| {
            let file_name = entry.file_name();
            // Namespaces and pods have no underscore in their names.
            let mut parts = file_name.to_str()?.split('_');
            let (namespace, name, uid) = (parts.next()?, parts.next()?, parts.next()?);
            let named = (namespace.to_owned(), name.to_owned());
            parts.next().is_none().then(|| (uid.to_owned(), named))
        });
        Self(names.collect())
    }

    /// Adds namespace and name to a pod, where they are known.
    pub(super) fn complete(&self, pod: &mut Pod) {
        if let Some((namespace, name)) = self.0.get(&pod.uid) {
            *pod = Pod::new(&*pod.uid, Some((namespace, name)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_get_the_names_of_their_folders() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["prod_bert-7f_u-1", "stray", "a_b_c_d"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        let names = PodNames::in_folder(dir.path());
        let mut pod = Pod::new("u-1", None);
        names.complete(&mut pod);
        assert_eq!(pod.namespace.as_deref(), Some("prod"));
        assert_eq!(pod.name.as_deref(), Some("bert-7f"));
        let missing = PodNames::in_folder(&dir.path().join("missing"));
        assert!(missing.0.is_empty());
        assert_eq!(names.0.len(), 1);
    }
}
