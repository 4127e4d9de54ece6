//! `tetris mount`: a pulled model as a folder that any program opens.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tetris_agent::store_location::StoreLocation;
use tetris_agent::{Agent, LoadOptions};
use tetris_delivery::SourceName;
use tetris_folder::{ModelFolder, MountOptions, Unmounter};
use tetris_store_layout::{ObjectRef, TrustDomain};
use tetris_units::size::Bytes;

use super::error::{Error, Result};
use super::exit::Code;
use super::interruption::{Interruption, end_by, end_well};
use super::loading::lossy;
use super::output::{self, Output};
use super::size::counted;

/// Time between two looks at open files.
const LOOK: Duration = Duration::from_millis(50);

/// Arguments of `mount`.
#[derive(Debug, Args)]
pub(crate) struct MountArgs {
    /// Source that the model was pulled from
    source: String,
    /// Directory that shows its files
    #[arg(value_name = "DIR")]
    path: PathBuf,
    /// Let other users read it
    #[arg(long)]
    allow_other: bool,
}

/// Runs `mount`.
pub(crate) fn run(args: &MountArgs, location: &StoreLocation, out: &mut Output) -> Result {
    let source: SourceName = args.source.parse()?;
    let agent = Agent::open_at(location)?;
    let threads = threads();
    let folder = open_folder(&agent, &source)?;
    let (files, bytes) = (folder.file_count(), folder.bytes());
    let interruption = Interruption::watch(&agent)?;
    interruption.set_holding();
    let opener = agent.clone();
    let mounted = folder.mount(
        &args.path,
        MountOptions {
            allow_other: args.allow_other,
            threads,
            open_object: Box::new(move |object| open_object(&opener, object)),
        },
    )?;
    let unmounter = mounted.unmounter();
    let path = args.path.clone();
    std::thread::Builder::new()
        .name("unmount".to_owned())
        .spawn(move || unmount_by_signal(&interruption, &unmounter, &path))
        .map_err(|error| Error::new(Code::Failed, error))?;
    if out.is_json() {
        out.json(&json!({
            "store": lossy(&location.dir),
            "source": source.to_string(),
            "path": lossy(&args.path),
            "files": files,
            "bytes": bytes,
        }))?;
        out.flush()?;
    } else {
        output::note(format_args!(
            "`{source}` is at `{}`: {}, {}; end it with Ctrl-C or `umount`",
            args.path.display(),
            counted(files as u64, "file"),
            Bytes(bytes)
        ));
    }
    Ok(mounted.serve()?)
}

/// Threads for the parts of a folder: one per core.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The folder of a pulled model, by the word of this process's domain or the store's owner.
pub(crate) fn open_folder(agent: &Agent, source: &SourceName) -> Result<ModelFolder> {
    let store = agent.store().ok_or_else(|| {
        let message = "there is no store; make one with `tetris init`, and pull the model";
        Error::message(Code::NoStore, message)
    })?;
    let publisher = agent.node_publisher(&LoadOptions::default());
    let domains =
        publisher.map_or_else(|| vec![TrustDomain::Owner], |publisher| publisher.domains());
    let name = source.stored_name();
    Ok(ModelFolder::open(&name, &domains, store, threads())?)
}

/// The file of an object, for a kernel that reads it by itself.
pub(crate) fn open_object(agent: &Agent, object: &ObjectRef) -> Option<File> {
    let file = agent.store()?.object_file(object);
    file.unwrap_or_else(|error| {
        tracing::debug!(%error, "the kernel does not read an object by itself");
        None
    })
}

/// Takes the folder away at the first signal. The command ends when no program has a file open, whatever mount
/// namespaces have copies of the mount, or at the second signal.
fn unmount_by_signal(interruption: &Interruption, unmounter: &Unmounter, path: &Path) {
    interruption.hold();
    match unmounter.detach() {
        Ok(()) if unmounter.open_files() > 0 => output::note(format_args!(
            "`{}` is unmounted; the command ends when no program has a file of it open, or with another Ctrl-C",
            path.display()
        )),
        Ok(()) => {}
        Err(error) => {
            output::error(error);
            end_by(interruption.hold());
        }
    }
    while unmounter.open_files() > 0 {
        if let Some(signal) = interruption.hold_for(LOOK) {
            end_by(signal);
        }
    }
    end_well();
}
