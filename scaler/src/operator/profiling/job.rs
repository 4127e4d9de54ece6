//! The Job that measures a function. Purely.

use kube::Resource as _;
use serde_json::{Map, Value, json};
use tetris_store_layout::Digest;
use thiserror::Error;

use super::assumed::{model_name, requested};
use crate::labels;
use crate::nodes::bytes;
use crate::operator::json_paths::{list, object};
use crate::operator::template::{add_model, add_volume, mount};
use crate::resources::{CheckedFunction, CheckedProfiling, CheckedTemplate, InferenceFunction};

/// Port of progress and result.
pub(super) const PORT: u16 = 9464;
/// Volume and folder of the profiler in the pod.
const VOLUME: &str = "tetris-profiler";
const FOLDER: &str = "/run/tetris-profiler";
/// Mount path of the store.
const STORE: &str = "/run/tetris/store";
/// Prefix of the variables that name the model, which do not change what is measured.
const MODEL_VARIABLES: &str = "TETRIS_MODEL_";
/// Least memory limit of the pod, by default.
const LEAST_MEMORY: u64 = 2 << 30;
/// Largest time of one configuration, in seconds.
const SECONDS: u32 = 10;
/// Time of the Job after the last configuration has begun.
const EXTRA_SECONDS: u64 = 600;
/// Time for which a failed Job stays, in seconds.
const KEPT_SECONDS: u64 = 1_800;
const DEFAULT_BATCH: [u32; 4] = [1, 2, 4, 8];
const DEFAULT_CONCURRENCY: [u32; 2] = [1, 2];
/// Of servers that batch by themselves, as those of OpenAI's protocol: requests at once.
const BATCHED_ALREADY: [u32; 1] = [1];
const AT_ONCE: [u32; 4] = [1, 2, 4, 8];
/// Fields of the container that make no sense for the profiler.
const DROPPED: [&str; 6] = [
    "ports",
    "startupProbe",
    "readinessProbe",
    "livenessProbe",
    "lifecycle",
    "resizePolicy",
];

/// The reason that a template cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum JobProblem {
    /// A container whose image decides what it runs.
    #[error(
        "the template's container {0:?} has no `command`, which the profiler has to start; set it, or name a measured profile in spec.profile"
    )]
    NoCommand(String),
}

/// Input of a Job.
#[derive(Debug, Clone, Copy)]
pub(super) struct JobInput<'a> {
    pub(super) function: &'a CheckedFunction,
    pub(super) uid: &'a str,
    pub(super) profiling: &'a CheckedProfiling,
    pub(super) template: &'a CheckedTemplate,
    /// Pod template with the container that copies the profiler.
    pub(super) installer: &'a Value,
    /// Digest of the model's files, if there is a Model.
    pub(super) model_content: Option<&'a str>,
    /// True if the server speaks OpenAI's protocol.
    pub(super) speaks_openai: bool,
    /// Numbers of CPUs to measure, where the function names none.
    pub(super) default_cpus: &'a [u32],
    /// Type of the machine to measure on; `None` if nodes have no label for it.
    pub(super) machine: Option<&'a str>,
}

/// A Job to write.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Job {
    pub(super) name: String,
    /// Hash of what is measured.
    pub(super) content: String,
    pub(super) object: Value,
}

