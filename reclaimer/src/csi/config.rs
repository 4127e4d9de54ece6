//! The table `[csi]`: the driver's name, the kubelet's directory, and the stores made on demand.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::domains::PodTrust;
use super::idmap::IdmapMode;
use super::python::PythonConfig;
use crate::field_error::FieldError;

/// Placeholder of the namespace in names and paths.
pub const NAMESPACE: &str = "{namespace}";

/// The CSI driver, table `csi`. Without the table there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CsiConfig {
    /// Its name, that of the CSIDriver object.
    pub driver: String,
    /// The kubelet's directory, which this process sees at the same path, with `mountPropagation:
    /// Bidirectional`.
    pub kubelet_dir: PathBuf,
    /// Use of idmapped mounts.
    pub idmap: IdmapMode,
    /// Pods that take each other's word for derived tensors, on idmapped mounts.
    pub trust_domain: PodTrust,
    /// The Python package for pods whose images do not have it.
    pub python: PythonConfig,
    /// Stores made when the first pod of a namespace asks; none without it.
    pub per_namespace: Option<PerNamespace>,
}

/// One store for each namespace, made for its first pod, and removed when the namespace is gone and
/// the store is not mapped. Names and directories end with a dot and the namespace's unique
/// identifier: a namespace made again gets another store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerNamespace {
    /// The names by which pods ask for the stores; `{namespace}` stands for the namespace.
    #[serde(default = "default_name")]
    pub name: String,
    /// The stores' directories, without the identifier: directly in the tmpfs, with `{namespace}`
    /// in the last part.
    pub path: PathBuf,
    /// The namespaces that get one; all when empty.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// Most stores of living namespaces: each takes inodes and a watch.
    #[serde(default = "default_limit")]
    pub limit: usize,
}

impl Default for CsiConfig {
    fn default() -> Self {
        Self {
            driver: "csi.tetris.dev".to_owned(),
            kubelet_dir: "/var/lib/kubelet".into(),
            idmap: IdmapMode::Auto,
            trust_domain: PodTrust::ServiceAccount,
            python: PythonConfig::default(),
            per_namespace: None,
        }
    }
}

fn default_name() -> String {
    NAMESPACE.to_owned()
}

const fn default_limit() -> usize {
    64
}

/// Most stores of namespaces: a node has some hundred pods, and each store costs time in every pass.
pub(super) const MAX_STORES: usize = 4096;

/// The longest address of a UNIX socket, without its final zero byte.
const SOCKET_PATH_BYTES: usize = 107;

impl CsiConfig {
    /// The socket of the CSI services, which the kubelet connects to.
    pub fn socket(&self) -> PathBuf {
        let plugins = self.kubelet_dir.join("plugins");
        plugins.join(&self.driver).join("csi.sock")
    }

    /// The socket on which the kubelet finds the driver.
    ///
    /// The `@` is needed. The kubelet's plugin manager sends the socket's path as the HTTP/2
    /// authority, with `/` as `%2F`, and the server's library refuses a host with `%` in it before
    /// any of our code runs. With `@` the path is the user's part of the authority, where `%` may
    /// be, and the host follows.
    pub fn registration_socket(&self) -> PathBuf {
        let registry = self.kubelet_dir.join("plugins_registry");
        registry.join(format!("reg@{}.sock", self.driver))
    }

    /// Mistakes of all fields.
    pub fn mistakes(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let driver = &self.driver;
        if !is_driver_name(driver) {
            let expected = "1 to 63 lower-case letters, digits, `-` or `.`, with a letter or digit at the ends of each part";
            errors.push(FieldError::new("csi.driver", expected, driver));
        }
        if !self.kubelet_dir.is_absolute() || !is_plain(&self.kubelet_dir) {
            let expected = "an absolute path of letters, digits, `-`, `_` and `.`";
            let found = self.kubelet_dir.display();
            errors.push(FieldError::new("csi.kubelet_dir", expected, found));
        }
        let sockets = [self.socket(), self.registration_socket()];
        let length = |socket: &PathBuf| socket.as_os_str().len();
        let longest = sockets.iter().max_by_key(|socket| length(socket));
        if let Some(socket) = longest.filter(|socket| length(socket) > SOCKET_PATH_BYTES) {
            let expected =
                format!("a path with which no socket's is over {SOCKET_PATH_BYTES} bytes");
            let found = format!("{} for `{}`", length(socket), socket.display());
            errors.push(FieldError::new("csi.kubelet_dir", expected, found));
        }
        self.python.add_mistakes(&mut errors);
        if let Some(rule) = &self.per_namespace {
            rule.add_mistakes(&mut errors);
        }
        errors
    }
}

impl PerNamespace {
    fn add_mistakes(&self, errors: &mut Vec<FieldError>) {
        let once = |text: &str| text.matches(NAMESPACE).count() == 1;
        let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if !once(&self.name) || !self.name.replace(NAMESPACE, "").chars().all(letters) {
            let field = "csi.per_namespace.name";
            let expected = "`{namespace}` once, and letters, digits, `-`, `_` or `.`";
            errors.push(FieldError::new(field, expected, &self.name));
        }
        let last = self.path.file_name().and_then(|name| name.to_str());
        let parent = self.parent().to_str();
        let in_last =
            last.is_some_and(once) && parent.is_some_and(|path| !path.contains(NAMESPACE));
        if !self.path.is_absolute() || !in_last {
            let expected = "an absolute path with `{namespace}` once, in its last part";
            let found = self.path.display();
            errors.push(FieldError::new("csi.per_namespace.path", expected, found));
        }
        for (index, namespace) in self.namespaces.iter().enumerate() {
            if !is_namespace(namespace) {
                let field = format!("csi.per_namespace.namespaces[{index}]");
                errors.push(FieldError::new(
                    &field,
                    "the name of a namespace",
                    namespace,
                ));
            }
        }
        if !(1..=MAX_STORES).contains(&self.limit) {
            let expected = format!("1 to {MAX_STORES}");
            let found = self.limit;
            errors.push(FieldError::new("csi.per_namespace.limit", expected, found));
        }
    }

    /// The directory in which they are made.
    pub fn parent(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// The last part of their directories.
    pub(super) fn last(&self) -> &str {
        let last = self.path.file_name().and_then(|name| name.to_str());
        last.unwrap_or_default()
    }

    /// Returns true if the namespace gets one.
    pub(super) fn includes(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|name| name == namespace)
    }
}

/// Returns true if the path can be part of an authority, see [`CsiConfig::registration_socket`].
fn is_plain(path: &Path) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.');
    path.to_str().is_some_and(|path| path.chars().all(plain))
}

/// As the CSI specification has it, and lower-case: it is the name of the CSIDriver object too, a
/// DNS subdomain.
fn is_driver_name(name: &str) -> bool {
    name.len() <= 63 && name.split('.').all(is_namespace)
}

/// A DNS label, as Kubernetes has it. Only such names become part of a path.
pub(super) fn is_namespace(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= 63
        && name.starts_with(letter)
        && name.ends_with(letter)
        && name.chars().all(|c| letter(c) || c == '-')
}
