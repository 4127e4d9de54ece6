//! Functions of one family: a base with an adapter each, or a backbone with a head each.

mod heads;
mod memory;

use self::heads::with_heads;
use self::memory::{Used, freed};
use crate::BenchError;
use crate::backend::Backend;
use crate::bench::{Bench, Serving, capacity_for};
use crate::measure::{Measure, Needs};
use crate::model::BenchModel;
use crate::products::{ModelMatrix, matrices};
use crate::report::{Findings, Settings, Unit, ratio};
use crate::role::function::{Base, FunctionJob, FunctionReport};

/// Rank of the adapters.
const RANK: u32 = 16;
/// Maximum number of functions with a head each: their heads are in the store too.
const HEADS: u32 = 3;
/// Maximum device memory of a context in bytes, on devices known so far.
const CONTEXT_BYTES: u64 = 1 << 30;

/// Functions in separate processes, with and without the mirror.
pub struct Family;

/// Device memory of an additional function with its context, and the report of the first function.
struct Extra {
    bytes: f64,
    first: FunctionReport,
}

impl<D: Backend> Measure<D> for Family {
    fn about(&self) -> &'static str {
        "device memory of an additional function: a LoRA adapter over a shared base, a retrained head over a shared backbone, or a private base; contexts are measured separately"
    }

    fn needs(&self, model_bytes: u64, settings: &Settings) -> Needs {
        let heads = model_bytes / 4 * u64::from(HEADS);
        let context_bytes = if D::SIMULATED { 0 } else { CONTEXT_BYTES };
        let shared = context_bytes * u64::from(functions(settings) + 1) + model_bytes / 4;
        let own_bytes = model_bytes + 2 * context_bytes;
        Needs {
            device_bytes: capacity_for(model_bytes, settings.chunk_bytes)
                + shared.max(own_bytes).max(heads + 4 * context_bytes),
            host_bytes: model_bytes / 4,
            file_bytes: heads,
        }
    }

    fn skip(&self, bench: &Bench<D>) -> Option<String> {
        (matrices(&bench.model).len() < 2)
            .then(|| "the model has less than two matrices of BF16 or F32".to_owned())
    }

    fn take(&self, bench: &Bench<D>) -> Result<Findings, BenchError> {
        let (count, used) = (functions(&bench.settings), Used::new(bench));
        let idle = used.bytes(&[])?;
        let context = contexts(bench, &used, count)?;
        freed(&used, idle)?;
        let adapters = adapters(bench, &used, count)?;
        freed(&used, idle)?;
        let first_two = extra(
            bench,
            &used,
            None,
            (0..2).map(|seed| adapted(bench, Base::Own, seed)),
        )?;
        freed(&used, idle)?;
        let (heads, head_bytes) = heads(bench, &used, count.min(HEADS))?;
        Ok(findings(
            bench,
            &FamilyMemory {
                context,
                adapters,
                own: first_two,
                heads,
                head_bytes,
            },
        ))
    }
}

/// Device memory of all kinds of functions.
struct FamilyMemory {
    context: f64,
    adapters: Extra,
    own: Extra,
    heads: Extra,
    head_bytes: u64,
}

fn findings<D: Backend>(bench: &Bench<D>, found: &FamilyMemory) -> Findings {
    let mut findings = Findings::default();
    let mut count = |name, value| findings.figure(name, Unit::Count, value);
    count(
        "functions with an adapter",
        f64::from(functions(&bench.settings)),
    );
    count(
        "matrices that are adapted",
        adapted_matrices(&bench.model).len() as f64,
    );
    let mut bytes = |name: &str, value| findings.figure(name, Unit::Bytes, value);
    let more = |extra: &Extra| extra.bytes - found.context;
    let (adapters, heads, own) = (more(&found.adapters), more(&found.heads), more(&found.own));
    bytes("base", bench.model.bytes() as f64);
    bytes("context of a function", found.context);
    bytes("adapter", found.adapters.first.adapter_bytes as f64);
    bytes(
        "private memory with an adapter",
        found.adapters.first.private_bytes as f64,
    );
    bytes(
        "a function more with an adapter, without its context",
        adapters,
    );
    bytes("head", found.head_bytes as f64);
    bytes("a function more with a head, without its context", heads);
    bytes(
        "a function more with a base of its own, without its context",
        own,
    );
    for (what, shared) in [("an adapter", adapters), ("a head", heads)] {
        if let Some(times) = ratio(own, shared) {
            findings.figure(format!("a base of its own over {what}"), Unit::Ratio, times);
        }
    }
    findings.note(format!("adapters have rank {RANK}; every function computes W x + B (A x), or W x, and compares it with exact arithmetic"));
    if !D::SIMULATED {
        findings.note("the driver counts device memory in granules; other programs on the device would disturb these figures");
    }
    findings
}

