//! Systems of the comparison, on the engine of GPUs.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use tetris_gpu_policies::{LALBO3, TorporRules};
use tetris_scaler_dispatch::RequestId;
use tetris_scaler_dispatch::gpu::{
    Gpu, GpuId, GpuModel, GpuPolicy, GpuRequest, GpuScheduler, ModelId, ObjectId, Part,
    SharingRules, Topology,
};

use crate::gpu::engine::Engine;
use crate::gpu::idle::Limits;
use crate::gpu::record::GpuRecords;

use super::functions::{Arrival, Function};
use super::setting::{Scheduling, TidalSetting};

/// A system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TidalSystem {
    /// Load, then the first inference with cold kernels. Functions with adapters are not kept.
    ServerlessLlm,
    /// The load runs beside the adapter and the inference, with warm kernels.
    Tidal,
    /// The same, and functions with adapters are kept.
    TidalDk,
    /// The same, with templates of four functions on two GPUs.
    TidalDk6g,
}

impl TidalSystem {
    /// All systems, in the order of the paper's figure.
    pub const ALL: [Self; 4] = [
        Self::ServerlessLlm,
        Self::Tidal,
        Self::TidalDk,
        Self::TidalDk6g,
    ];

    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ServerlessLlm => "ServerlessLLM",
            Self::Tidal => "Tidal",
            Self::TidalDk => "Tidal-DK",
            Self::TidalDk6g => "Tidal-DK-6G",
        }
    }

    /// True if a later request of the function can have the instance.
    const fn reuses(self, function: &Function) -> bool {
        match self {
            Self::ServerlessLlm | Self::Tidal => !function.kind.dynamic,
            Self::TidalDk | Self::TidalDk6g => true,
        }
    }

    /// Model of a function, or of one request of it: times and `parts`.
    fn model(self, setting: &TidalSetting, function: &Function, parts: Vec<Part>) -> GpuModel {
        let costs = &setting.costs;
        let base = costs.base(function.kind.base);
        let decode_us = decode_us(setting, function);
        let warm_us = function.warm_us(costs);
        let parts = parts.into_iter().filter(|part| part.bytes > 0).collect();
        match self {
            Self::ServerlessLlm => {
                let setup_us = if function.kind.dynamic {
                    base.adapter_us
                } else {
                    0
                };
                let infer_us = warm_us - setup_us + decode_us;
                GpuModel {
                    parts,
                    setup_us,
                    infer_us,
                    after_load_us: costs.kernels_us + infer_us,
                }
            }
            Self::Tidal | Self::TidalDk | Self::TidalDk6g => GpuModel {
                parts,
                setup_us: 0,
                infer_us: warm_us + decode_us,
                after_load_us: decode_us,
            },
        }
    }
}

/// Time from the first token of a request to its last, in microseconds.
pub(super) fn decode_us(setting: &TidalSetting, function: &Function) -> u64 {
    setting.more_tokens * setting.costs.base(function.kind.base).decode_us
}

/// A template: a prefix of functions on GPUs.
struct Template {
    functions: Vec<u32>,
    gpus: Vec<GpuId>,
    bytes: u64,
}

fn templates(setting: &TidalSetting, system: TidalSystem) -> Vec<Template> {
    if system != TidalSystem::TidalDk6g {
        return Vec::new();
    }
    let sizes = &setting.templates;
    let all = Function::all().into_iter();
    let functions: Vec<u32> = all
        .filter(|entry| entry.kind == sizes.kind)
        .map(|unction| unction.number)
        .collect();
    let whole = setting.costs.base(sizes.kind.base).bytes;
    if sizes.shared {
        return vec![Template {
            functions,
            gpus: vec![GpuId(0), GpuId(1)],
            bytes: sizes.bytes.min(whole),
        }];
    }
    let numbered = (0_u32..).zip(functions);
    numbered
        .map(|(at, function)| Template {
            functions: vec![function],
            gpus: vec![GpuId(at % 2)],
            bytes: (sizes.bytes / 2).min(whole),
        })
        .collect()
}

/// Returns true if the function has a template in Tidal-DK-6G.
pub(super) fn has_template(setting: &TidalSetting, function: &Function) -> bool {
    function.kind == setting.templates.kind
}

fn policy(scheduling: Scheduling) -> Arc<dyn GpuPolicy> {
    match scheduling {
        Scheduling::Soonest => Arc::new(SharingRules::default()),
        Scheduling::Fifo => Arc::new(TorporRules {
            by_required_count: false,
            avoids_interference: false,
            evicts_light_first: false,
            ..TorporRules::default()
        }),
        Scheduling::Lalbo3 => Arc::new(LALBO3),
    }
}

