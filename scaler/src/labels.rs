//! Names of labels and annotations, and the one under which the operator writes.

/// On Deployments and pods: the function's name.
pub const FUNCTION: &str = "tetris.dev/function";
/// On Deployments and pods: the configuration's name.
pub const CONFIGURATION: &str = "tetris.dev/configuration";
/// On pods that are no function's instances: a ModelProfile of the namespace that a function uses.
pub const PROFILE: &str = "tetris.dev/profile";
/// On Deployments: a hash of all that the template is made of but the preferred nodes.
pub const TEMPLATE_HASH: &str = "tetris.dev/template-hash";
/// On Deployments: the preferred nodes and their weights, which stay until the template changes.
pub const PREFERRED_NODES: &str = "tetris.dev/preferred-nodes";
/// On pods: its replacements are being started.
pub const RETIRING: &str = "tetris.dev/retiring";
/// On pods: pods of lower cost go first.
pub const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// Who writes.
pub const MANAGER: &str = "tetris-scaler";
/// The label by which the daemons of nodes are found, and its value.
pub const DAEMON: (&str, &str) = ("app.kubernetes.io/name", "tetris-node");
/// On nodes: what preferences go by.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
