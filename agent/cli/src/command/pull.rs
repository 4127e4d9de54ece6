//! `tetris pull`: models from where they are kept straight into the store.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::Path;

use clap::Args;
use serde_json::{Value, json};
use tetris_agent::{Agent, LoadOptions, ProgressFn};
use tetris_delivery::{
    DEFAULT_CONNECTIONS, Destination, FileReport, PullError, PullOptions, PullReport,
    SourceListing, SourceName,
};
use tetris_folder::ModelFolder;
use tetris_units::size::{self, Bytes};

use super::error::{Error, Result};
use super::exit::Code;
use super::failures::Failures;
use super::interruption::Interruption;
use super::loading::lossy;
use super::mount::open_folder;
use super::output::{self, Output};
use super::progress::Bar;
use super::size::counted;
use super::table::{Side, Table};
use super::time::took;
use tetris_agent::store_location::StoreLocation;

/// Attempts to open what was pulled: a full store may free a part of it before it is held.
const ATTEMPTS: u32 = 3;

/// Arguments of `pull`.
#[derive(Debug, Args)]
pub(crate) struct PullArgs {
    /// Sources of the models
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<String>,
    /// Only list the files
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    fetch: FetchArgs,
}

/// Arguments of commands that fetch from a source.
#[derive(Debug, Args)]
pub(crate) struct FetchArgs {
    /// Take the files whose paths match, e.g. '*.safetensors'; without it all but hidden files and copies
    /// of the weights in other formats
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// Leave out the files whose paths match
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Ranges fetched at once
    #[arg(long, value_name = "N", default_value_t = DEFAULT_CONNECTIONS)]
    connections: NonZeroUsize,
    /// Most bytes per second, e.g. 500M
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    limit_rate: Option<NonZeroU64>,
    /// Name and port of nodes to ask for the tensors of files that the store does not know, e.g. tetris-models:8080
    #[arg(
        long,
        value_name = "NAME:PORT",
        env = "TETRIS_PULL_PEERS",
        value_delimiter = ','
    )]
    peers: Vec<String>,
    /// Threads that hash and write [default: one per core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

impl FetchArgs {
    pub(crate) fn options(&self) -> Result<PullOptions> {
        let options = PullOptions::default().with_patterns(&self.include, &self.exclude)?;
        let options = options
            .with_connections(self.connections)
            .with_bytes_per_second(self.limit_rate)
            .with_peers(self.peers.clone());
        Ok(match self.threads {
            Some(threads) => options.with_threads(threads),
            None => options,
        })
    }
}

fn parse_rate(text: &str) -> Result<NonZeroU64, String> {
    let rate = size::parse(text).map_err(|error| error.to_string())?;
    NonZeroU64::new(rate).ok_or_else(|| "expected at least a byte per second, found 0".to_owned())
}

/// The sources by their names, as paths for messages. All names first: a misspelt one should not show after an
/// hour.
pub(crate) fn sources(names: &[String]) -> Result<Vec<(&Path, SourceName)>> {
    let source = |name: &'_ String| name.parse::<SourceName>();
    let named = names
        .iter()
        .map(|name| Ok((Path::new(name), source(name)?)));
    named.collect()
}

/// Runs `pull`.
pub(crate) fn run(args: &PullArgs, location: &StoreLocation, out: &mut Output) -> Result {
    let sources = sources(&args.sources)?;
    let options = args.fetch.options()?;
    if args.list {
        return list(&sources, &options, out);
    }
    let agent = Agent::open_at(location)?;
    let interruption = Interruption::watch(&agent)?;
    let mut pulled = Vec::new();
    let mut failed = Failures::default();
    for (path, source) in &sources {
        let fetching = Fetching {
            agent: &agent,
            interruption: &interruption,
            doing: "pulling",
        };
        match fetching.run(source, &options, tetris_delivery::pull) {
            Ok(report) => pulled.push((source, report)),
            // The others are pulled all the same.
            Err(error) => failed.add(path, error),
        }
    }
    print(&pulled, &failed, location, out)?;
    failed.end()
}

/// A command that fetches from sources.
pub(crate) struct Fetching<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) interruption: &'a Interruption,
    /// Word for the work on a source, e.g. `pulling`.
    pub(crate) doing: &'static str,
}

impl Fetching<'_> {
    /// Does `work` on a source, with progress, and with room made by the daemon where there is one.
    pub(crate) fn run<T>(
        &self,
        source: &SourceName,
        options: &PullOptions,
        work: impl FnOnce(&SourceName, Destination<'_>, &PullOptions) -> Result<T, PullError>,
    ) -> Result<T> {
        self.run_counted(source, options, |shown| shown, work)
    }

    /// Does the same; `counted` makes the receiver of the progress from the one that shows it.
    pub(crate) fn run_counted<T>(
        &self,
        source: &SourceName,
        options: &PullOptions,
        counted: impl FnOnce(ProgressFn) -> ProgressFn,
        work: impl FnOnce(&SourceName, Destination<'_>, &PullOptions) -> Result<T, PullError>,
    ) -> Result<T> {
        let store = self.agent.store().ok_or_else(|| {
            Error::message(
                Code::NoStore,
                "there is no store; make one with `tetris init`, or give the pod its volume",
            )
        })?;
        let shown = source.to_string();
        let path = Path::new(&shown);
        let bar = Bar::of_load(self.doing, path);
        let progress = self.interruption.begin(self.doing, path, bar);
        let options = options.clone().with_progress(counted(progress));
        let load = LoadOptions::default();
        let make_room = |bytes| self.agent.make_room(bytes, &load);
        let publisher = self.agent.node_publisher(&load);
        let destination = match &publisher {
            Some(publisher) => Destination::through(publisher),
            None => Destination::writable(store, &make_room),
        };
        let report = work(source, destination, &options)?;
        self.interruption.end();
        Ok(report)
    }

    /// Pulls a model, and maps all of it. `counted` is as for [`Fetching::run_counted`].
    pub(crate) fn bring(
        &self,
        source: &SourceName,
        options: &PullOptions,
        counted: impl Fn(ProgressFn) -> ProgressFn,
    ) -> Result<(PullReport, ModelFolder)> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let report = self.run_counted(source, options, &counted, tetris_delivery::pull)?;
            match open_folder(self.agent, source) {
                Ok(folder) => return Ok((report, folder)),
                Err(error) if attempt < ATTEMPTS => {
                    tracing::warn!(%error, "the model is not whole in the store; pulling it again");
                }
                Err(error) => return Err(error),
            }
        }
    }
}

