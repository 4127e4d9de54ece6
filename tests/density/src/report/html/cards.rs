//! The main figures as cards.

use crate::figures::lookup::{largest_common, method, point, usual_starts, workload};
use crate::methods::Method;
use crate::report::data::{Report, WorkloadReport};
use crate::report::plots::escape;
use crate::report::text;
use crate::units::{bytes, nanoseconds, signed_bytes, three_digits};

struct Card {
    title: String,
    value: String,
    detail: String,
}

/// Formats the cards of the group of replicas; empty if it did not run.
pub fn cards(report: &Report) -> String {
    let Some(replicas) = workload(&report.workloads, "replicas").or(report.workloads.first())
    else {
        return String::new();
    };
    let cards = [
        memory(replicas),
        start(replicas),
        density(replicas),
        further(replicas),
        inference(replicas),
    ];
    let cards: String = cards
        .into_iter()
        .flatten()
        .map(|card| card.html())
        .collect();
    if cards.is_empty() {
        cards
    } else {
        format!("<section class=\"cards\">{cards}</section>")
    }
}

impl Card {
    fn html(&self) -> String {
        format!(
            "<div class=\"card\"><p class=\"title\">{}</p><p class=\"value\">{}</p><p class=\"detail\">{}</p></div>",
            escape(&self.title),
            escape(&self.value),
            escape(&self.detail),
        )
    }
}

/// The method that represents the store with a file for each process.
fn own_file_store(replicas: &WorkloadReport) -> Option<Method> {
    [Method::TetrisOwnFile, Method::TetrisSidecar, Method::Tetris]
        .into_iter()
        .find(|&of| method(replicas, of).is_some_and(|report| !report.group.is_empty()))
}

fn memory(replicas: &WorkloadReport) -> Option<Card> {
    let store = own_file_store(replicas)?;
    let size = largest_common(replicas, &[Method::OwnFile, store])?;
    let before = point(replicas, Method::OwnFile, size)?.group_bytes;
    let after = point(replicas, store, size)?.group_bytes;
    Some(Card {
        title: format!("memory of {size} instances, own file each"),
        value: format!("{} x less", three_digits(before as f64 / after as f64)),
        detail: format!(
            "{} as files, {} with the tensor store",
            bytes(before),
            bytes(after)
        ),
    })
}

fn start(replicas: &WorkloadReport) -> Option<Card> {
    let store = usual_starts(replicas, Method::Tetris)?
        .first_result_ns
        .median;
    let private = usual_starts(replicas, Method::Private)?
        .first_result_ns
        .median;
    let own = usual_starts(replicas, Method::OwnFile).map(|starts| starts.first_result_ns.median);
    let own = own.map_or_else(String::new, |own| {
        format!(", {} from an own file", nanoseconds(own))
    });
    Some(Card {
        title: "time to first result".into(),
        value: format!("{} x faster", three_digits(private / store)),
        detail: format!(
            "{} with the store; {} read privately{own}",
            nanoseconds(store),
            nanoseconds(private)
        ),
    })
}

fn density(replicas: &WorkloadReport) -> Option<Card> {
    let density = replicas.density.as_ref()?;
    let of = |method| {
        density
            .methods
            .iter()
            .find(|entry| entry.method == method && entry.fits > 0)
    };
    let (private, tetris) = (of(Method::Private)?, of(Method::Tetris)?);
    Some(Card {
        title: format!("instances in {}", bytes(density.budget_bytes)),
        value: format!("{} instead of {}", text::fits(tetris), private.fits),
        detail: "tetris against private copies, before one is refused or killed".into(),
    })
}

fn further(replicas: &WorkloadReport) -> Option<Card> {
    let of = |of| method(replicas, of)?.marginal_bytes;
    let tetris = of(own_file_store(replicas)?)?;
    Some(Card {
        title: "each further instance takes".into(),
        value: signed_bytes(tetris as i64),
        detail: format!(
            "{} as private copies",
            signed_bytes(of(Method::Private)? as i64)
        ),
    })
}

fn inference(replicas: &WorkloadReport) -> Option<Card> {
    let tetris = replicas
        .inference
        .iter()
        .find(|samples| samples.method == Method::Tetris)?;
    Some(Card {
        title: "inference time on store weights".into(),
        value: format!("{} x", three_digits(tetris.ratio_to_private?)),
        detail: "of the same pass on private memory, by turns".into(),
    })
}
