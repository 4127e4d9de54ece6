//! The plan as JSON, as `--format json` prints it. The README describes the format.

use serde::Serialize;
use tetris_scaler_core::{Configuration, FunctionDecision, FunctionOutcome, FunctionView, Rate};

use super::candidates::{Candidate, candidates};
use super::compare::{NoPlan, published, unshared};
use super::figures::{Figures, Measured, NodeFigures};
use super::functions::Function;
use super::gpus::{GpuReport, gpus};
use super::problem::Problem;
use super::solve::Solved;

/// Version of the format. It changes when a field is removed or changes its meaning.
pub const VERSION: u32 = 1;

/// The plan.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    version: u32,
    pub(super) feasible: bool,
    pub(super) decision_us: u64,
    pub(super) functions: Vec<FunctionReport>,
    pub(super) nodes: Vec<NodeReport>,
    pub(super) totals: Totals,
    pub(super) comparison: Comparison,
}

/// A function and its configurations.
#[derive(Debug, Serialize)]
pub(super) struct FunctionReport {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) profile: String,
    pub(super) slo_us: u64,
    pub(super) percentile: u64,
    pub(super) load_micro_rps: Rate,
    pub(super) needed_micro_rps: Rate,
    /// Load that instances are started for, and that the alternatives are planned for: with the
    /// headroom of scaling in, if there is room.
    pub(super) planned_micro_rps: Rate,
    pub(super) carried_micro_rps: Rate,
    pub(super) outcome: FunctionOutcome,
    pub(super) message: String,
    pub(super) configurations: Vec<ConfigurationReport>,
    /// Set with `--explain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) candidates: Option<Vec<Candidate>>,
}

/// A configuration with instances.
#[derive(Debug, Serialize)]
pub(super) struct ConfigurationReport {
    pub(super) name: String,
    pub(super) replicas: u32,
    pub(super) starting: u32,
    /// Number of `starting` instances that fit on no node.
    pub(super) without_node: u32,
    pub(super) cpu_millis: u64,
    pub(super) batch: u32,
    pub(super) concurrency: u32,
    pub(super) own_bytes: u64,
    pub(super) latency_us: u64,
    /// Maximum latency within the objective: half of it for batches.
    pub(super) latency_limit_us: u64,
    /// Longest wait of an instance for a batch to fill.
    pub(super) batch_wait_us: u64,
    pub(super) rate_micro_rps: Rate,
}

/// A node with instances.
#[derive(Debug, Serialize)]
pub(super) struct NodeReport {
    pub(super) name: String,
    pub(super) instances: Vec<InstancesReport>,
    pub(super) cpu_millis: u128,
    pub(super) own_bytes: u128,
    pub(super) tensor_bytes: u128,
    /// Bytes of `tensor_bytes` that are resident already.
    pub(super) resident_bytes: u128,
    /// Bytes that private copies of the tensors would add.
    pub(super) saved_bytes: u128,
    /// GPUs with instances.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) gpus: Vec<GpuReport>,
}

/// Instances of a configuration on a node.
#[derive(Debug, Serialize)]
pub(super) struct InstancesReport {
    pub(super) namespace: String,
    pub(super) function: String,
    pub(super) configuration: String,
    pub(super) replicas: u32,
    /// Number of `replicas` that already run.
    pub(super) running: u32,
}

/// Resources of the instances, on nodes and GPUs.
#[derive(Debug, Serialize)]
pub(super) struct Totals {
    pub(super) instances: u64,
    pub(super) nodes: usize,
    pub(super) cpu_millis: u128,
    pub(super) memory_bytes: u128,
    pub(super) own_bytes: u128,
    /// Size of tensors, each counted once per node, and once more where a GPU of it has them.
    pub(super) tensor_bytes: u128,
    /// Cost: `memory + alpha cpu`.
    pub(super) cost_bytes: u128,
}

/// Alternatives for the same loads.
#[derive(Debug, Serialize)]
pub(super) struct Comparison {
    /// Lower bound of the cost of any placement.
    pub(super) lower_bound_bytes: u128,
    /// DTS, and the most similar node.
    pub(super) published: Other,
    /// Exact solution with a copy per instance, regardless of room on nodes.
    pub(super) unshared: Other,
}

/// Totals of an alternative, or the reason it has none.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Other {
    Found(Totals),
    None { error: String },
}