/// GPUs of four servers with two each, and its own link for each GPU.
fn topology(setting: &TidalSetting, templates: &[Template]) -> Topology {
    let gpu = |number| {
        let here = templates
            .iter()
            .filter(|template| template.gpus.contains(&GpuId(number)));
        Gpu {
            memory_bytes: setting.memory_bytes(here.map(|template| template.bytes).sum()),
            node: number / 2,
            switch: number,
        }
    };
    Topology {
        gpus: (0..setting.gpus).map(gpu).collect(),
        host_bytes_per_s: setting.costs.host_bytes_per_s,
        peers: BTreeMap::new(),
    }
}

/// Models of a run, with their keep-alive in microseconds.
#[derive(Default)]
struct Models {
    models: Vec<GpuModel>,
    keep_us: Vec<u64>,
}

impl Models {
    fn add(&mut self, model: GpuModel, keep_us: u64) -> ModelId {
        self.models.push(model);
        self.keep_us.push(keep_us);
        ModelId(self.models.len() as u32 - 1)
    }
}

/// Part with the content of this number.
const fn part(object: u64, bytes: u64) -> Part {
    Part {
        object: ObjectId(object),
        bytes,
    }
}

/// Runs a system on arrivals, which are in their order.
pub(super) fn run(setting: &TidalSetting, system: TidalSystem, arrivals: &[Arrival]) -> GpuRecords {
    let functions = Function::all();
    let templates = templates(setting, system);
    let mut models = Models::default();
    let mut kept: BTreeMap<u32, ModelId> = BTreeMap::new();
    // Numbers of contents: prefixes, then rests of functions, then models of single requests.
    let rests = templates.len() as u64;
    let single = rests + functions.len() as u64;
    for function in functions.iter().filter(|function| system.reuses(function)) {
        let numbered = (0_u64..).zip(&templates);
        let mut ours = numbered.filter(|(_, entry)| entry.functions.contains(&function.number));
        let prefix = ours.next().map(|(number, entry)| part(number, entry.bytes));
        let whole = setting.costs.base(function.kind.base).bytes;
        let rest = whole - prefix.map_or(0, |prefix| prefix.bytes);
        let rest = part(rests + u64::from(function.number), rest);
        let parts = prefix.into_iter().chain([rest]).collect();
        let model = system.model(setting, function, parts);
        let id = models.add(model, setting.keep_us(function.kind.base));
        kept.insert(function.number, id);
    }
    let prefixes: Vec<ModelId> = (0_u64..)
        .zip(&templates)
        .map(|(number, entry)| {
            let model = GpuModel {
                parts: vec![part(number, entry.bytes)],
                setup_us: 0,
                infer_us: 0,
                after_load_us: 0,
            };
            models.add(model, u64::MAX)
        })
        .collect();
    let mut requests = Vec::new();
    for (number, &(arrived_us, function)) in (0_u64..).zip(arrivals) {
        let Some(known) = functions.get(function as usize) else {
            continue;
        };
        // A model with its adapter is of use to one request alone.
        let model = kept.get(&function).copied().unwrap_or_else(|| {
            let whole = setting.costs.base(known.kind.base).bytes;
            let parts = vec![part(single + number, whole)];
            models.add(system.model(setting, known, parts), 0)
        });
        requests.push(GpuRequest {
            id: RequestId(number),
            function,
            model,
            arrived_us,
            deadline_us: None,
        });
    }
    let topology = topology(setting, &templates);
    let Models { models, keep_us } = models;
    let policy = policy(setting.scheduling);
    let mut scheduler = GpuScheduler::new(policy, topology.clone(), models.clone());
    for (&prefix, template) in prefixes.iter().zip(&templates) {
        for &gpu in &template.gpus {
            let mut there: Vec<ModelId> = scheduler.resident(gpu).collect();
            there.push(prefix);
            scheduler.observe_memory(0, gpu, &there);
            scheduler.hold_model(gpu, prefix);
        }
    }
    let engine = Engine {
        scheduler,
        topology: &topology,
        models: &models,
        watched: ModelId(0),
        limits: Limits {
            timeout_us: Some(setting.timeout_s * 1_000_000),
            keep_us: Some(keep_us),
            holds_idle: setting.holds_idle,
        },
    };
    engine.run(&requests)
}
