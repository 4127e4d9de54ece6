//! `tetris push`: sidecars beside the models at their source.

use clap::Args;
use serde_json::json;
use tetris_agent::Agent;
use tetris_agent::store_location::StoreLocation;
use tetris_delivery::{PushReport, SourceName};
use tetris_units::size::Bytes;

use super::error::Result;
use super::failures::Failures;
use super::interruption::Interruption;
use super::loading::lossy;
use super::output::{self, Output};
use super::pull::{FetchArgs, Fetching, sources};
use super::size::counted;
use super::table::{Side, Table};
use super::time::took;

/// Arguments of `push`.
#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    /// Sources of the models
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<String>,
    #[command(flatten)]
    fetch: FetchArgs,
}

/// Runs `push`.
pub(crate) fn run(args: &PushArgs, location: &StoreLocation, out: &mut Output) -> Result {
    let sources = sources(&args.sources)?;
    let options = args.fetch.options()?;
    let agent = Agent::open_at(location)?;
    let interruption = Interruption::watch(&agent)?;
    let mut pushed = Vec::new();
    let mut failed = Failures::default();
    for (path, source) in &sources {
        let fetching = Fetching {
            agent: &agent,
            interruption: &interruption,
            doing: "pushing",
        };
        match fetching.run(source, &options, tetris_delivery::push) {
            Ok(report) => pushed.push((source, report)),
            // The others are pushed all the same.
            Err(error) => failed.add(path, error),
        }
    }
    print(&pushed, &failed, location, out)?;
    failed.end()
}

fn print(
    pushed: &[(&SourceName, PushReport)],
    failed: &Failures<'_>,
    location: &StoreLocation,
    out: &mut Output,
) -> Result {
    if out.is_json() {
        let sources = pushed.iter().map(|(source, report)| {
            let sidecars = report.sidecars.iter().map(|sidecar| {
                json!({
                    "path": sidecar.path,
                    "bytes": sidecar.bytes,
                    "manifest": sidecar.manifest.to_string(),
                    "new": sidecar.is_new,
                })
            });
            json!({
                "source": source.to_string(),
                "sidecars": sidecars.collect::<Vec<_>>(),
                "bytes_fetched": report.fetched,
                "requests": report.requests,
                "duration_s": report.duration.as_secs_f64(),
            })
        });
        out.json(&json!({
            "store": lossy(&location.dir),
            "sources": sources.collect::<Vec<_>>(),
            "errors": failed.to_json(),
        }))?;
    } else if !pushed.is_empty() {
        let columns = [
            ("STATE", Side::Left),
            ("SIZE", Side::Right),
            ("SIDECAR", Side::Left),
        ];
        let mut table = Table::new(&columns);
        for sidecar in pushed.iter().flat_map(|(_, report)| &report.sidecars) {
            let state = if sidecar.is_new { "written" } else { "present" };
            let size = Bytes(sidecar.bytes).to_string();
            table.row([state.to_owned(), size, sidecar.path.clone()]);
        }
        table.print(out, "")?;
    }
    for (source, report) in pushed {
        output::note(format_args!(
            "`{source}`: {} fetched, in {} and {}",
            Bytes(report.fetched),
            counted(report.requests, "request"),
            took(report.duration)
        ));
    }
    out.flush()
}