fn list(sources: &[(&Path, SourceName)], options: &PullOptions, out: &mut Output) -> Result {
    let mut listings = Vec::new();
    for (_, source) in sources {
        listings.push((source, tetris_delivery::list(source, options)?));
    }
    if out.is_json() {
        let sources: Vec<_> = listings
            .iter()
            .map(|(source, listing)| listing_json(source, listing))
            .collect();
        out.json(&json!({ "sources": sources }))?;
    } else {
        let mut table = Table::new(&[("SIZE", Side::Right), ("FILE", Side::Left)]);
        for file in listings.iter().flat_map(|(_, listing)| &listing.selected) {
            table.row([Bytes(file.size).to_string(), file.path.clone()]);
        }
        table.print(out, "")?;
    }
    for (source, listing) in &listings {
        say_left_out(source, &listing.left_out);
        if !listing.archives.is_empty() {
            let archives = counted(listing.archives.len() as u64, "archive");
            output::note(format_args!(
                "`{source}`: a pull lists the files of {archives} when it reads them"
            ));
        }
    }
    out.flush()
}

fn listing_json(source: &SourceName, listing: &SourceListing) -> Value {
    let files: Vec<_> = listing
        .selected
        .iter()
        .map(|file| json!({ "path": file.path, "bytes": file.size }))
        .collect();
    let archives = listing.archives.iter();
    let archives: Vec<_> = archives
        .map(|archive| json!({ "digest": archive.path, "bytes": archive.size }))
        .collect();
    json!({
        "source": source.to_string(),
        "revision": listing.revision,
        "files": files,
        "left_out": listing.left_out,
        "archives": archives,
    })
}

fn print(
    pulled: &[(&SourceName, PullReport)],
    failed: &Failures<'_>,
    location: &StoreLocation,
    out: &mut Output,
) -> Result {
    if out.is_json() {
        let sources: Vec<_> = pulled
            .iter()
            .map(|(source, report)| report_json(source, report))
            .collect();
        out.json(&json!({
            "store": lossy(&location.dir),
            "sources": sources,
            "errors": failed.to_json(),
        }))?;
    } else if !pulled.is_empty() {
        table(pulled).print(out, "")?;
    }
    for (source, report) in pulled {
        say_left_out(source, &report.left_out);
        let bytes = report.files.iter().map(|file| file.file.size).sum();
        output::note(format_args!(
            "`{source}`: {} of {} fetched{}, in {} and {}",
            Bytes(report.fetched),
            Bytes(bytes),
            match report.restored {
                0 => String::new(),
                restored => format!(", {} back from the node's disk", Bytes(restored)),
            },
            counted(report.requests, "request"),
            took(report.duration)
        ));
    }
    out.flush()
}

fn report_json(source: &SourceName, report: &PullReport) -> Value {
    let file = |pulled: &FileReport| {
        json!({
            "path": pulled.file.path,
            "bytes": pulled.file.size,
            "known_by": pulled.known_by.name(),
            "manifest": pulled.manifest.map(|id| id.to_string()),
            "bytes_fetched": pulled.fetched,
            "objects": pulled.objects,
            "objects_new": pulled.new_objects,
        })
    };
    json!({
        "source": source.to_string(),
        "revision": report.revision,
        "files": report.files.iter().map(file).collect::<Vec<_>>(),
        "left_out": report.left_out,
        "bytes_fetched": report.fetched,
        "bytes_restored": report.restored,
        "requests": report.requests,
        "duration_s": report.duration.as_secs_f64(),
    })
}

fn table(pulled: &[(&SourceName, PullReport)]) -> Table {
    let right = |name| (name, Side::Right);
    let mut table = Table::new(&[
        ("KNOWN BY", Side::Left),
        right("SIZE"),
        right("FETCHED"),
        right("OBJECTS"),
        right("NEW"),
        ("FILE", Side::Left),
    ]);
    for file in pulled.iter().flat_map(|(_, report)| &report.files) {
        table.row([
            file.known_by.name().to_owned(),
            Bytes(file.file.size).to_string(),
            Bytes(file.fetched).to_string(),
            file.objects.to_string(),
            file.new_objects.to_string(),
            file.file.path.clone(),
        ]);
    }
    table
}

fn say_left_out(source: &SourceName, paths: &[String]) {
    /// Most paths to name; the others are counted.
    const NAMED: usize = 5;
    if paths.is_empty() {
        return;
    }
    let named = paths.iter().take(NAMED).map(|path| format!("`{path}`"));
    let named = named.collect::<Vec<_>>().join(", ");
    let more = match paths.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    output::note(format_args!("`{source}`: left out: {named}{more}"));
}
