//! The pull of archives: layers of images and artifacts that have the model's files.
//!
//! An archive is read once, from its first byte to its last: the digest that its source promises is that of the
//! whole, and a compressed one has no other order. Its files become objects as they come, and are bound when
//! the digest is proved. The store keeps the list of them, so that the same archive is not read again.

mod file;
mod members;
mod reader;
mod table;
mod tree;

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use tetris_folder::{MAX_FILES, find_header};
use tetris_loader::{MapLimit, map_objects};
use tetris_store_layout::{Access, Digest, Manifest, ManifestKind, Mapping, ObjectRef};

use self::file::StreamedFile;
use self::members::{Content, Member, Members};
use self::reader::{Inflated, SentBytes};
use self::table::{ArchiveTable, ArchivedFile};
use self::tree::{Layer, LayerFile, Tree, below, resolve};
use crate::error::{PullError, chain};
use crate::file::FilePull;
use crate::listing::{Archive, Listing, RemoteFile, require_plain};
use crate::pulled_file::PulledFile;
use crate::selection::{is_safetensors, selects};

/// Longest wait for another process that reads the same archive.
const WAIT: Duration = Duration::from_hours(1);
/// Beginning of the names of files that remove others below.
const WHITEOUT: &str = ".wh.";
/// Name of the file that removes all below its folder.
const OPAQUE: &str = ".wh..wh..opq";

/// The pull of the archives of a source.
pub(crate) struct ArchivePull<'a> {
    pub(crate) files: &'a FilePull<'a>,
    pub(crate) source_name: &'a str,
}

/// The files of all archives of a source.
pub(crate) struct Unpacked {
    pub(crate) files: Vec<PulledFile>,
    pub(crate) left_out: Vec<String>,
}

