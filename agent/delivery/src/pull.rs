//! The pull of a model: its files one after the other, each proved while the next is fetched.

use std::collections::BTreeSet;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use tetris_folder::{FolderTable, TableFile, find_header, header_key};
use tetris_loader::{Progress, hub};
use tetris_store_layout::{ManifestKind, Mapping};
use tokio::runtime::{Handle, Runtime};

use crate::archive::{ArchivePull, Unpacked};
use crate::destination::Destination;
use crate::error::PullError;
use crate::fetch::Fetcher;
use crate::file::FilePull;
use crate::listing::{Listing, RemoteFile};
use crate::name::SourceName;
use crate::options::PullOptions;
use crate::origin::Origin;
use crate::peers::Peers;
use crate::pulled_file::PulledFile;
use crate::report::PullReport;
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
    /// Archives whose files a pull lists when it reads them; their paths are their digests.
    pub archives: Vec<RemoteFile>,
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
            archives: source
                .listing
                .archives
                .iter()
                .map(|archive| archive.file.clone())
                .collect(),
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
    pub(crate) peers: Option<&'a Peers>,
}

/// Threads for connections.
pub(crate) fn runtime(options: &PullOptions) -> Result<Runtime, PullError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(options.threads.get().min(MAX_IO_THREADS))
        .thread_name("tetris-pull")
        .enable_all()
        .build();
    runtime.map_err(|source| PullError::Machine {
        action: "start threads",
        source,
    })
}

