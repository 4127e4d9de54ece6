//! `tetris push`: sidecars beside the models at their source, and artifacts of registries.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tetris_agent::Agent;
use tetris_agent::store_location::StoreLocation;
use tetris_delivery::{
    ArtifactReport, ArtifactTarget, PullOptions, PullReport, PushReport, PushedSidecar, SourceName,
};
use tetris_units::size::Bytes;

use super::error::{Error, Result};
use super::exit::Code;
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
    /// Tag of a registry, e.g. `oci://ghcr.io/org/llama:v1`, to push the model to as an artifact whose layers are tensors, in
    /// place of sidecars
    #[arg(long, value_name = "TAG")]
    to: Option<String>,
    #[command(flatten)]
    fetch: FetchArgs,
}

/// Runs `push`.
pub(crate) fn run(args: &PushArgs, location: &StoreLocation, out: &mut Output) -> Result {
    let sources = sources(&args.sources)?;
    let options = args.fetch.options()?;
    let agent = Agent::open_at(location)?;
    let interruption = Interruption::watch(&agent)?;
    let target = target(args, &options)?;
    let mut pushed = Vec::new();
    let mut failed = Failures::default();
    for (path, source) in &sources {
        let fetching = Fetching {
            agent: &agent,
            interruption: &interruption,
            doing: "pushing",
        };
        let report = match &target {
            None => fetching
                .run(source, &options, tetris_delivery::push)
                .map(Pushed::Sidecars),
            Some(target) => artifact(&fetching, source, target, &options),
        };
        match report {
            Ok(report) => pushed.push((source, report)),
            // The others are pushed all the same.
            Err(error) => failed.add(path, error),
        }
    }
    print(&pushed, &failed, location, out)?;
    failed.end()
}

/// Outcome of a push.
enum Pushed {
    Sidecars(PushReport),
    Artifact(PullReport, ArtifactReport),
}

/// The place of the artifact, if one is to be pushed.
fn target(args: &PushArgs, options: &PullOptions) -> Result<Option<ArtifactTarget>> {
    let Some(target) = &args.to else {
        return Ok(None);
    };
    if args.sources.len() > 1 {
        let message = format!(
            "expected one source for `{target}`, found {}; push each model to a tag of its own",
            args.sources.len()
        );
        return Err(Error::message(Code::Usage, message));
    }
    Ok(Some(ArtifactTarget::open(&target.parse()?, options)?))
}

/// Pulls a model and pushes it as an artifact.
fn artifact(
    fetching: &Fetching<'_>,
    source: &SourceName,
    target: &ArtifactTarget,
    options: &PullOptions,
) -> Result<Pushed> {
    let (pulled, folder) = fetching.bring(source, options, |shown| shown)?;
    let report = target.push(&Arc::new(folder))?;
    Ok(Pushed::Artifact(pulled, report))
}

impl Pushed {
    /// Bytes fetched from the source, requests to it, and the time of all.
    fn cost(&self) -> (u64, u64, Duration) {
        match self {
            Self::Sidecars(report) => (report.fetched, report.requests, report.duration),
            Self::Artifact(pulled, report) => {
                let duration = pulled.duration + report.duration;
                (pulled.fetched, pulled.requests, duration)
            }
        }
    }

    fn sidecars(&self) -> &[PushedSidecar] {
        match self {
            Self::Sidecars(report) => &report.sidecars,
            Self::Artifact(..) => &[],
        }
    }

    fn artifact(&self) -> Option<&ArtifactReport> {
        match self {
            Self::Sidecars(_) => None,
            Self::Artifact(_, report) => Some(report),
        }
    }

    fn to_json(&self, source: &SourceName) -> Value {
        let sidecars = self.sidecars().iter().map(|sidecar| {
            json!({
                "path": sidecar.path,
                "bytes": sidecar.bytes,
                "manifest": sidecar.manifest.to_string(),
                "new": sidecar.is_new,
            })
        });
        let artifact = self.artifact().map(|artifact| {
            json!({
                "reference": artifact.reference,
                "files": artifact.files,
                "bytes": artifact.bytes,
                "layers": artifact.layers,
                "layers_new": artifact.new_layers,
                "bytes_sent": artifact.sent,
            })
        });
        let (fetched, requests, duration) = self.cost();
        json!({
            "source": source.to_string(),
            "sidecars": sidecars.collect::<Vec<_>>(),
            "artifact": artifact,
            "bytes_fetched": fetched,
            "requests": requests,
            "duration_s": duration.as_secs_f64(),
        })
    }
}

fn print(
    pushed: &[(&SourceName, Pushed)],
    failed: &Failures<'_>,
    location: &StoreLocation,
    out: &mut Output,
) -> Result {
    let mut sidecars = pushed
        .iter()
        .flat_map(|(_, report)| report.sidecars())
        .peekable();
    if out.is_json() {
        let sources = pushed.iter().map(|(source, report)| report.to_json(source));
        out.json(&json!({
            "store": lossy(&location.dir),
            "sources": sources.collect::<Vec<_>>(),
            "errors": failed.to_json(),
        }))?;
    } else if sidecars.peek().is_some() {
        let columns = [
            ("STATE", Side::Left),
            ("SIZE", Side::Right),
            ("SIDECAR", Side::Left),
        ];
        let mut table = Table::new(&columns);
        for sidecar in sidecars {
            let state = if sidecar.is_new { "written" } else { "present" };
            let size = Bytes(sidecar.bytes).to_string();
            table.row([state.to_owned(), size, sidecar.path.clone()]);
        }
        table.print(out, "")?;
    }
    for (source, report) in pushed {
        if let Some(artifact) = report.artifact() {
            if !out.is_json() {
                out.line(format_args!("{}", artifact.reference))?;
            }
            output::note(format_args!(
                "{} of {} sent, {} of {} new",
                Bytes(artifact.sent),
                Bytes(artifact.bytes),
                artifact.new_layers,
                counted(artifact.layers as u64, "layer"),
            ));
        }
        let (fetched, requests, duration) = report.cost();
        output::note(format_args!(
            "`{source}`: {} fetched, in {} and {}",
            Bytes(fetched),
            counted(requests, "request"),
            took(duration)
        ));
    }
    out.flush()
}