impl ArchivePull<'_> {
    /// Pulls the files of all archives that no file of the listing hides.
    pub(crate) fn run(&self, listing: &Listing) -> Result<Unpacked, PullError> {
        let mut tree = Tree::new(listing.files.iter().map(|file| file.path.as_str()));
        for archive in listing.archives.iter().rev() {
            let layer = self.archive(archive, &tree)?;
            tree.add(layer, self.source_name)?;
        }
        tree.unpacked(self.files.options, self.source_name)
    }

    /// The files of one archive that those of `tree` do not hide.
    fn archive(&self, archive: &Archive, tree: &Tree<'_>) -> Result<Layer, PullError> {
        let span = tracing::debug_span!("archive", digest = archive.file.path);
        let _entered = span.enter();
        let destination = self.files.destination;
        let digest = archive.file.sha256.ok_or_else(|| PullError::Listing {
            address: archive.file.address.clone(),
            problem: "expected a digest by sha256 of an archived layer".to_owned(),
        })?;
        let find = || ArchiveTable::find(&digest, archive.root, destination);
        let key = Digest(digest);
        let is_listed = || find().is_some();
        let _lock = destination.store.creation_lock(&key, WAIT, is_listed);
        let mut known = BTreeMap::new();
        if let Some(table) = find() {
            let has_safetensors =
                tree.has_safetensors || table.files.iter().any(|file| is_safetensors(&file.path));
            let layer = table.files.into_iter().map(|file| {
                let is_wanted = self.wants(&file.path, tree, has_safetensors);
                let pulled = (is_wanted && file.link.is_none()).then(|| self.known(archive, &file));
                (file, pulled)
            });
            let layer: Vec<_> = layer.collect();
            if layer
                .iter()
                .all(|(_, pulled)| !matches!(pulled, Some(None)))
            {
                self.files.fetcher.count_done(archive.file.size);
                let file = |(file, pulled): (_, Option<_>)| LayerFile {
                    file,
                    pulled: pulled.flatten(),
                };
                return Ok(Layer {
                    files: layer.into_iter().map(file).collect(),
                    removed: table.removed,
                });
            }
            let pulled = layer
                .into_iter()
                .filter_map(|(file, pulled)| Some((file.path, pulled.flatten()?)));
            known.extend(pulled);
        }
        let layer = self.read(archive, digest, tree, known)?;
        ArchiveTable::of(&layer).keep(&digest, archive.root, destination, &archive.file.address);
        Ok(layer)
    }

    fn wants(&self, path: &str, tree: &Tree<'_>, has_safetensors: bool) -> bool {
        !tree.hides(path) && selects(self.files.options, path, has_safetensors)
    }

    /// A listed file, if all of it is in the store.
    fn known(&self, archive: &Archive, file: &ArchivedFile) -> Option<PulledFile> {
        let destination = self.files.destination;
        let remote = remote(archive, &file.path, file.size);
        let header = match file.header() {
            Some(id) => find_header(id, &destination.domains(), destination.store)?.to_vec(),
            None => Vec::new(),
        };
        let Some(id) = file.manifest() else {
            let is_whole = file.size == header.len() as u64;
            return is_whole.then(|| PulledFile::known(&remote, None, header, Vec::new()));
        };
        let is_same = |manifest: &Manifest| {
            let digest = (manifest.kind == ManifestKind::Safetensors).then(|| Digest::of(&header));
            manifest.source_size == file.size
                && manifest.kind == remote.kind()
                && digest.is_none_or(|digest| digest == manifest.header_digest)
        };
        let manifest = destination.store.manifest(id).ok().flatten();
        let manifest = manifest.filter(is_same)?;
        let refs: Vec<ObjectRef> = manifest.objects.iter().map(|entry| entry.object).collect();
        let (threads, limit) = (self.files.options.threads.get(), MapLimit::default());
        let objects = map_objects(destination.store, &refs, Access::ReadOnly, threads, &limit);
        let objects = objects.into_iter().collect::<Option<Vec<Mapping>>>()?;
        destination.store.touch_manifest(id);
        Some(PulledFile::known(&remote, Some(id), header, objects))
    }

    /// Reads an archive, except for known files, and binds its files when its digest is proved.
    fn read(
        &self,
        archive: &Archive,
        digest: [u8; 32],
        tree: &Tree<'_>,
        known: BTreeMap<String, PulledFile>,
    ) -> Result<Layer, PullError> {
        let FilePull {
            fetcher,
            destination,
            runtime,
            options,
            ..
        } = *self.files;
        let connections = options.connections.get();
        let (sender, pieces) = sync_channel(1);
        let (sent, layer) = std::thread::scope(|scope| {
            let sending = scope.spawn(move || {
                let send = reader::send(fetcher, &archive.file, connections, &sender);
                runtime.block_on(send)
            });
            let layer = self.unpack(archive, pieces, tree, known);
            let sent = sending.join();
            (sent, layer)
        });
        let sent = sent.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let layer = layer?;
        if sent != digest {
            for file in layer.files.into_iter().filter_map(|file| file.pulled) {
                file.discard(destination.store);
            }
            return Err(PullError::Digest {
                address: archive.file.address.clone(),
                expected: Digest(digest).to_string(),
                found: Digest(sent).to_string(),
            });
        }
        let files = layer.files.into_iter().map(|file| {
            let bound = file.pulled.map(|pulled| pulled.bind(destination));
            Ok::<_, PullError>(LayerFile {
                pulled: bound.transpose()?,
                ..file
            })
        });
        let files = files.collect::<Result<_, _>>()?;
        Ok(Layer { files, ..layer })
    }

    /// Makes objects of the files of an archive, as its bytes come.
    fn unpack(
        &self,
        archive: &Archive,
        pieces: Receiver<Vec<u8>>,
        tree: &Tree<'_>,
        mut known: BTreeMap<String, PulledFile>,
    ) -> Result<Layer, PullError> {
        let bad = |error| unreadable(&archive.file, &error);
        let mut members = Members::new(Inflated::new(archive.compression, SentBytes::new(pieces)));
        let mut files = BTreeMap::new();
        let mut removed = Vec::new();
        let mut has_safetensors = tree.has_safetensors;
        while let Some(Member { path, content }) = members.next().map_err(bad)? {
            if let Some(path) = whiteout(archive.root, &path) {
                removed.push(path);
                require_few(files.len() + removed.len(), self.source_name)?;
                continue;
            }
            let Some(name) = below(archive.root, &path).map(str::to_owned) else {
                continue;
            };
            let (size, link) = match content {
                Content::Other => continue,
                Content::File { size } => (size, None),
                Content::HardLink { target } => (0, Some(resolve(archive.root, "", &target))),
                Content::SymbolicLink { target } => {
                    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                    (0, Some(resolve(archive.root, folder, &target)))
                }
                Content::Sparse => {
                    let problem = format!("`{}` is sparse", name.escape_default());
                    return Err(bad(io::Error::other(problem)));
                }
            };
            require_plain(self.source_name, &name)?;
            require_few(files.len() + removed.len(), self.source_name)?;
            has_safetensors |= is_safetensors(&name);
            let is_wanted = link.is_none() && self.wants(&name, tree, has_safetensors);
            let pulled = match known.remove(&name).filter(|_| is_wanted) {
                None if is_wanted => {
                    members.reader_mut().use_next(size);
                    let file = remote(archive, &name, size);
                    let streamed = StreamedFile {
                        file: &file,
                        destination: self.files.destination,
                        threads: self.files.options.threads.get(),
                    };
                    Some(streamed.read(&mut members)?)
                }
                known => known,
            };
            let file = ArchivedFile::new(name.clone(), size, link);
            // A later member replaces an earlier one.
            files.insert(name, LayerFile { file, pulled });
        }
        members.into_inner().drain().map_err(bad)?;
        let files = files.into_values().collect();
        Ok(Layer { files, removed })
    }
}

