//! The main figures as cards: each beside all measured rivals.

use crate::data::{Report, WorkloadReport};
use crate::figures::lookup::{method, point, usual_starts, workload};
use crate::methods::Method;
use crate::report::plots::escape;
use crate::report::text;
use crate::units::{bytes, nanoseconds, signed_bytes, three_digits};

/// The rivals, the strongest first: the page cache shares a file that all processes open.
const RIVALS: [(Method, &str); 3] = [
    (Method::PageCache, "page cache, one file"),
    (Method::OwnFile, "mapped, own file each"),
    (Method::Private, "private copies"),
];

struct Card {
    title: String,
    value: String,
    rows: Vec<(String, String)>,
}

/// Formats the cards of the group of replicas, else of the first group; empty if there is none.
pub fn cards(report: &Report) -> String {
    let Some(group) = workload(&report.workloads, "replicas").or(report.workloads.first()) else {
        return String::new();
    };
    let cards = [
        sharing(group),
        memory(group),
        start(group),
        density(group),
        further(group),
        inference(group),
    ];
    let cards: String = cards
        .into_iter()
        .flatten()
        .map(|card| card.html())
        .collect();
    if cards.is_empty() {
        return cards;
    }
    format!(
        "<p class=\"machine\">Main figures of the group {}: {}.</p><section class=\"cards\">{cards}</section>",
        escape(&group.name),
        escape(&group.description)
    )
}

impl Card {
    fn html(&self) -> String {
        let rows: Vec<String> = self
            .rows
            .iter()
            .map(|(name, value)| {
                format!(
                    "<tr><td>{}</td><td class=\"number\">{}</td></tr>",
                    escape(name),
                    escape(value)
                )
            })
            .collect();
        format!(
            "<div class=\"card\"><p class=\"title\">{}</p><p class=\"value\">{}</p><table>{}</table></div>",
            escape(&self.title),
            escape(&self.value),
            rows.concat(),
        )
    }
}

/// A card with the value of the store, and with those of all rivals that have one.
fn beside_rivals(
    title: &str,
    store: (Method, String),
    value_of: impl Fn(Method) -> Option<String>,
) -> Option<Card> {
    let rivals = RIVALS
        .iter()
        .filter_map(|&(method, name)| Some((name.to_owned(), value_of(method)?)));
    let rows: Vec<_> = rivals.collect();
    (!rows.is_empty()).then(|| Card {
        title: format!("{title}, {}", store.0.name()),
        value: store.1,
        rows,
    })
}

/// The method that represents the store: with a file for each process where it was measured.
fn store_of(group: &WorkloadReport) -> Option<Method> {
    [Method::TetrisOwnFile, Method::TetrisSidecar, Method::Tetris]
        .into_iter()
        .find(|&of| method(group, of).is_some_and(|report| !report.group.is_empty()))
}

/// The part of the variants that the base has, for a family of the user's.
fn sharing(group: &WorkloadReport) -> Option<Card> {
    let all: u64 = group.sharing.iter().map(|part| part.tensor_bytes).sum();
    let shared: u64 = group.sharing.iter().map(|part| part.shared_bytes).sum();
    let rows = group.sharing.iter().map(|part| {
        let share = text::percent(part.shared_bytes, part.tensor_bytes);
        (part.variant.clone(), share)
    });
    (all > 0).then(|| Card {
        title: "of the variants, the base has".into(),
        value: text::percent(shared, all),
        rows: rows.collect(),
    })
}

fn memory(group: &WorkloadReport) -> Option<Card> {
    let store = store_of(group)?;
    let last = method(group, store)?.group.last()?;
    let (size, ours) = (last.instances, last.group_bytes);
    let value_of = |rival| {
        let theirs = point(group, rival, size)?.group_bytes;
        Some(format!(
            "{} ({} x)",
            bytes(theirs),
            three_digits(theirs as f64 / ours.max(1) as f64)
        ))
    };
    let title = format!("memory of {size} instances");
    beside_rivals(&title, (store, bytes(ours)), value_of)
}

fn start(group: &WorkloadReport) -> Option<Card> {
    let median = |of| Some(usual_starts(group, of)?.first_result_ns.median);
    let ours = median(Method::Tetris)?;
    let value_of = |rival| {
        let theirs = median(rival)?;
        Some(format!(
            "{} ({} x)",
            nanoseconds(theirs),
            three_digits(theirs / ours)
        ))
    };
    let value = (Method::Tetris, nanoseconds(ours));
    beside_rivals("time to first result", value, value_of)
}

fn density(group: &WorkloadReport) -> Option<Card> {
    let density = group.density.as_ref()?;
    let of = |method| {
        let mut entries = density.methods.iter();
        let entry = entries.find(|entry| entry.method == method && entry.fits > 0)?;
        let why = entry.ended_by.as_ref().filter(|end| end.leaves_room());
        let why = why.map_or_else(String::new, |end| format!(" ({})", end.short()));
        Some((text::fits(entry), why))
    };
    let title = format!("instances in {}", bytes(density.budget_bytes));
    // The reason is in the tables, and `>=` shows that there is one.
    let (ours, _) = of(Method::Tetris)?;
    let with_reason = |method| of(method).map(|(fits, why)| fits + &why);
    beside_rivals(&title, (Method::Tetris, ours), with_reason)
}

fn further(group: &WorkloadReport) -> Option<Card> {
    let of = |of| Some(signed_bytes(method(group, of)?.marginal_bytes? as i64));
    let store = store_of(group)?;
    beside_rivals("each further instance", (store, of(store)?), of)
}

fn inference(group: &WorkloadReport) -> Option<Card> {
    let pass = |of| {
        let mut samples = group.inference.iter();
        let samples = samples.find(|samples| samples.method == of)?;
        Some(samples.summary.as_ref()?.median)
    };
    let of = |of| Some(nanoseconds(pass(of)?));
    let value = (Method::Tetris, of(Method::Tetris)?);
    beside_rivals("time of a pass, by turns", value, of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{GroupPoint, MethodReport, Outcome};
    use crate::system::memory::ProcessMemory;

    #[test]
    fn the_page_cache_is_beside_the_store() {
        let report = |method, group_bytes| {
            let point = GroupPoint {
                instances: 8,
                logical_bytes: 8 << 30,
                group_bytes,
                processes: ProcessMemory::default(),
                store_bytes: 0,
                available_drop_bytes: 0,
            };
            MethodReport {
                method,
                description: String::new(),
                outcome: Outcome::Measured,
                group: vec![point],
                limited: None,
                marginal_bytes: None,
                interpreter_bytes: None,
                starts: Vec::new(),
                repeated: None,
                first: None,
                pass_ns: Vec::new(),
                merging: Vec::new(),
            }
        };
        let group = WorkloadReport {
            methods: vec![
                report(Method::Private, 8 << 30),
                report(Method::PageCache, 1 << 30),
                report(Method::TetrisOwnFile, 1 << 30),
            ],
            ..WorkloadReport::default()
        };
        let card = memory(&group).unwrap();
        assert_eq!(card.value, "1.00 GiB");
        let page_cache = (
            "page cache, one file".to_owned(),
            "1.00 GiB (1.00 x)".to_owned(),
        );
        assert_eq!(card.rows[0], page_cache);
        assert!(card.rows[1].1.contains("8.00 x"), "{:?}", card.rows);
    }
}
