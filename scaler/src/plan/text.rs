//! The plan as tables.

use tetris_conventions::text_table::{TextTable, wrap};

use super::report::{FunctionReport, NodeReport, Other, Report, Totals};
use crate::units::{bytes, cpus, micros, rps};

/// Maximum number of nodes shown; JSON has all.
const MOST_NODES: usize = 50;

/// Formats all tables.
pub(super) fn text(report: &Report) -> String {
    let mut parts = vec![functions(&report.functions), nodes(&report.nodes)];
    parts.push(gpus(&report.nodes));
    parts.push(totals(report));
    parts.push(gap(report));
    let explained = report.functions.iter();
    parts.extend(explained.filter_map(super::explain::candidates));
    if report
        .functions
        .iter()
        .any(|function| function.candidates.is_some())
    {
        parts.push(super::explain::sharing(&report.nodes));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n") + "\n"
}

fn functions(functions: &[FunctionReport]) -> String {
    let header = [
        "function",
        "configuration",
        "#load",
        "+with\nheadroom",
        "#replicas",
        "#CPUs\neach",
        "#private\nmemory",
        "#requests/s\neach",
        "#latency",
        "+limit",
        "#batch\nwait",
    ];
    let mut table = TextTable::new(2, header);
    for function in functions {
        let name = format!("{}/{}", function.namespace, function.name);
        let mut loads = [function.load_micro_rps, function.planned_micro_rps].map(rps);
        if function.configurations.is_empty() {
            let [load, planned] = &loads;
            table.add(vec![
                name.clone(),
                "none".to_owned(),
                load.clone(),
                planned.clone(),
            ]);
        }
        for configuration in &function.configurations {
            let [load, planned] = std::mem::take(&mut loads);
            table.add(vec![
                name.clone(),
                configuration.name.clone(),
                load,
                planned,
                configuration.replicas.to_string(),
                cpus(configuration.cpu_millis.into()),
                bytes(configuration.own_bytes.into()),
                rps(configuration.rate_micro_rps),
                format!(
                    "p{} {}",
                    function.percentile,
                    micros(configuration.latency_us)
                ),
                micros(configuration.latency_limit_us),
                micros(configuration.batch_wait_us),
            ]);
        }
    }
    table.format()
}

fn nodes(nodes: &[NodeReport]) -> String {
    if nodes.is_empty() {
        return String::new();
    }
    let header = [
        "node",
        "instances",
        "#CPUs",
        "#private\nmemory",
        "#tensors",
        "#of these\nresident",
        "#saved by\nsharing",
    ];
    let mut table = TextTable::new(1, header);
    for node in nodes.iter().take(MOST_NODES) {
        let instances = node.instances.iter().map(|instance| {
            let running = match instance.running {
                0 => String::new(),
                running => format!(", {running} running"),
            };
            format!(
                "{} x {} {}{running}",
                instance.replicas, instance.function, instance.configuration
            )
        });
        table.add(vec![
            node.name.clone(),
            instances.collect::<Vec<_>>().join("\n"),
            cpus(node.cpu_millis),
            bytes(node.own_bytes),
            bytes(node.tensor_bytes),
            bytes(node.resident_bytes),
            bytes(node.saved_bytes),
        ]);
    }
    let table = table.format();
    let more = nodes.len().saturating_sub(MOST_NODES);
    if more == 0 {
        return table;
    }
    format!("{table}\nand {more} more nodes; --format json has all")
}

fn gpus(nodes: &[NodeReport]) -> String {
    if nodes.iter().all(|node| node.gpus.is_empty()) {
        return String::new();
    }
    let header = [
        "GPU",
        "type",
        "instances",
        "#private\nmemory",
        "#tensors",
        "#to copy",
        "+in",
        "#time",
    ];
    let mut table = TextTable::new(1, header);
    for node in nodes.iter().take(MOST_NODES) {
        for gpu in &node.gpus {
            let instances = gpu.instances.iter();
            let instances = instances.map(|instance| {
                format!(
                    "{} x {} {}",
                    instance.replicas, instance.function, instance.configuration
                )
            });
            table.add(vec![
                format!("{} {}", node.name, gpu.uuid),
                gpu.kind.clone(),
                instances.collect::<Vec<_>>().join("\n"),
                bytes(gpu.own_bytes.into()),
                bytes(gpu.tensor_bytes.into()),
                bytes(gpu.copied_bytes.into()),
                gpu.load_us.map_or_else(|| "unmeasured".to_owned(), micros),
                format!("{} %", gpu.time_permille.div_ceil(10)),
            ]);
        }
    }
    table.format()
}

fn totals(report: &Report) -> String {
    let header = [
        "",
        "#instances",
        "#nodes",
        "#CPUs",
        "#memory",
        "#own",
        "#tensors",
    ];
    let mut table = TextTable::new(1, header);
    table.add(row("this plan", &report.totals, true));
    let others = [
        ("DTS, most similar node", &report.comparison.published, true),
        ("no sharing", &report.comparison.unshared, false),
    ];
    let mut none = String::new();
    for (name, other, has_nodes) in others {
        match other {
            Other::Found(totals) => {
                table.add(row(name, totals, has_nodes));
            }
            Other::None { error } => {
                none.push('\n');
                none.push_str(&wrap(&format!("{name} finds no plan: {error}"), 2));
            }
        }
    }
    format!("{}{none}", table.format())
}

fn row(name: &str, totals: &Totals, has_nodes: bool) -> Vec<String> {
    let nodes = if has_nodes {
        totals.nodes.to_string()
    } else {
        String::new()
    };
    vec![
        name.to_owned(),
        totals.instances.to_string(),
        nodes,
        cpus(totals.cpu_millis),
        bytes(totals.memory_bytes),
        bytes(totals.own_bytes),
        bytes(totals.tensor_bytes),
    ]
}

fn gap(report: &Report) -> String {
    let (cost, bound) = (
        report.totals.cost_bytes,
        report.comparison.lower_bound_bytes,
    );
    let decided = format!("decided in {}", micros(report.decision_us));
    if bound == 0 {
        return decided;
    }
    let over = (cost as f64 / bound as f64 - 1.0).max(0.0) * 100.0;
    let text = format!(
        "No plan costs less than {}; this one costs {}, {over:.1} % more at most; {decided}.",
        bytes(bound),
        bytes(cost)
    );
    wrap(&text, 0)
}