/// The path that a file of this name removes from the archives below; the empty one is all of the model.
fn whiteout(root: &str, path: &str) -> Option<String> {
    let path = below("", path)?;
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let removed = match name.strip_prefix(WHITEOUT)? {
        _ if name == OPAQUE => folder.to_owned(),
        name if folder.is_empty() => name.to_owned(),
        name => format!("{folder}/{name}"),
    };
    // Only images have such files.
    let root = root.strip_suffix('/')?;
    if removed.is_empty() || removed == root {
        return Some(String::new());
    }
    below(&format!("{root}/"), &removed).map(str::to_owned)
}

fn require_few(files: usize, source_name: &str) -> Result<(), PullError> {
    if files < MAX_FILES {
        return Ok(());
    }
    Err(PullError::TooManyFiles {
        source_name: source_name.to_owned(),
        limit: MAX_FILES,
    })
}

/// A file of an archive as one of its source.
fn remote(archive: &Archive, path: &str, size: u64) -> RemoteFile {
    RemoteFile {
        path: path.to_owned(),
        size,
        sha256: None,
        checksum: None,
        version: archive.file.version.clone(),
        modified: None,
        address: format!("{}/{path}", archive.base),
    }
}

/// The error of reading an archive, or a file in it.
fn unreadable(file: &RemoteFile, error: &io::Error) -> PullError {
    PullError::Listing {
        address: file.address.clone(),
        problem: format!(
            "expected an archive by tar, as its media type says, but it cannot be read: {}",
            chain(error)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whiteouts_remove_paths_of_the_model() {
        let removed = |path| whiteout("models/", path);
        assert_eq!(removed("models/.wh.a"), Some("a".to_owned()));
        assert_eq!(removed("./models/b/.wh.a"), Some("b/a".to_owned()));
        assert_eq!(removed("models/b/.wh..wh..opq"), Some("b".to_owned()));
        for all in [".wh.models", "models/.wh..wh..opq", ".wh..wh..opq"] {
            assert_eq!(removed(all), Some(String::new()), "{all}");
        }
        assert_eq!(removed("etc/.wh.passwd"), None);
        assert_eq!(removed("models/a"), None);
        assert_eq!(whiteout("", ".wh.a"), None);
    }
}
