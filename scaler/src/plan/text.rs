//! The plan as tables.

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table, TableComponent};

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
    if report.functions.iter().any(|one| one.candidates.is_some()) {
        parts.push(super::explain::sharing(&report.nodes));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n") + "\n"
}

fn functions(functions: &[FunctionReport]) -> String {
    let mut table = table(
        &[
            "function",
            "load",
            "with headroom",
            "configuration",
            "replicas",
            "CPUs each",
            "private memory each",
            "requests/s each",
            "latency",
            "limit",
        ],
        &[1, 2, 4, 5, 6, 7, 8, 9],
    );
    for function in functions {
        let mut first = vec![
            format!("{}/{}", function.namespace, function.name),
            rps(function.load_micro_rps),
            rps(function.planned_micro_rps),
        ];
        if function.configurations.is_empty() {
            first.push("none".to_owned());
            table.add_row(first.clone());
        }
        for one in &function.configurations {
            let mut row = first;
            row.extend([
                one.name.clone(),
                one.replicas.to_string(),
                cpus(one.cpu_millis.into()),
                bytes(one.own_bytes.into()),
                rps(one.rate_micro_rps),
                format!("p{} {}", function.percentile, micros(one.latency_us)),
                micros(one.latency_limit_us),
            ]);
            table.add_row(row);
            first = vec![String::new(); 3];
        }
    }
    table.to_string()
}

fn nodes(nodes: &[NodeReport]) -> String {
    if nodes.is_empty() {
        return String::new();
    }
    let mut table = table(
        &[
            "node",
            "instances",
            "CPUs",
            "private memory",
            "tensors",
            "of these resident",
            "saved by sharing",
        ],
        &[2, 3, 4, 5, 6],
    );
    for node in nodes.iter().take(MOST_NODES) {
        let instances = node.instances.iter().map(|one| {
            let running = match one.running {
                0 => String::new(),
                running => format!(", {running} running"),
            };
            format!(
                "{} x {} {}{running}",
                one.replicas, one.function, one.configuration
            )
        });
        table.add_row([
            node.name.clone(),
            instances.collect::<Vec<_>>().join("\n"),
            cpus(node.cpu_millis),
            bytes(node.own_bytes),
            bytes(node.tensor_bytes),
            bytes(node.resident_bytes),
            bytes(node.saved_bytes),
        ]);
    }
    let more = nodes.len().saturating_sub(MOST_NODES);
    if more == 0 {
        return table.to_string();
    }
    format!("{table}\nand {more} more nodes; --format json has all")
}

fn gpus(nodes: &[NodeReport]) -> String {
    if nodes.iter().all(|node| node.gpus.is_empty()) {
        return String::new();
    }
    let mut table = table(
        &[
            "GPU",
            "type",
            "instances",
            "private memory",
            "tensors",
            "to copy",
            "in",
            "time",
        ],
        &[3, 4, 5, 6, 7],
    );
    for node in nodes.iter().take(MOST_NODES) {
        for gpu in &node.gpus {
            let instances = gpu.instances.iter();
            let instances = instances
                .map(|one| format!("{} x {} {}", one.replicas, one.function, one.configuration));
            table.add_row([
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
    table.to_string()
}

fn totals(report: &Report) -> String {
    let mut table = table(
        &["", "instances", "nodes", "CPUs", "memory", "own", "tensors"],
        &[1, 2, 3, 4, 5, 6],
    );
    table.add_row(row("this plan", &report.totals, true));
    let others = [
        ("DTS, most similar node", &report.comparison.published, true),
        ("no sharing", &report.comparison.unshared, false),
    ];
    let mut none = String::new();
    for (name, other, has_nodes) in others {
        match other {
            Other::Found(totals) => {
                table.add_row(row(name, totals, has_nodes));
            }
            Other::None { error } => none.extend(["\n", name, " finds no plan: ", error]),
        }
    }
    format!("{table}{none}")
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
    format!(
        "No plan costs less than {}; this one costs {}, {over:.1} % more at most; {decided}.",
        bytes(bound),
        bytes(cost)
    )
}

/// Creates a table with the columns `numeric` aligned to the right.
pub(super) fn table(header: &[&str], numeric: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_header(header);
    // One line under the header is enough.
    for line in [
        TableComponent::HorizontalLines,
        TableComponent::MiddleIntersections,
        TableComponent::LeftBorderIntersections,
        TableComponent::RightBorderIntersections,
    ] {
        table.remove_style(line);
    }
    for column in numeric {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
