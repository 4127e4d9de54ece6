//! Report of `reproduce-tetris` as tables, one for each figure.

use tetris_conventions::text_table::{TextTable, legend, wrap};
use tetris_scaler_simulator::evaluation::memory::{INSTANCES, SERVERS_MB};
use tetris_scaler_simulator::evaluation::{
    Basis, Experiment, LOADS_OF_SVT, LOADS_RPS, LoadRow, PERCENT, TOLERANCE_PERCENT,
    TOLERANCE_POINTS, TetrisClaim, TetrisReport, TetrisRun,
};
use tetris_scaler_simulator::paper::{Measure, claims as claims_of_paper};
use tetris_scaler_simulator::{Policy, catalog::Application};
use tetris_simulation::TraceKind;

use super::text::percent;

const GB: f64 = 1e9;
/// Words of the tables.
const WORDS: [(&str, &str); 6] = [
    (
        "basis",
        "fitted: an input was chosen for this number; computed: by formula from sizes and speeds; \
         simulated: by requests",
    ),
    (
        "private, from",
        "memory of an instance beside its tensors, and the origin of this number",
    ),
    (
        "alpha",
        "cost of CPU in plans of DTS, in MB of memory for a core",
    ),
    (
        "under",
        "less than the other policy, in percent; negative for more",
    ),
    (
        "late",
        "requests that took longer than the objectives of their functions, or were not served",
    ),
    (
        "DTS-RO, DTS",
        "the paper's Tetris-RO and Tetris; sharing-aware: the operator's plans",
    ),
];
/// Heading of each figure.
const FIGURES: [(&str, &str); 11] = [
    (
        "9a",
        "memory saved by shared tensors, by number of instances",
    ),
    (
        "9b",
        "startup with tensors of an instance of the same function",
    ),
    ("10", "density of functions by memory of a server"),
    ("11a", "memory saved by tensors that variants share"),
    ("11b", "startup with tensors of a variant"),
    ("12", "CPU of SS"),
    ("13", "memory of the applications"),
    ("14a", "requests beyond the objective"),
    ("14b", "memory and money for 100 requests/s"),
    ("14c", "time of profiling"),
    ("14d", "latency of inference"),
];

/// Returns the whole report.
pub fn report(report: &TetrisReport) -> String {
    let grid = &report.grid;
    let met = report.claims.iter().filter(|claim| claim.met).count();
    let fitted = |claim: &&TetrisClaim| claim.met && claim.basis == Basis::Fitted;
    let setting = format!(
        "Figures 9 to 14 of Tetris: {met} of {} statements are met, {} of them by an input fitted to \
         them. A value may differ from the paper's by {TOLERANCE_PERCENT} %, a percentage by \
         {TOLERANCE_POINTS} points at most; upper bounds have no tolerance. Runs of {} s, seed {}",
        report.claims.len(),
        report.claims.iter().filter(fitted).count(),
        grid.seconds,
        grid.seed
    );
    let mut parts = vec![wrap(&setting, 0)];
    let last = ("14e", "models that load at the same time");
    for (figure, about) in FIGURES.into_iter().chain([last]) {
        parts.push(format!(
            "Figure {figure}: {about}\n{}",
            claims(report, figure)
        ));
        parts.extend(data(report, figure));
    }
    parts.push(decisions(report));
    parts.push(legend(WORDS));
    parts.join("\n\n")
}

/// Statements on a figure, then the reasons of those not met.
fn claims(report: &TetrisReport, figure: &str) -> String {
    let mut table = TextTable::new(
        1,
        ["statement", "#paper", "#here", "+unit", "+basis", "+met"],
    );
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for claim in report.claims.iter().filter(|claim| claim.figure == figure) {
        table.add(vec![
            claim.name.clone(),
            format!("{}{}", claim.relation.sign(), value(claim, claim.paper)),
            claim
                .here
                .map_or_else(|| "-".to_owned(), |here| value(claim, here)),
            claim.unit.to_owned(),
            claim.basis.name().to_owned(),
            if claim.met { "yes" } else { "no" }.to_owned(),
        ]);
        let Some(why) = claim.why else {
            continue;
        };
        match reasons.iter_mut().find(|(reason, _)| *reason == why) {
            Some((_, names)) => names.push(&claim.name),
            None => reasons.push((why, vec![&claim.name])),
        }
    }
    let mut text = table.format();
    for (why, names) in reasons {
        text.push('\n');
        text.push_str(&wrap(&format!("- {}: {why}.", names.join("; ")), 2));
    }
    text
}