/// Number of functions: at least two, for one beside the first.
fn functions(settings: &Settings) -> u32 {
    settings.processes.max(2)
}

/// Matrices with adapters: projections of queries and values by their usual names, or all matrices
/// if none has such a name.
fn adapted_matrices(model: &BenchModel) -> Vec<ModelMatrix> {
    let all = matrices(model);
    let usual = |one: &&ModelMatrix| one.name.contains("q_proj") || one.name.contains("v_proj");
    let some: Vec<_> = all.iter().filter(usual).cloned().collect();
    if some.is_empty() { all } else { some }
}

/// Creates the job of a function with adapters.
fn adapted<D: Backend>(bench: &Bench<D>, base: Base, seed: u32) -> FunctionJob {
    let matrices = adapted_matrices(&bench.model).into_iter();
    FunctionJob {
        store: bench.store.root().to_owned(),
        base,
        model: bench.model.clone(),
        used: matrices.map(|matrix| matrix.name).collect(),
        rank: RANK,
        seed: u64::from(seed),
    }
}

/// Measures functions that share the base and have adapters.
fn adapters<D: Backend>(
    bench: &Bench<D>,
    used: &Used<'_, D>,
    count: u32,
) -> Result<Extra, BenchError> {
    let server = bench.serve(capacity_for(
        bench.model.bytes(),
        bench.settings.chunk_bytes,
    ))?;
    let job = |seed| adapted(bench, Base::Mirror(server.socket.clone()), seed);
    let adapters = extra(bench, used, Some(&server), (0..count).map(job))?;
    server.end()?;
    Ok(adapters)
}

/// Measures the device memory of a process without weights.
fn contexts<D: Backend>(
    bench: &Bench<D>,
    used: &Used<'_, D>,
    count: u32,
) -> Result<f64, BenchError> {
    let job = |number| FunctionJob {
        store: bench.store.root().to_owned(),
        base: Base::Nothing,
        model: BenchModel {
            tensors: Vec::new(),
        },
        used: Vec::new(),
        rank: 0,
        seed: number,
    };
    Ok(extra(bench, used, None, (0..u64::from(count)).map(job))?.bytes)
}

/// Starts these functions one after the other, and measures each.
fn extra<D: Backend>(
    bench: &Bench<D>,
    used: &Used<'_, D>,
    server: Option<&Serving>,
    jobs: impl Iterator<Item = FunctionJob>,
) -> Result<Extra, BenchError> {
    let mut ids: Vec<_> = server.map(Serving::id).into_iter().collect();
    let (mut processes, mut reports, mut levels) = (Vec::new(), Vec::new(), Vec::new());
    for job in jobs {
        let mut process = bench.start(crate::role::Job::Function(job))?;
        reports.push(process.hear::<FunctionReport>()?);
        ids.push(process.id());
        processes.push(process);
        levels.push(used.bytes(&ids)?);
    }
    for process in processes {
        process.end()?;
    }
    let (Some(one), Some(all), Some(first)) = (levels.first(), levels.last(), reports.first())
    else {
        return Err(BenchError::Bug("expected functions, found none".to_owned()));
    };
    let more = levels.len().saturating_sub(1).max(1) as f64;
    Ok(Extra {
        bytes: (*all as f64 - *one as f64) / more,
        first: *first,
    })
}

/// Measures functions that share all but the last matrix. Returns the memory of an additional one,
/// and the length of that matrix in bytes.
fn heads<D: Backend>(
    bench: &Bench<D>,
    used: &Used<'_, D>,
    count: u32,
) -> Result<(Extra, u64), BenchError> {
    let (models, head) = with_heads(&bench.store, &bench.model, count)?;
    let bytes = bench.model.bytes() + u64::from(count) * head.object.len;
    let server = bench.serve(capacity_for(bytes, bench.settings.chunk_bytes))?;
    let jobs = models.into_iter().map(|model| FunctionJob {
        store: bench.store.root().to_owned(),
        base: Base::Mirror(server.socket.clone()),
        model,
        used: vec![head.name.clone()],
        rank: 0,
        seed: 0,
    });
    let heads = extra(bench, used, Some(&server), jobs)?;
    server.end()?;
    Ok((heads, head.object.len))
}