/// Returns the Job of a function.
pub(super) fn job(input: &JobInput<'_>) -> Result<Job, JobProblem> {
    let JobInput {
        function, template, ..
    } = *input;
    let mut pods = Value::Object(template.raw.clone());
    let at = template.container;
    let containers = list(&mut pods, &["spec"], "containers");
    let mut container = if at < containers.len() {
        containers.swap_remove(at)
    } else {
        json!({})
    };
    let command = strings(&container, "command");
    if command.is_empty() {
        let name = container.get("name").and_then(Value::as_str);
        return Err(JobProblem::NoCommand(name.unwrap_or_default().to_owned()));
    }
    let instance = [command, strings(&container, "args")].concat();
    let grid = Grid::of(input);
    let content = content(input, &container, &instance, &grid);
    fill(&mut container, input, instance, &grid);
    *list(&mut pods, &["spec"], "containers") = vec![container];
    let installers = input.installer.pointer("/spec/containers");
    let installers = installers.and_then(Value::as_array).cloned();
    let initial = list(&mut pods, &["spec"], "initContainers");
    initial.splice(0..0, installers.unwrap_or_default());
    // Sidecars of the init containers would go on for ever.
    initial.retain(|container| container.get("restartPolicy").is_none());
    for container in initial {
        let is_installer = container.get("name").and_then(Value::as_str) == Some(VOLUME);
        if is_installer {
            let mounts = list(container, &[], "volumeMounts");
            mounts.push(json!({"name": VOLUME, "mountPath": FOLDER}));
        }
    }
    let store = (function.store != function.namespace).then_some(function.store.as_str());
    add_volume(&mut pods, store);
    if let Some(model) = &function.model {
        add_model(&mut pods, 0, model);
    }
    list(&mut pods, &["spec"], "volumes")
        .push(json!({"name": VOLUME, "emptyDir": {"sizeLimit": "1Gi"}}));
    let marks = json!({labels::PROFILING: function.name, labels::MEASURED_CONTENT: content});
    // The template's labels would make the pod a target of the function's Services.
    object(&mut pods, &["metadata"]).insert("labels".to_owned(), marks.clone());
    let spec = object(&mut pods, &["spec"]);
    spec.insert("restartPolicy".to_owned(), "Never".into());
    spec.insert("automountServiceAccountToken".to_owned(), false.into());
    spec.remove("schedulingGates");
    if let Some(machine) = input.machine {
        object(&mut pods, &["spec", "nodeSelector"])
            .entry(labels::MACHINE)
            .or_insert_with(|| machine.into());
    }
    if let Some(model) = &function.model {
        // On another node the pod would wait for the model's files.
        let with_model = json!({
            "topologyKey": labels::HOSTNAME,
            "labelSelector": {"matchLabels": {labels::MODEL: model}},
        });
        let affinity = ["spec", "affinity", "podAffinity"];
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        list(&mut pods, &affinity, required).push(with_model);
    }
    let name = format!("{}-{content}", shortened(&function.name));
    let seconds = u64::from(input.profiling.minutes) * 60 + EXTRA_SECONDS;
    let object = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": function.namespace,
            "labels": marks,
            "ownerReferences": [owner(function, input.uid)],
        },
        "spec": {
            "backoffLimit": 1,
            "activeDeadlineSeconds": seconds,
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "template": pods,
        },
    });
    Ok(Job {
        name,
        content,
        object,
    })
}

/// The function as the owner of an object.
pub(super) fn owner(function: &CheckedFunction, uid: &str) -> Value {
    json!({
        "apiVersion": InferenceFunction::api_version(&()),
        "kind": InferenceFunction::kind(&()),
        "name": function.name,
        "uid": uid,
        "controller": true,
    })
}

/// Configurations to measure.
#[derive(Debug)]
struct Grid {
    cpus: Vec<u32>,
    batch: Vec<u32>,
    concurrency: Vec<u32>,
}

impl Grid {
    fn of(input: &JobInput<'_>) -> Self {
        let chosen =
            |list: &[u32], default: &[u32]| if list.is_empty() { default } else { list }.to_vec();
        let profiling = input.profiling;
        let (batch, concurrency) = if input.speaks_openai {
            (&BATCHED_ALREADY[..], &AT_ONCE[..])
        } else {
            (&DEFAULT_BATCH[..], &DEFAULT_CONCURRENCY[..])
        };
        Self {
            cpus: chosen(&profiling.cpus, input.default_cpus),
            batch: chosen(&profiling.batch, batch),
            concurrency: chosen(&profiling.concurrency, concurrency),
        }
    }
}

/// Hash of all that the measurement depends on.
fn content(input: &JobInput<'_>, container: &Value, instance: &[String], grid: &Grid) -> String {
    let variables = container.get("env").and_then(Value::as_array);
    let variables = variables.into_iter().flatten().filter(|variable| {
        let name = variable.get("name").and_then(Value::as_str);
        name.is_none_or(|name| !name.starts_with(MODEL_VARIABLES))
    });
    let variables: Vec<&Value> = variables.collect();
    let function = input.function;
    let text = json!([
        container.get("image"),
        instance,
        variables,
        container.get("envFrom"),
        input.model_content,
        [&grid.cpus, &grid.batch, &grid.concurrency],
        [function.slo.us(), u64::from(function.percentile)],
        input.speaks_openai,
        input.machine,
    ]);
    let digest = Digest::of(text.to_string().as_bytes()).to_string();
    digest.chars().take(10).collect()
}