impl Report {
    pub(super) fn new(problem: &Problem, solved: &Solved, explain: bool) -> Self {
        let views = problem.view().functions;
        let decided = problem.functions.iter().zip(&solved.decision.functions);
        let planned: Vec<Rate> = (views.iter().zip(&solved.decision.functions))
            .map(|(view, decided)| planned(view, decided))
            .collect();
        let functions = decided.zip(&planned).enumerate();
        let functions = functions.map(|(index, ((function, decided), &planned))| {
            let mut report = FunctionReport::new(function, decided, planned);
            report.configurations = configurations(function, decided, solved, index);
            let replicas = |index| decided.replicas.get(&index).copied().unwrap_or(0);
            report.candidates = explain.then(|| candidates(problem, function, planned, replicas));
            report
        });
        let measured = Measured {
            functions: &problem.functions,
            inventory: &problem.cluster.inventory,
            node_name: &|index| problem.node_name(index),
            configuration: |function: usize, index: usize| {
                let model = &problem.functions.get(function)?.model;
                model.profile.configurations().get(index)
            },
        };
        let nodes = measured.by_node(&solved.placed).into_iter();
        let mut gpus = gpus(problem, &solved.placed);
        let totals = solved.decision.totals(&problem.view());
        Self {
            version: VERSION,
            feasible: solved.feasible(),
            decision_us: u64::try_from(solved.took.as_micros()).unwrap_or(u64::MAX),
            functions: functions.collect(),
            nodes: nodes
                .map(|(node, figures)| NodeReport {
                    gpus: gpus.remove(&node).unwrap_or_default(),
                    ..NodeReport::new(problem, solved, node, &figures)
                })
                .collect(),
            totals: Totals::of(&measured.all(&solved.placed)),
            comparison: Comparison {
                lower_bound_bytes: totals.lower_bound,
                published: Other::of(published(problem, &planned)),
                unshared: Other::of(unshared(problem, &planned)),
            },
        }
    }
}

/// Returns the planned load: with the headroom of scaling in, or as much of it as is carried.
fn planned(view: &FunctionView, decided: &FunctionDecision) -> Rate {
    let load = view.load.unwrap_or_default();
    let most = view.scale_in.needed(load).min(decided.capacity);
    decided.needed.max(most)
}

impl FunctionReport {
    fn new(function: &Function, decided: &FunctionDecision, planned: Rate) -> Self {
        Self {
            namespace: function.key.namespace.clone(),
            name: function.key.name.clone(),
            profile: function.profile.name.clone(),
            slo_us: function.model.slo.us(),
            percentile: function.checked.percentile.into(),
            load_micro_rps: function.load,
            needed_micro_rps: decided.needed,
            planned_micro_rps: planned,
            carried_micro_rps: decided.capacity,
            outcome: decided.outcome.clone(),
            message: decided.outcome.to_string(),
            configurations: Vec::new(),
            candidates: None,
        }
    }
}

fn configurations(
    function: &Function,
    decided: &FunctionDecision,
    solved: &Solved,
    index: usize,
) -> Vec<ConfigurationReport> {
    let replicas = decided
        .replicas
        .iter()
        .filter(|(_, replicas)| **replicas > 0);
    let rows = replicas.filter_map(|(&at, &replicas)| {
        let configuration: &Configuration = function.model.profile.configurations().get(at)?;
        let share = if configuration.batch() == 1 { 1 } else { 2 };
        Some(ConfigurationReport {
            name: function.names.get(at)?.clone(),
            replicas,
            starting: decided.start.get(&at).copied().unwrap_or(0),
            without_node: solved.waiting.get(&(index, at)).copied().unwrap_or(0),
            cpu_millis: configuration.cpu_millis(),
            batch: configuration.batch(),
            concurrency: configuration.concurrency(),
            own_bytes: configuration.own_bytes(),
            latency_us: configuration.latency_us(),
            latency_limit_us: function.model.slo.us() / share,
            batch_wait_us: configuration.batch_wait_us(function.model.slo),
            rate_micro_rps: configuration.rate(),
        })
    });
    rows.collect()
}

impl NodeReport {
    fn new(problem: &Problem, solved: &Solved, node: usize, figures: &NodeFigures) -> Self {
        let placed = figures
            .placed
            .iter()
            .filter_map(|at| solved.placed.get(*at));
        let instances = placed.filter_map(|figure| {
            let function = problem.functions.get(figure.model)?;
            let running = (figure.model, figure.configuration, figure.node);
            Some(InstancesReport {
                namespace: function.key.namespace.clone(),
                function: function.key.name.clone(),
                configuration: function.names.get(figure.configuration)?.clone(),
                replicas: figure.count,
                running: solved.running.get(&running).copied().unwrap_or(0),
            })
        });
        Self {
            name: problem.node_name(node).to_owned(),
            instances: instances.collect(),
            cpu_millis: figures.cpu_millis,
            own_bytes: figures.own_bytes,
            tensor_bytes: figures.tensor_bytes,
            resident_bytes: figures.there_bytes,
            saved_bytes: figures.saved_bytes,
            gpus: Vec::new(),
        }
    }
}

impl Totals {
    fn of(figures: &Figures) -> Self {
        Self {
            instances: figures.instances,
            nodes: figures.nodes,
            cpu_millis: figures.cpu_millis,
            memory_bytes: figures.memory_bytes(),
            own_bytes: figures.own_bytes,
            tensor_bytes: figures.tensor_bytes,
            cost_bytes: figures.cost,
        }
    }
}

impl Other {
    fn of(figures: Result<Figures, NoPlan>) -> Self {
        match figures {
            Ok(figures) => Self::Found(Totals::of(&figures)),
            Err(error) => Self::None {
                error: error.to_string(),
            },
        }
    }
}
