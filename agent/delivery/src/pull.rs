//! The pull of a model: its files one after the other, each proved while the next is fetched.

use std::sync::mpsc::sync_channel;
use std::time::Instant;

use tetris_loader::hub;
use tetris_store_layout::{ManifestKind, Mapping, Store};
use tokio::runtime::Handle;

use crate::error::PullError;
use crate::fetch::Fetcher;
use crate::file::{FilePull, PulledFile};
use crate::listing::{Listing, RemoteFile};
use crate::name::SourceName;
use crate::options::PullOptions;
use crate::origin::Origin;
use crate::report::{FileReport, PullReport};
use crate::selection::{SIDECAR, Selection};

/// The end of the name of an index.
const INDEX: &str = ".safetensors.index.json";
/// Objects kept mapped until the pull ends, so that nothing of it is reclaimed meanwhile. A process
/// may have 65,530 mappings.
const MAX_HELD: usize = 32_768;
/// Threads for connections: bytes are hashed and written by others.
const MAX_IO_THREADS: usize = 4;

/// The files at a source.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SourceListing {
    /// The source's name for this state of all files, e.g. a commit.
    pub revision: Option<String>,
    /// Files that a pull brings, in the order of their paths.
    pub selected: Vec<RemoteFile>,
    /// Paths that it leaves out.
    pub left_out: Vec<String>,
}

/// Lists the files at a source, without pulling them.
///
/// # Errors
/// When the source cannot be listed, or nothing of it would be pulled.
pub fn list(source: &SourceName, options: &PullOptions) -> Result<SourceListing, PullError> {
    with_listing(source, options, |source| {
        Ok(SourceListing {
            revision: source.listing.revision.clone(),
            selected: source.selection.files.into_iter().cloned().collect(),
            left_out: source.selection.left_out,
        })
    })
}

/// A source whose files are listed.
pub(crate) struct Listed<'a> {
    pub(crate) name: &'a str,
    pub(crate) runtime: &'a Handle,
    pub(crate) options: &'a PullOptions,
    pub(crate) fetcher: &'a Fetcher<'a>,
    pub(crate) listing: &'a Listing,
    pub(crate) selection: Selection<'a>,
}

/// Opens a source, lists its files, and does `work` with them.
pub(crate) fn with_listing<T>(
    source: &SourceName,
    options: &PullOptions,
    work: impl FnOnce(Listed<'_>) -> Result<T, PullError>,
) -> Result<T, PullError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(options.threads.get().min(MAX_IO_THREADS))
        .thread_name("tetris-pull")
        .enable_all()
        .build()
        .map_err(|source| PullError::Machine {
            action: "start threads",
            source,
        })?;
    let origin = Origin::new(source, options)?;
    let fetcher = Fetcher::new(&origin, options);
    let name = source.to_string();
    let listing = runtime.block_on(fetcher.list(&name))?;
    work(Listed {
        name: &name,
        runtime: runtime.handle(),
        options,
        fetcher: &fetcher,
        listing: &listing,
        selection: Selection::new(&name, &listing, options)?,
    })
}

/// Pulls a model into `store`. `make_room` is called when the store is full, with the number of bytes needed,
/// and returns true when some were freed.
///
/// # Errors
/// Describes the first problem. What was published before stays, and another pull goes on from there.
pub fn pull(
    source: &SourceName,
    store: &Store,
    options: &PullOptions,
    make_room: &(dyn Fn(u64) -> bool + Sync),
) -> Result<PullReport, PullError> {
    let begun = Instant::now();
    require_writable(store)?;
    with_listing(source, options, |source| {
        let pull = ModelPull::new(&source, store, make_room);
        Ok(PullReport {
            files: pull.run(&source.selection.files)?,
            revision: source.listing.revision.clone(),
            left_out: source.selection.left_out,
            fetched: source.fetcher.fetched(),
            requests: source.fetcher.requests(),
            duration: begun.elapsed(),
        })
    })
}

/// Checks that this process may publish in `store`.
pub(crate) fn require_writable(store: &Store) -> Result<(), PullError> {
    if store.is_writable() {
        return Ok(());
    }
    Err(PullError::ReadOnly {
        path: store.root().to_owned(),
    })
}

/// The pull of all files.
pub(crate) struct ModelPull<'a> {
    pub(crate) files: FilePull<'a>,
    listing: &'a Listing,
}

impl<'a> ModelPull<'a> {
    pub(crate) fn new(
        source: &Listed<'a>,
        store: &'a Store,
        make_room: &'a (dyn Fn(u64) -> bool + Sync),
    ) -> Self {
        Self {
            files: FilePull {
                fetcher: source.fetcher,
                store,
                runtime: source.runtime,
                options: source.options,
                make_room,
            },
            listing: source.listing,
        }
    }

    /// Pulls `files`, and returns what was done in the order of their paths.
    pub(crate) fn run(&self, files: &[&RemoteFile]) -> Result<Vec<FileReport>, PullError> {
        let bytes = files.iter().map(|file| file.size).sum();
        self.files.fetcher.set_total(bytes);
        // Indices and other small files first: what is wrong with them shows before the weights are fetched.
        let (weights, small): (Vec<_>, Vec<_>) = files
            .iter()
            .partition(|file| file.kind() == ManifestKind::Safetensors);
        let store = self.files.store;
        std::thread::scope(|scope| {
            let (fetched, to_prove) = sync_channel::<PulledFile>(1);
            let prover = scope.spawn(move || {
                let mut mappings: Vec<Mapping> = Vec::new();
                let mut reports = Vec::new();
                for file in to_prove {
                    let file = file.bind(store)?;
                    if mappings.len() + file.objects.len() <= MAX_HELD {
                        mappings.extend(file.objects);
                    }
                    reports.push(file.report);
                }
                Ok::<_, PullError>((reports, mappings))
            });
            let fetch = || {
                for file in small.into_iter().chain(weights) {
                    let pulled = self.file(file)?;
                    // It has ended with an error, which is returned below.
                    if fetched.send(pulled).is_err() {
                        break;
                    }
                }
                Ok::<_, PullError>(())
            };
            let fetching = fetch();
            drop(fetched);
            let (mut reports, mappings) = match prover.join() {
                Ok(proved) => proved?,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            fetching?;
            drop(mappings);
            reports.sort_by(|a, b| a.file.path.cmp(&b.file.path));
            Ok(reports)
        })
    }

    fn file(&self, file: &RemoteFile) -> Result<PulledFile, PullError> {
        let sidecar = match file.kind() {
            ManifestKind::Safetensors => self.listing.file(&format!("{}{SIDECAR}", file.path)),
            ManifestKind::File => None,
        };
        let pulled = self.files.pull(file, sidecar)?;
        if file.path.ends_with(INDEX) && self.listing.files.len() > 1 {
            self.require_shards(file, pulled.objects.first())?;
        }
        Ok(pulled)
    }

    /// Checks that the source has all files that an index names.
    fn require_shards(&self, index: &RemoteFile, text: Option<&Mapping>) -> Result<(), PullError> {
        let text = text.map_or(&[][..], |text| text);
        let shards = hub::shards_of_index(text).map_err(|error| PullError::Listing {
            address: index.address.clone(),
            problem: format!("it is no index of a model: {error}"),
        })?;
        let folder = index.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for shard in shards {
            let path = match folder {
                "" => shard,
                folder => format!("{folder}/{shard}"),
            };
            if self.listing.file(&path).is_none() {
                return Err(PullError::MissingShard {
                    index: index.path.clone(),
                    shard: path.escape_default().to_string(),
                });
            }
        }
        Ok(())
    }
}