/// Formats a value of a claim: percentages with a decimal, small values with two.
fn value(claim: &TetrisClaim, hundredths: i64) -> String {
    let value = hundredths as f64 / 100.0;
    if claim.unit == PERCENT {
        format!("{value:.1}")
    } else if hundredths % 100 == 0 || hundredths.abs() >= 100_000 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

/// Further numbers of a figure.
fn data(report: &TetrisReport, figure: &str) -> Option<String> {
    Some(match figure {
        "9a" => reductions(report),
        "9b" => startups(report),
        "10" => densities(report),
        "11a" => variants(report),
        "12" => format!("{}\n\n{}", alphas(report), choices(report)),
        "13" => [timely(report), loads(report), overall(report)].join("\n\n"),
        "14a" => late(report),
        "14b" => costs(report),
        "14c" => profilings(report),
        "14e" => loadings(report),
        _ => return None,
    })
}

fn reductions(report: &TetrisReport) -> String {
    let header = ["model", "#tensors\nMB", "#private\nMB", "+from"].map(str::to_owned);
    let counts = INSTANCES.map(|count| format!("#{count} inst.\n%"));
    let mut table = TextTable::new(1, header.into_iter().chain(counts));
    for entry in &report.models {
        let model = entry.model;
        let mut row = vec![
            model.name.to_owned(),
            model.tensor_mb.to_string(),
            model.own_mb.to_string(),
            model.own_from.name().to_owned(),
        ];
        row.extend(entry.reduction.iter().copied().map(points));
        table.add(row);
    }
    table.format()
}

fn variants(report: &TetrisReport) -> String {
    let header = ["model", "#shared by\nvariants MB"].map(str::to_owned);
    let counts = INSTANCES.map(|count| format!("#{count} variants\n%"));
    let mut table = TextTable::new(1, header.into_iter().chain(counts));
    for entry in &report.models {
        let (Some(shared_mb), Some(reduced)) = (entry.model.shared_mb, &entry.variants) else {
            continue;
        };
        let mut row = vec![entry.model.name.to_owned(), shared_mb.to_string()];
        row.extend(reduced.iter().copied().map(points));
        table.add(row);
    }
    table.format()
}

/// Hundredths of a percent as percent.
fn points(hundredths: i64) -> String {
    format!("{:.1}", hundredths as f64 / 100.0)
}

fn seconds(us: u64) -> String {
    format!("{:.2}", us as f64 / 1e6)
}

fn startups(report: &TetrisReport) -> String {
    let header = [
        "model",
        "#disk\ns",
        "#page cache\ns",
        "#shared\ns",
        "#saved\n%",
        "#variant\ns",
        "+saved\n%",
    ];
    let mut table = TextTable::new(1, header);
    let share = |value: Option<i64>| value.map_or_else(|| "-".to_owned(), points);
    for startup in &report.startups {
        table.add(vec![
            startup.model.to_owned(),
            seconds(startup.disk_us),
            seconds(startup.cache_us),
            seconds(startup.shared_us),
            share(startup.saved()),
            startup.variant_us.map_or_else(|| "-".to_owned(), seconds),
            share(startup.saved_by_variant()),
        ]);
    }
    table.format()
}

fn densities(report: &TetrisReport) -> String {
    let groups = SERVERS_MB.iter().flat_map(|server_mb| {
        let gb = server_mb / 1_000;
        [
            format!("#{gb} GB\ncopies"),
            "+\nshared".to_owned(),
            "+\ntimes".to_owned(),
        ]
    });
    let mut table = TextTable::new(1, ["model".to_owned()].into_iter().chain(groups));
    for entry in &report.models {
        let mut row = vec![entry.model.name.to_owned()];
        for density in &entry.density {
            let factor = density.factor();
            row.extend([
                density.copied.to_string(),
                density.shared.to_string(),
                factor.map_or_else(|| "-".to_owned(), points),
            ]);
        }
        table.add(row);
    }
    table.format()
}

/// A cost of CPU in MB for a core.
fn alpha(bytes_per_millicore: u64) -> String {
    (bytes_per_millicore / 1_000).to_string()
}

fn alphas(report: &TetrisReport) -> String {
    let header = [
        "policy",
        "#alpha",
        "#CPU under\nPhotons",
        "+\nINFless",
        "#memory under\nPhotons",
        "+\nINFless",
        "#late\n%",
    ];
    let mut table = TextTable::new(1, header);
    for row in &report.alphas {
        table.add(vec![
            row.policy.name().to_owned(),
            alpha(row.alpha_bytes_per_millicore),
            points(row.cpu_under_photons),
            points(row.cpu_under_infless),
            points(row.memory_under_photons),
            points(row.memory_under_infless),
            format!("{:.2}", row.late as f64 / 100.0),
        ]);
    }
    format!(
        "SS by alpha, mean of stable, periodic and bursty requests\n{}",
        table.format()
    )
}

/// Configurations by alpha: a row where the choice changes.
fn choices(report: &TetrisReport) -> String {
    let header = [
        "function",
        "#alpha\nfrom",
        "#cores",
        "#batch",
        "#threads",
        "#cores for\n100 req./s",
        "#GB for\n100 req./s",
    ];
    let mut table = TextTable::new(1, header);
    for functions in report.choices.chunk_by(|a, b| a.function == b.function) {
        let same = functions.chunk_by(|a, b| {
            (a.cpu_millis, a.batch, a.concurrency) == (b.cpu_millis, b.batch, b.concurrency)
        });
        for choice in same.filter_map(<[_]>::first) {
            let for_100 = |value: u64| value as f64 * 1e8 / choice.micro_rps.max(1) as f64;
            table.add(vec![
                choice.function.clone(),
                alpha(choice.alpha_bytes_per_millicore),
                (choice.cpu_millis / 1_000).to_string(),
                choice.batch.to_string(),
                choice.concurrency.to_string(),
                format!("{:.1}", for_100(choice.cpu_millis) / 1e3),
                format!("{:.2}", for_100(choice.memory_bytes) / GB),
            ]);
        }
    }
    format!(
        "Configurations of DTS by alpha, tensors counted\n{}",
        table.format()
    )
}

/// Runs of an experiment by application and policy, with values for each kind of requests.
fn by_kind(
    report: &TetrisReport,
    experiment: Experiment,
    header: &[&str],
    values: &dyn Fn(&TetrisRun) -> Vec<String>,
) -> String {
    let groups = TraceKind::ALL.into_iter().flat_map(|kind| {
        header.iter().enumerate().map(move |(at, column)| match at {
            0 => format!("#{kind}\n{column}"),
            _ => format!("+\n{column}"),
        })
    });
    let keys = ["application", "policy"].map(str::to_owned);
    let mut table = TextTable::new(2, keys.into_iter().chain(groups));
    for application in Application::ALL {
        for policy in Policy::ALL {
            let runs = report.runs.iter().filter(|run| {
                (run.experiment, run.cell, run.policy) == (experiment, application.name(), policy)
            });
            let cells: Vec<String> = runs.flat_map(values).collect();
            if !cells.is_empty() {
                let names = [application.name(), policy.name()].map(str::to_owned);
                table.add(names.into_iter().chain(cells).collect());
            }
        }
    }
    table.format()
}

fn overall(report: &TetrisReport) -> String {
    let gigabytes = |bytes: u64| format!("{:.2}", bytes as f64 / GB);
    let values = |run: &TetrisRun| {
        let memory = run.memory_bytes;
        let mut cells = [memory.mean, memory.median, memory.peak]
            .map(gigabytes)
            .to_vec();
        cells.push(format!("{:.0}", run.cpu_millis.mean as f64 / 1e3));
        cells
    };
    let header = ["mean", "median", "peak", "CPUs"];
    let table = by_kind(report, Experiment::Overall, &header, &values);
    format!("Memory in GB, and mean CPUs\n{table}")
}

/// Policies with the least headroom that makes them timely.
fn timely(report: &TetrisReport) -> String {
    let header = [
        "application",
        "policy",
        "#headroom\n%",
        "#memory\nGB",
        "#late\n%",
    ];
    let mut table = TextTable::new(2, header);
    for row in &report.timely {
        table.add(vec![
            row.application.name().to_owned(),
            row.policy.name().to_owned(),
            row.headroom_percent.to_string(),
            format!("{:.2}", row.memory_bytes as f64 / GB),
            format!("{:.2}", row.late as f64 / 100.0),
        ]);
    }
    let heading =
        "Timely policies: the least headroom with fewer than 4 % of late requests, stable";
    format!("{}\n{}", wrap(heading, 0), table.format())
}

/// Savings of DTS by load, a row for each application and policy.
fn loads(report: &TetrisReport) -> String {
    let counts = LOADS_OF_SVT.map(|rps| format!("#{rps}/s\n%"));
    let header = ["application", "DTS under", "#paper\n%"].map(str::to_owned);
    let mut table = TextTable::new(2, header.into_iter().chain(counts));
    let of_one =
        |a: &LoadRow, b: &LoadRow| (a.application, a.against) == (b.application, b.against);
    let claims = claims_of_paper();
    for rows in report.loads.chunk_by(of_one) {
        let Some(first) = rows.first() else {
            continue;
        };
        let mut same = claims.iter().filter(|claim| {
            (claim.application, claim.against, claim.measure)
                == (first.application, first.against, Measure::MeanMemory)
        });
        let paper = same.next().map_or(0, |claim| claim.percent);
        let mut row = vec![
            first.application.name().to_owned(),
            first.against.name().to_owned(),
            paper.to_string(),
        ];
        row.extend(rows.iter().map(|row| points(row.saved)));
        table.add(row);
    }
    let heading = "Mean memory by load of SVT and QA-Audio, in requests/s; SS has 3 times and QA-Text 25 \
                   times as many; stable requests";
    format!("{}\n{}", wrap(heading, 0), table.format())
}

fn late(report: &TetrisReport) -> String {
    let values = |run: &TetrisRun| vec![format!("{:.2}", percent(run.late, run.requests))];
    let tables = [
        ("a minute's mean", Experiment::Overall),
        ("loads from gateways", Experiment::Gateways),
    ]
    .map(|(loads, experiment)| {
        let table = by_kind(report, experiment, &["%"], &values);
        format!("Late requests with {loads}\n{table}")
    });
    tables.join("\n\n")
}

fn costs(report: &TetrisReport) -> String {
    let header = [
        "#requests/s",
        "#DTS, GB under\nINFless",
        "+\nPhotons",
        "#sharing-aware, GB\nunder INFless",
        "+\nPhotons",
    ];
    let mut table = TextTable::new(1, header);
    for rps in LOADS_RPS {
        let saved = report.costs.iter().filter(|row| row.rps == rps);
        let cells = saved.map(|row| format!("{:.1}", row.bytes_per_100_rps as f64 / GB));
        table.add([rps.to_string()].into_iter().chain(cells).collect());
    }
    format!(
        "Memory saved for 100 requests/s, all applications\n{}",
        table.format()
    )
}

fn profilings(report: &TetrisReport) -> String {
    let mut table = TextTable::new(1, ["model", "#configurations", "#min"]);
    for profiling in &report.profilings {
        table.add(vec![
            profiling.model.to_owned(),
            profiling.configurations.to_string(),
            format!("{:.1}", profiling.ms as f64 / 6e4),
        ]);
    }
    let heading = format!(
        "{} s for each configuration, as measured for all-MiniLM-L6-v2 unless an option says otherwise",
        report.grid.ms_per_configuration as f64 / 1e3
    );
    format!("{}\n{}", wrap(&heading, 0), table.format())
}

fn loadings(report: &TetrisReport) -> String {
    let header = [
        "#instances",
        "#each its speed:\nbaseline",
        "+store,\nsame order",
        "+store,\nrandom",
        "#one disk:\nbaseline",
        "+store",
    ];
    let mut table = TextTable::new(1, header);
    for loading in &report.loadings {
        let times = [
            loading.alone_us,
            loading.ordered_us,
            loading.random_us,
            loading.baseline_one_disk_us,
            loading.store_one_disk_us,
        ];
        let cells = times.map(seconds);
        table.add(
            [loading.loaders.to_string()]
                .into_iter()
                .chain(cells)
                .collect(),
        );
    }
    format!(
        "Mean time to load a model of table 4, in seconds\n{}",
        table.format()
    )
}

fn decisions(report: &TetrisReport) -> String {
    let mut table = TextTable::new(
        2,
        ["runs", "policy", "#decisions", "#mean us", "#longest us"],
    );
    for times in &report.decisions {
        let runs = match times.experiment {
            Experiment::Overall => "one application",
            Experiment::Gateways => "with gateways",
            Experiment::Alpha => "SS with alpha",
            Experiment::Load => "other loads",
            Experiment::Timely => "more headroom",
            Experiment::Cost => "up to 5,000 req./s",
        };
        table.add(vec![
            runs.to_owned(),
            times.policy.name().to_owned(),
            times.decisions.to_string(),
            times.mean_us.to_string(),
            times.most_us.to_string(),
        ]);
    }
    let heading = "Durations of decisions that start instances, measured on this machine: the only \
                   figures that do not follow from the seed. The paper has none";
    format!("{}\n{}", wrap(heading, 0), table.format())
}