/// Opens a source, lists its files, and does `work` with them.
pub(crate) fn with_listing<T>(
    source: &SourceName,
    options: &PullOptions,
    work: impl FnOnce(Listed<'_>) -> Result<T, PullError>,
) -> Result<T, PullError> {
    let runtime = runtime(options)?;
    let origin = Origin::new(source, options)?;
    let fetcher = Fetcher::new(&origin, options);
    let peers = Peers::new(&options.peers)?;
    let name = source.to_string();
    let listing = runtime.block_on(fetcher.list(&name))?;
    work(Listed {
        name: &name,
        runtime: runtime.handle(),
        options,
        fetcher: &fetcher,
        listing: &listing,
        selection: Selection::new(&name, &listing, options)?,
        peers: peers.as_ref(),
    })
}

/// Pulls a model into a store.
///
/// # Errors
/// Describes the first problem. What was published before stays, and another pull goes on from there.
pub fn pull(
    source: &SourceName,
    destination: Destination<'_>,
    options: &PullOptions,
) -> Result<PullReport, PullError> {
    let begun = Instant::now();
    destination.require_writable()?;
    let name = source.stored_name();
    with_listing(source, options, |source| {
        let (earlier, restored) = restored_table(&name, destination, options);
        let pull = ModelPull::new(&source, destination, earlier.as_ref());
        let mut pulled = pull.run(&source.selection.files)?;
        let mut left_out = source.selection.left_out;
        if !source.listing.archives.is_empty() {
            let unpacked = pull.archives(source.name)?;
            pulled.extend(unpacked.files);
            left_out.extend(unpacked.left_out);
            if pulled.is_empty() {
                return Err(nothing(name, source.listing, left_out.len()));
            }
        }
        pulled.sort_by(|a, b| a.report.file.path.cmp(&b.report.file.path));
        pull.list(&name, &pulled);
        Ok(PullReport {
            files: pulled.into_iter().map(|pulled| pulled.report).collect(),
            revision: source.listing.revision.clone(),
            left_out,
            fetched: source.fetcher.fetched(),
            restored,
            requests: source.fetcher.requests(),
            duration: begun.elapsed(),
        })
    })
}

/// The error of a source whose archives have nothing to pull.
fn nothing(source_name: String, listing: &Listing, left_out: usize) -> PullError {
    let root = listing.archives.iter().map(|archive| archive.root);
    match root.max().filter(|root| !root.is_empty() && left_out == 0) {
        Some(root) => PullError::Listing {
            address: source_name,
            problem: format!(
                "the image has no file below `{root}`, where Modelcars have the model"
            ),
        },
        None => PullError::Nothing {
            source_name,
            all: left_out,
        },
    }
}

/// The files of an earlier pull, with the number of bytes of them that the node's cold tier brought back.
fn restored_table(
    source_name: &str,
    destination: Destination<'_>,
    options: &PullOptions,
) -> (Option<FolderTable>, u64) {
    let earlier = earlier_table(source_name, destination);
    let store = destination.store;
    let is_there = |file: &TableFile| {
        let manifest = file.manifest.map(|id| store.manifest(id).ok().flatten());
        manifest.is_none_or(|manifest| {
            let mut objects = manifest.iter().flat_map(|manifest| &manifest.objects);
            manifest.is_some() && objects.all(|entry| store.contains(&entry.object))
        })
    };
    if let Some(table) = &earlier
        && table.files.iter().all(is_there)
    {
        return (earlier, 0);
    }
    let progress = |done, total| {
        if let Some(progress) = &options.progress {
            progress.report(Progress::new(done, total));
        }
    };
    let restored = destination.restore(source_name, progress);
    match restored {
        0 => (earlier, 0),
        _ => (earlier_table(source_name, destination), restored),
    }
}

/// The files of an earlier pull, if the store lists them.
pub(crate) fn earlier_table(
    source_name: &str,
    destination: Destination<'_>,
) -> Option<FolderTable> {
    let table = FolderTable::find(source_name, &destination.domains(), destination.store);
    table.unwrap_or_else(|error| {
        tracing::debug!(%error, "the list of an earlier pull is ignored");
        None
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
        destination: Destination<'a>,
        earlier: Option<&'a FolderTable>,
    ) -> Self {
        Self {
            files: FilePull {
                fetcher: source.fetcher,
                destination,
                earlier,
                runtime: source.runtime,
                peers: source.peers,
                options: source.options,
            },
            listing: source.listing,
        }
    }

    /// Pulls the files of the listing's archives.
    fn archives(&self, source_name: &str) -> Result<Unpacked, PullError> {
        let archives = ArchivePull {
            files: &self.files,
            source_name,
        };
        let unpacked = archives.run(self.listing)?;
        let paths: BTreeSet<_> = unpacked
            .files
            .iter()
            .map(|file| file.report.file.path.as_str())
            .collect();
        let is_there = |path: &str| paths.contains(path) || self.listing.file(path).is_some();
        for index in &unpacked.files {
            let file = &index.report.file;
            if file.path.ends_with(INDEX) && !index.objects.is_empty() {
                require_shards(file, index.objects.first(), is_there)?;
            }
        }
        Ok(unpacked)
    }

    /// Pulls `files`, and returns them, not referenced any more.
    pub(crate) fn run(&self, files: &[&RemoteFile]) -> Result<Vec<PulledFile>, PullError> {
        let archives = self
            .listing
            .archives
            .iter()
            .map(|archive| archive.file.size);
        let bytes = files.iter().map(|file| file.size).chain(archives).sum();
        self.files.fetcher.set_total(bytes);
        // Indices and other small files first: what is wrong with them shows before the weights are fetched.
        let (weights, small): (Vec<_>, Vec<_>) = files
            .iter()
            .partition(|file| file.kind() == ManifestKind::Safetensors);
        let destination = self.files.destination;
        std::thread::scope(|scope| {
            let (fetched, to_prove) = sync_channel::<PulledFile>(1);
            let prover = scope.spawn(move || {
                let mut mappings: Vec<Mapping> = Vec::new();
                let mut pulled = Vec::new();
                for file in to_prove {
                    let mut file = file.bind(destination)?;
                    let objects = std::mem::take(&mut file.objects);
                    if mappings.len() + objects.len() <= MAX_HELD {
                        mappings.extend(objects);
                    }
                    pulled.push(file);
                }
                Ok::<_, PullError>((pulled, mappings))
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
            let (pulled, mappings) = match prover.join() {
                Ok(proved) => proved?,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            fetching?;
            drop(mappings);
            Ok(pulled)
        })
    }

    /// Lists the files of a whole pull for those who open the model as a folder. A pull does not fail for want of
    /// the list.
    fn list(&self, source_name: &str, pulled: &[PulledFile]) {
        let table = FolderTable {
            source: source_name.to_owned(),
            revision: self.listing.revision.clone(),
            files: pulled.iter().map(PulledFile::entry).collect(),
        };
        let headers = table.files.iter().zip(pulled).filter_map(|(file, pulled)| {
            let id = file.header?;
            let destination = self.files.destination;
            let is_kept = find_header(id, &destination.domains(), destination.store).is_some();
            (!is_kept).then_some((header_key(id), &pulled.header))
        });
        let bytes = match table.encode() {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::warn!(source_name, %error, "the model cannot be mounted");
                return;
            }
        };
        let is_listed = self.files.earlier == Some(&table);
        let list = (!is_listed).then_some((FolderTable::key(source_name), &bytes));
        let kept = headers.chain(list).try_for_each(|(key, bytes)| {
            let destination = self.files.destination;
            let object = destination.publish(bytes, source_name)?;
            key.map_or(Ok(()), |key| {
                destination.record(key, object.object, source_name)
            })
        });
        if let Err(error) = kept {
            tracing::warn!(source_name, %error, "the model cannot be mounted");
        }
    }

    fn file(&self, file: &RemoteFile) -> Result<PulledFile, PullError> {
        let sidecar = match file.kind() {
            ManifestKind::Safetensors => self.listing.file(&format!("{}{SIDECAR}", file.path)),
            ManifestKind::File => None,
        };
        let pulled = self.files.pull(file, sidecar)?;
        // Shards in archives are not listed yet.
        if file.path.ends_with(INDEX)
            && self.listing.files.len() > 1
            && self.listing.archives.is_empty()
        {
            let is_there = |path: &str| self.listing.file(path).is_some();
            require_shards(file, pulled.objects.first(), is_there)?;
        }
        Ok(pulled)
    }
}

/// Checks that the source has all files that an index names.
fn require_shards(
    index: &RemoteFile,
    text: Option<&Mapping>,
    is_there: impl Fn(&str) -> bool,
) -> Result<(), PullError> {
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
        if !is_there(&path) {
            return Err(PullError::MissingShard {
                index: index.path.clone(),
                shard: path.escape_default().to_string(),
            });
        }
    }
    Ok(())
}