/// Removes the variable that the profiler sets for each server, so that the kubelet leaves references to it alone.
fn leave_port(container: &mut Value) {
    list(container, &[], "env").retain(|variable| {
        let name = variable.get("name").and_then(Value::as_str);
        name != Some("TETRIS_PORT")
    });
}

/// Makes the container run the profiler, which runs `instance`.
fn fill(container: &mut Value, input: &JobInput<'_>, instance: Vec<String>, grid: &Grid) {
    let function = input.function;
    let joined = |list: &[u32]| {
        let texts = list.iter().map(ToString::to_string);
        texts.collect::<Vec<_>>().join(",")
    };
    let (seconds, budget) = (SECONDS, input.profiling.minutes * 60);
    let protocol = if input.speaks_openai {
        "openai"
    } else {
        "inference"
    };
    let slo_millis = function.slo.us().div_ceil(1_000);
    let arguments = [
        "profile".to_owned(),
        format!("--serve=0.0.0.0:{PORT}"),
        format!("--model={}", model_name(function)),
        format!("--protocol={protocol}"),
        "--name=profile".to_owned(),
        format!("--cpus={}", joined(&grid.cpus)),
        format!("--batch={}", joined(&grid.batch)),
        format!("--concurrency={}", joined(&grid.concurrency)),
        format!("--slo-millis={slo_millis}"),
        format!("--slo-percentile={}", u64::from(function.percentile)),
        format!("--seconds={seconds}"),
        format!("--budget-seconds={budget}"),
        format!("--ready-seconds={EXTRA_SECONDS}"),
        format!("--store={STORE}"),
        format!("--database={FOLDER}/profiles.redb"),
        "--".to_owned(),
    ];
    let arguments: Vec<String> = arguments.into_iter().chain(instance).collect();
    let command = format!("{FOLDER}/tetris-scaler");
    let fields = object(container, &[]);
    fields.insert("command".to_owned(), json!([command]));
    fields.insert("args".to_owned(), json!(arguments));
    fields.insert(
        "terminationMessagePolicy".to_owned(),
        "FallbackToLogsOnError".into(),
    );
    fields.retain(|name, _| !DROPPED.contains(&name.as_str()));
    let widest = grid.cpus.iter().copied().max().unwrap_or(1);
    let requested = requested(input.template, "memory", bytes);
    let usual = requested.map_or(LEAST_MEMORY, |requested| {
        requested.saturating_mul(2).max(LEAST_MEMORY)
    });
    let memory = input.profiling.memory_bytes.unwrap_or(usual).to_string();
    // One CPU more for the clients, where there is one.
    let resources = json!({
        "requests": {"cpu": widest.to_string(), "memory": memory},
        "limits": {"cpu": (widest + 1).to_string(), "memory": memory},
    });
    fields.insert("resources".to_owned(), resources);
    mount(container);
    leave_port(container);
    list(container, &[], "volumeMounts").push(json!({"name": VOLUME, "mountPath": FOLDER}));
}

fn strings(container: &Value, field: &str) -> Vec<String> {
    let list = container.get(field).and_then(Value::as_array);
    let texts = list.into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

/// Shortens a function's name, so that the Job's name fits into a label of its pods.
fn shortened(name: &str) -> String {
    let short: String = name.chars().take(50).collect();
    short.trim_end_matches(['-', '.']).to_owned()
}

/// Metadata of a profile that the operator writes: of a measured one with the hash of what was measured, and the type of the
/// machine.
pub(super) fn profile_metadata(
    function: &CheckedFunction,
    uid: &str,
    measured: Option<(&str, Option<&str>)>,
) -> Value {
    let (mut marks, mut notes) = (Map::new(), Map::new());
    marks.insert(labels::PROFILING.to_owned(), function.name.clone().into());
    match measured {
        Some((content, machine)) => {
            marks.insert(labels::MEASURED_CONTENT.to_owned(), content.into());
            if let Some(machine) = machine {
                notes.insert(labels::MEASURED_MACHINE.to_owned(), machine.into());
            }
        }
        None => {
            marks.insert(labels::ASSUMED.to_owned(), "true".into());
        }
    }
    json!({
        "name": function.profile,
        "namespace": function.namespace,
        "labels": marks,
        "annotations": notes,
        "ownerReferences": [owner(function, uid)],
    })
}
