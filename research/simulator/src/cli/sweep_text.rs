//! Report of a sweep as tables.

use tetris_conventions::text_table::{TextTable, legend, wrap};
use tetris_scaler_simulator::sweep::{
    AS_TIMELY_PER_100_000, Point, Sweep, SweepRun, Wins, competitors,
};
use tetris_scaler_simulator::{Column, Policy};

use super::text::setting;

/// Words of the tables.
const WORDS: [(&str, &str); 6] = [
    (
        "best",
        "traces in which the policy was the best, or equal to the best",
    ),
    ("of", "traces in which it competed"),
    ("lead", "mean lead over the second best where it won alone"),
    ("excess, worst", "mean and largest excess over the best"),
    (
        "timely policy with the least memory",
        "the one with the least mean memory of those with about the fewest late requests",
    ),
    (
        "against DTS",
        "mean memory of sharing-aware against that of DTS",
    ),
];

/// Returns the whole report.
pub fn report(sweep: &Sweep) -> String {
    let size = format!(
        "{} points x {} kinds of requests, all applications together",
        sweep.points.len(),
        sweep.grid.sources().len()
    );
    let mut parts = vec![format!("{}\n{size}", wrap(&setting(&sweep.grid), 0))];
    let of_one_view =
        |one: &Wins, next: &Wins| (one.column, one.timely) == (next.column, next.timely);
    parts.extend(sweep.wins.chunk_by(of_one_view).map(wins));
    parts.extend([one_at_a_time(sweep), inputs(sweep)]);
    let infeasible: usize = sweep.runs.iter().map(|run| run.infeasible.len()).sum();
    let infeasible = format!(
        "{infeasible} runs of a policy that has no configuration within an objective; they count \
         for nothing"
    );
    parts.extend([wrap(&infeasible, 0), legend(WORDS)]);
    parts.join("\n\n")
}

/// Heading of a view.
pub fn heading(one: &Wins) -> String {
    if one.timely {
        format!(
            "{} of policies with at most {} more late requests in 100 than the fewest",
            one.column.name(),
            AS_TIMELY_PER_100_000 / 1_000
        )
    } else {
        one.column.name().to_owned()
    }
}

/// Wins of each policy in one view.
fn wins(view: &[Wins]) -> String {
    let header = ["policy", "#best", "#of", "#lead %", "#excess %", "#worst %"];
    let mut table = TextTable::new(1, header);
    for entry in view {
        let counts = [entry.wins, entry.of].map(|count| count.to_string());
        let cells = [entry.policy.name().to_owned()].into_iter().chain(counts);
        table.add(cells.chain(percents(entry)).collect());
    }
    let heading = view.first().map_or_else(String::new, heading);
    format!("{}\n{}", wrap(&heading, 0), table.format())
}

/// Lead over the second best, mean excess over the best, and largest excess, in percent.
pub fn percents(one: &Wins) -> [String; 3] {
    [
        one.lead_permille,
        one.excess_permille,
        one.worst_excess_permille,
    ]
    .map(|permille| format!("{:.1}", permille as f64 / 10.0))
}

fn one_at_a_time(sweep: &Sweep) -> String {
    let header = [
        "input",
        "#value",
        "requests",
        "timely policy with\nthe least memory",
        "#lead\n%",
        "+against\nDTS, %",
    ];
    let mut table = TextTable::new(3, header);
    for (at, point) in sweep.points.iter().enumerate() {
        let Some((mut name, mut value)) = title(point) else {
            continue;
        };
        for run in sweep.runs.iter().filter(|run| run.point == at) {
            let best = Best::of(run);
            let lead = best.lead.map_or_else(|| "alone".to_owned(), decimal);
            table.add(vec![
                std::mem::take(&mut name),
                std::mem::take(&mut value),
                run.kind.to_string(),
                best.policy.map_or("none", Policy::name).to_owned(),
                lead,
                best.against_dts.map_or_else(String::new, signed),
            ]);
        }
    }
    format!("One input at a time\n{}", table.format())
}

fn inputs(sweep: &Sweep) -> String {
    let mut table = TextTable::new(1, ["input", "#low", "#default", "#high", "meaning"]);
    for entry in &sweep.inputs {
        let values =
            [entry.input.low, entry.default, entry.input.high].map(|value| value.to_string());
        let cells = [entry.input.name.to_owned()].into_iter().chain(values);
        table.add(cells.chain([entry.input.about.to_owned()]).collect());
    }
    format!("Invented inputs\n{}", table.format())
}

/// Returns the name and value of a point's input; `None` for a random combination.
pub fn title(point: &Point) -> Option<(String, String)> {
    if point.random {
        return None;
    }
    let change = point.changes.first();
    Some(
        change.map_or(("(defaults)".to_owned(), String::new()), |entry| {
            (entry.input.to_owned(), entry.value.to_string())
        }),
    )
}

/// The winner of a run.
struct Best {
    /// Timely policy with the least mean memory.
    policy: Option<Policy>,
    /// Its lead over the second, in percent.
    lead: Option<f64>,
    /// Mean memory of sharing-aware beyond that of DTS, in percent.
    against_dts: Option<f64>,
}

impl Best {
    fn of(run: &SweepRun) -> Self {
        let mut all = competitors(run, Column::MeanMemory, true);
        all.sort_by_key(|&(policy, value)| (value, policy));
        let lead = match all.as_slice() {
            [(_, value), (_, second), ..] => {
                Some(100.0 - *value as f64 * 100.0 / (*second).max(1) as f64)
            }
            _ => None,
        };
        let memory = |policy: Policy| {
            let of_policy = run.results.iter().find(|entry| entry.policy == policy);
            of_policy.map(|run| run.value(Column::MeanMemory) as f64)
        };
        let against_dts = match (memory(Policy::SharingAware), memory(Policy::Dts)) {
            (Some(own), Some(other)) if other > 0.0 => Some(own * 100.0 / other - 100.0),
            _ => None,
        };
        Self {
            policy: all.first().map(|&(policy, _)| policy),
            lead,
            against_dts,
        }
    }
}

fn decimal(percent: f64) -> String {
    format!("{percent:.1}")
}

fn signed(percent: f64) -> String {
    format!("{percent:+.1}")
}

/// Returns the winner of a run with its lead, and sharing-aware against DTS.
pub fn cell(run: &SweepRun) -> String {
    let best = Best::of(run);
    let winner = match (best.policy, best.lead) {
        (Some(policy), Some(lead)) => format!("{policy} {}", decimal(lead)),
        (Some(policy), None) => format!("{policy} alone"),
        (None, _) => "none".to_owned(),
    };
    let against = best.against_dts.map(signed);
    let against = against.map_or_else(String::new, |percent| format!(" ({percent})"));
    format!("{} {winner}{against}", run.kind)
}
