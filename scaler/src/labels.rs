//! Names of labels and annotations, and the operator's field manager.

/// On Deployments and pods: name of the function.
pub const FUNCTION: &str = "tetris.dev/function";
/// On Deployments and pods: name of the configuration.
pub const CONFIGURATION: &str = "tetris.dev/configuration";
/// Annotation of pods of other owners: name of a ModelProfile that a function of the namespace uses.
pub const PROFILE: &str = "tetris.dev/profile";
/// On Deployments: hash of the template without the preferred nodes.
pub const TEMPLATE_HASH: &str = "tetris.dev/template-hash";
/// On Deployments: preferred nodes and their weights, unchanged until the template changes.
pub const PREFERRED_NODES: &str = "tetris.dev/preferred-nodes";
/// On Deployments: number of instances by the name of the node that the last plan put them on.
pub const PLANNED_NODES: &str = "tetris.dev/planned-nodes";
/// On pods of Deployments: hash of their template, by which old and new ones differ.
pub const POD_TEMPLATE: &str = "pod-template-hash";
/// On DaemonSets and pods: name of the model that they keep.
pub const MODEL: &str = "tetris.dev/model";
/// On DaemonSets and pods of models: hash of the source and all else that does not change.
pub const MODEL_CONTENT: &str = "tetris.dev/model-content";
/// On PodTemplates of the operator's namespace: name of the engine.
pub const ENGINE: &str = "tetris.dev/engine";
/// On PodTemplates of engines: tasks that the engine serves, separated by commas.
pub const ENGINE_TASKS: &str = "tetris.dev/engine-tasks";
/// On PodTemplates of engines: formats of weights that it loads, separated by commas.
pub const ENGINE_FORMATS: &str = "tetris.dev/engine-formats";
/// On PodTemplates of engines: protocol of the server, `inference` or `openai`. By default `inference`.
pub const ENGINE_PROTOCOL: &str = "tetris.dev/engine-protocol";
/// On Jobs, their pods, and ModelProfiles that the operator writes: name of the measured function.
pub const PROFILING: &str = "tetris.dev/profiling";
/// On Jobs and ModelProfiles: hash of what is measured.
pub const MEASURED_CONTENT: &str = "tetris.dev/measured-content";
/// Annotation of ModelProfiles that the operator writes: type of the machine.
pub const MEASURED_MACHINE: &str = "tetris.dev/measured-machine";
/// On nodes: type of the machine.
pub const MACHINE: &str = "node.kubernetes.io/instance-type";
/// On ModelProfiles that the operator assumes until a Job has measured: `true`.
pub const ASSUMED: &str = "tetris.dev/assumed";
/// On DaemonSets of models: names of the nodes that they are narrowed to.
pub const MODEL_NODES: &str = "tetris.dev/model-nodes";
/// On DaemonSets of models: hash of all that the operator wrote.
pub const WRITTEN: &str = "tetris.dev/written";
/// Scheduling gate of pods that wait for their node.
pub const GATE: &str = "tetris.dev/placement";
/// On pods: marks an instance with replacements under way.
pub const RETIRING: &str = "tetris.dev/retiring";
/// On pods of functions with GPUs: UUID of the GPU of the instance, or `all` if none was chosen.
pub const GPU: &str = "tetris.dev/gpu";
/// Value of [`GPU`] for every GPU of the node.
pub const EVERY_GPU: &str = "all";
/// Key of the taint of nodes that only pods with GPUs may use.
pub const GPU_TAINT: &str = "nvidia.com/gpu";
/// On pods: Kubernetes deletes pods of lower cost first.
pub const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// Name of the field manager for the operator's writes.
pub const MANAGER: &str = "tetris-scaler";
/// Label of the daemons' pods, and its value.
pub const DAEMON: (&str, &str) = ("app.kubernetes.io/name", "tetris-node");
/// Label of the gateways' pods, and its value.
pub const GATEWAY: (&str, &str) = ("app.kubernetes.io/name", "tetris-gateway");
/// On nodes: label that node preferences select by.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
