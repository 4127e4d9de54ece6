//! Explanations of a plan as text.

use tetris_conventions::text_table::{TextTable, wrap};

use super::candidates::{Candidate, Verdict};
use super::report::{FunctionReport, NodeReport};
use crate::units::{bytes, cpus, micros};

/// Formats the configurations of a function with their verdicts; `None` without `--explain`.
pub(super) fn candidates(function: &FunctionReport) -> Option<String> {
    let candidates = function.candidates.as_ref()?;
    let header = ["configuration", "#cost per\nrequest/s", "#alone", "why"];
    let mut table = TextTable::new(1, header);
    for candidate in candidates {
        table.add(vec![
            candidate.configuration.clone(),
            bytes(candidate.cost_bytes_per_rps.into()),
            format!(
                "{} x, {}",
                candidate.alone_replicas,
                bytes(candidate.alone_cost_bytes)
            ),
            why(candidate),
        ]);
    }
    let heading = format!(
        "{}/{}: {}",
        function.namespace, function.name, function.message
    );
    Some(format!("{}\n{}", wrap(&heading, 0), table.format()))
}

fn why(candidate: &Candidate) -> String {
    match &candidate.verdict {
        Verdict::Chosen { replicas } => format!("chosen: {replicas}"),
        Verdict::NotAllowed => {
            "not in spec.configurations, or not with the GPU of spec.gpu".to_owned()
        }
        Verdict::TooSlow {
            latency_us,
            limit_us,
        } => format!(
            "too slow: {}, limit {}{}",
            micros(*latency_us),
            micros(*limit_us),
            half(candidate)
        ),
        Verdict::TooLarge { node, missing } => {
            let lacks = [
                (missing.cpu_millis > 0)
                    .then(|| format!("{} CPUs", cpus(missing.cpu_millis.into()))),
                lack(missing.memory_bytes, "memory"),
                lack(missing.tensor_bytes, "room for tensors"),
                (missing.gpus > 0).then(|| "a GPU of this type".to_owned()),
                lack(missing.gpu_bytes, "GPU memory"),
            ];
            let lacks: Vec<String> = lacks.into_iter().flatten().collect();
            format!("fits on no node: {node} lacks {}", lacks.join(" and "))
        }
        Verdict::Dominated { by } => format!("{by} carries as much and takes no more"),
        Verdict::NotNeeded => "others carry the load for less".to_owned(),
    }
}

/// Returns a note for configurations that batch; those without batching have `b1` in their name.
fn half(candidate: &Candidate) -> &'static str {
    if candidate.configuration.contains("-b1-") {
        ""
    } else {
        ", half of the objective, as requests wait for a batch"
    }
}

fn lack(amount: u64, of: &str) -> Option<String> {
    (amount > 0).then(|| format!("{} of {of}", bytes(amount.into())))
}

/// Formats the memory that sharing saves, over all nodes.
pub(super) fn sharing(nodes: &[NodeReport]) -> String {
    let sum = |of: fn(&NodeReport) -> u128| bytes(nodes.iter().map(of).sum());
    let text = format!(
        "Sharing: tensors take {} and would take {} more with a copy per instance; {} of them are \
         resident already.",
        sum(|node| node.tensor_bytes),
        sum(|node| node.saved_bytes),
        sum(|node| node.resident_bytes),
    );
    wrap(&text, 0)
}
