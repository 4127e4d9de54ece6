//! The pod, container or service of a process, by the names of its cgroup.

/// The pod, container and service that a process belongs to, as far as its cgroup shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Container {
    /// The pod.
    pub pod: Option<Pod>,
    /// Identifier of the container: 64 hexadecimal digits.
    pub id: Option<String>,
    /// The systemd service, e.g. `serve.service`.
    pub unit: Option<String>,
}

/// A pod of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pod {
    /// Its unique identifier.
    pub uid: String,
    /// Its namespace, where this machine's kubelet keeps logs of the pod.
    pub namespace: Option<String>,
    /// Its name, as the namespace.
    pub name: Option<String>,
}

impl Pod {
    /// The pod with this identifier, and its namespace and name where they are known.
    pub fn new(uid: impl Into<String>, named: Option<(&str, &str)>) -> Self {
        Self {
            uid: uid.into(),
            namespace: named.map(|(namespace, _)| namespace.to_owned()),
            name: named.map(|(_, name)| name.to_owned()),
        }
    }
}

impl Container {
    /// Reads the text of `/proc/<pid>/cgroup`: lines such as `0::/kubepods.slice/...`.
    pub(super) fn of_cgroups(text: &str) -> Self {
        let mut container = Self::default();
        for line in text.lines() {
            let Some(path) = line.splitn(3, ':').nth(2) else {
                continue;
            };
            let in_kubepods = path.contains("kubepods");
            for name in path.split('/') {
                if in_kubepods && container.pod.is_none() {
                    container.pod = pod_uid(name).map(|uid| Pod::new(uid, None));
                }
                if let Some(id) = container_id(name) {
                    container.id = Some(id.to_owned());
                }
                if name.ends_with(".service") {
                    container.unit = Some(name.to_owned());
                }
            }
        }
        container
    }

    /// Returns true if nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The identifier in `pod<uid>` (driver `cgroupfs`) or `kubepods-burstable-pod<uid>.slice` (driver
/// `systemd`, which writes `_` for `-`).
fn pod_uid(name: &str) -> Option<String> {
    let name = name.strip_suffix(".slice").unwrap_or(name);
    let (before, uid) = name.rsplit_once("pod")?;
    let is_prefix = before.is_empty() || (before.starts_with("kubepods") && before.ends_with('-'));
    let uid = uid.replace('_', "-");
    let digits = uid.bytes().filter(u8::is_ascii_hexdigit).count();
    // The identifier of a static pod has no hyphens.
    let is_uid = digits == 32 && uid.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit());
    (is_prefix && is_uid).then_some(uid)
}

/// The identifier in `<id>`, `docker-<id>.scope` or `cri-containerd-<id>.scope`.
fn container_id(name: &str) -> Option<&str> {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    let id = name.rsplit_once('-').map_or(name, |(_, id)| id);
    (id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit())).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_found_with_both_cgroup_drivers() {
        let id = "c0".repeat(32);
        let uid = "0f9a3c1e-7b1d-4c58-9d0e-52a0a8a3f111";
        let systemd = format!(
            "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-containerd-{id}.scope\n",
            uid.replace('-', "_")
        );
        let cgroupfs = format!(
            "12:memory:/kubepods/besteffort/pod{uid}/{id}\n0::/kubepods/besteffort/pod{uid}/{id}\n"
        );
        for text in [systemd, cgroupfs] {
            let container = Container::of_cgroups(&text);
            assert_eq!(container.pod.unwrap().uid, uid, "{text}");
            assert_eq!(container.id.as_deref(), Some(&*id), "{text}");
            assert_eq!(container.unit, None);
        }
    }

    #[test]
    fn static_pods_have_identifiers_without_hyphens() {
        let uid = "9a".repeat(16);
        let text = format!("0::/kubepods/pod{uid}");
        assert_eq!(Container::of_cgroups(&text).pod.unwrap().uid, uid);
    }

    #[test]
    fn containers_and_services_are_told_apart() {
        let id = "ab".repeat(32);
        let docker = Container::of_cgroups(&format!("0::/system.slice/docker-{id}.scope"));
        assert_eq!((docker.id.as_deref(), docker.pod), (Some(&*id), None));
        let service = Container::of_cgroups("0::/system.slice/serve.service");
        assert_eq!(service.unit.as_deref(), Some("serve.service"));
        assert_eq!((service.id, service.pod), (None, None));
    }

    #[test]
    fn other_names_say_nothing() {
        for text in [
            "",
            "0::/",
            "garbage",
            "0::/user.slice/user-1000.slice/session-3.scope",
            "0::/kubepods/podzz",
            "0::/podfeed",
            "0::/kubepods/tripod00000000000000000000000000000000",
        ] {
            assert!(Container::of_cgroups(text).is_empty(), "{text}");
        }
    }
}
