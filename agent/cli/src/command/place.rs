//! `tetris place`: the files of models where a server looks for them.

use std::path::Path;

use clap::Args;
use serde_json::json;
use tetris_agent::Agent;
use tetris_agent::store_location::StoreLocation;
use tetris_delivery::{PullOptions, PullReport, SourceName};
use tetris_store_layout::unescaped_path;
use tetris_units::size::Bytes;

use super::error::{Error, Result};
use super::exit::Code;
use super::interruption::Interruption;
use super::loading::lossy;
use super::output::{self, Output};
use super::progress::Bar;
use super::pull::{FetchArgs, Fetching};
use super::size::counted;

/// Scheme of models that a volume shows.
const MODEL: &str = "tetris://";
/// File system of such volumes.
const MODEL_TYPE: &str = "fuse.tetris-model";

/// Arguments of `place`.
#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// A source and the directory for its files; more such pairs may follow
    #[arg(required = true, num_args = 2.., value_names = ["SOURCE", "DIR"])]
    pairs: Vec<String>,
    #[command(flatten)]
    fetch: FetchArgs,
}

/// A model to place.
enum Wanted<'a> {
    /// By its source: pulled, and copied.
    Pulled(SourceName),
    /// By its name: shown by a volume.
    Shown(&'a str),
}

/// A model in its place.
struct Placed {
    files: usize,
    bytes: u64,
    /// `None` for one that a volume shows.
    report: Option<PullReport>,
}

/// Runs `place`.
pub(crate) fn run(args: &PlaceArgs, location: &StoreLocation, out: &mut Output) -> Result {
    let options = args.fetch.options()?;
    // All names first: a misspelt one should not show after an hour.
    let models = models(&args.pairs)?;
    let agent = Agent::open_at(location)?;
    let interruption = Interruption::watch(&agent)?;
    let fetching = Fetching {
        agent: &agent,
        interruption: &interruption,
        doing: "pulling",
    };
    let mut placed = Vec::new();
    for (source, wanted, dir) in &models {
        let model = match wanted {
            Wanted::Shown(name) => show(name, dir)?,
            Wanted::Pulled(name) => copy(&fetching, name, dir, &options)?,
        };
        placed.push((source, dir, model));
    }
    for (source, dir, model) in &placed {
        let fetched = model.report.as_ref().map(|report| report.fetched);
        let fetched = fetched.map_or_else(String::new, |bytes| {
            format!(", of which {} were fetched", Bytes(bytes))
        });
        output::note(format_args!(
            "`{source}` is at `{}`: {}, {}{fetched}",
            dir.display(),
            counted(model.files as u64, "file"),
            Bytes(model.bytes)
        ));
    }
    if out.is_json() {
        let models = placed.iter().map(|(source, dir, model)| {
            json!({
                "source": source,
                "path": lossy(dir),
                "files": model.files,
                "bytes": model.bytes,
                "bytes_fetched": model.report.as_ref().map(|report| report.fetched),
            })
        });
        out.json(&json!({
            "store": lossy(&location.dir),
            "models": models.collect::<Vec<_>>(),
        }))?;
    }
    out.flush()
}

fn models(pairs: &[String]) -> Result<Vec<(String, Wanted<'_>, &Path)>> {
    let pairs = pairs.chunks(2).map(|pair| {
        let [source, dir] = pair else {
            let message = format!("expected a directory after `{}`, found none", pair.concat());
            return Err(Error::message(Code::Usage, message));
        };
        let dir = Path::new(dir);
        if let Some(name) = source.strip_prefix(MODEL) {
            return Ok((source.clone(), Wanted::Shown(name), dir));
        }
        let name: SourceName = source.parse()?;
        Ok((name.to_string(), Wanted::Pulled(name), dir))
    });
    pairs.collect()
}

fn copy(
    fetching: &Fetching<'_>,
    source: &SourceName,
    dir: &Path,
    options: &PullOptions,
) -> Result<Placed> {
    let (report, folder) = fetching.bring(source, options, |shown| shown)?;
    let bytes = folder.bytes();
    let bar = Bar::new("writing", bytes);
    folder.copy_to(dir, &|written| bar.add(written))?;
    Ok(Placed {
        files: folder.file_count(),
        bytes,
        report: Some(report),
    })
}

/// Checks that `dir` shows a model, which a pod's volume does before its containers start.
fn show(name: &str, dir: &Path) -> Result<Placed> {
    let failed = |error| Error::new(Code::Failed, error);
    let mounts = std::fs::read_to_string("/proc/self/mounts").map_err(failed)?;
    let is_shown = mounts.lines().any(|line| {
        let mut fields = line.split(' ').skip(1);
        let path = fields.next().map(|path| unescaped_path(path.as_bytes()));
        path.as_deref() == Some(dir) && fields.next() == Some(MODEL_TYPE)
    });
    if !is_shown {
        let message = format!(
            "`{}` does not show the model `{name}`: the pod needs a volume with `content: model` there, \
             which the webhook gives to pods with the label tetris.dev/inject",
            dir.display()
        );
        return Err(Error::message(Code::Failed, message));
    }
    let (files, bytes) = count(dir).map_err(failed)?;
    Ok(Placed {
        files,
        bytes,
        report: None,
    })
}

/// Number and bytes of the files below a directory.
fn count(dir: &Path) -> std::io::Result<(usize, u64)> {
    let (mut files, mut bytes) = (0, 0);
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let (more, more_bytes) = if entry.file_type()?.is_dir() {
            count(&entry.path())?
        } else {
            (1, entry.metadata()?.len())
        };
        files += more;
        bytes += more_bytes;
    }
    Ok((files, bytes))
}
