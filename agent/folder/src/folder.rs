//! A model whose files are listed and whose objects are mapped.

use std::borrow::Cow;
use std::ops::Range;
use std::path::PathBuf;

use tetris_loader::{LoadFailure, MapLimit, StoredFile, map_objects, sidecar};
use tetris_store_layout::{
    Access, Digest, Manifest, ManifestKind, Mapping, ObjectId, ObjectRef, Store, TrustDomain,
};

use crate::error::FolderError;
use crate::header::find_header;
use crate::table::{FolderTable, TableFile};

/// A pulled model. While it lives, none of it is reclaimed.
#[derive(Debug)]
pub struct ModelFolder {
    source_name: String,
    /// The list of its files, so that it is there as long as they are.
    _table: Mapping,
    pub(crate) files: Vec<FolderFile>,
}

/// A file of a folder.
#[derive(Debug)]
pub(crate) struct FolderFile {
    pub(crate) entry: TableFile,
    /// Name for messages.
    pub(crate) name: PathBuf,
    /// `None` for a file without tensors, whose header is all of it.
    content: Option<Content>,
    /// First bytes of a safetensors file, up to its tensors.
    header: Option<Mapping>,
}

#[derive(Debug)]
struct Content {
    manifest: Manifest,
    objects: Vec<Mapping>,
}

impl ModelFolder {
    /// Opens the model pulled from `source_name`, by the word of one of these domains, mapping its objects with
    /// `threads`.
    ///
    /// # Errors
    /// When it was not pulled, or parts of it were freed since.
    pub fn open(
        source_name: &str,
        domains: &[TrustDomain],
        store: &Store,
        threads: usize,
    ) -> Result<Self, FolderError> {
        let listed = FolderTable::find_mapped(source_name, domains, store)?;
        let (table, mapping) = listed.ok_or_else(|| FolderError::NotPulled {
            source_name: source_name.to_owned(),
            store: store.root().to_owned(),
        })?;
        let open = |entry| FolderFile::open(entry, source_name, domains, store, threads);
        let files = table.files.into_iter().map(open);
        Ok(Self {
            source_name: source_name.to_owned(),
            _table: mapping,
            files: files.collect::<Result<_, _>>()?,
        })
    }

    /// The source, as `tetris pull` takes it.
    pub fn source_name(&self) -> &str {
        &self.source_name
    }

    /// Paths of its files, with their lengths in bytes, in the order of the paths.
    pub fn files(&self) -> impl Iterator<Item = (&str, u64)> {
        let files = self.files.iter();
        files.map(|file| (file.entry.path.as_str(), file.entry.size))
    }

    /// At most `len` bytes of the file at `path`, from `offset` on; `None` if there is no such file. They are copied
    /// only where they do not lie together.
    pub fn read(&self, path: &str, offset: u64, len: usize) -> Option<Cow<'_, [u8]>> {
        Some(self.file(path)?.read(offset, len))
    }

    /// Parts of the file at `path`, in order and without gaps: each tensor of at least `least` bytes, and what lies between
    /// two of these. Empty if there is no such file, or nothing in it.
    pub fn parts(&self, path: &str, least: u64) -> Vec<Range<u64>> {
        self.file(path)
            .map_or_else(Vec::new, |file| file.parts(least))
    }

    /// The sidecar by which loads know the file at `path`; `None` for a file without tensors.
    ///
    /// # Errors
    /// When the objects are not those of the file.
    pub fn sidecar(&self, path: &str) -> Option<Result<Vec<u8>, LoadFailure>> {
        self.file(path)?.sidecar()
    }

    /// Time of the last change of the file at `path` at its source, in seconds since the epoch; 0 if it is not known.
    pub fn modified(&self, path: &str) -> u64 {
        self.file(path).map_or(0, |file| file.entry.modified)
    }

    fn file(&self, path: &str) -> Option<&FolderFile> {
        let index = self
            .files
            .binary_search_by(|file| file.entry.path.as_str().cmp(path));
        self.files.get(index.ok()?)
    }

    /// Digest of its paths, lengths and manifests: equal for folders with equal files, whatever their source.
    pub fn content(&self) -> Digest {
        let lines = self.files.iter().map(|FolderFile { entry, .. }| {
            let manifest = entry.manifest.map(|id| id.to_string());
            // A path has no line break: JSON writes it as an escape.
            let line = serde_json::json!([entry.path, entry.size, manifest]);
            format!("{line}\n")
        });
        let text: String = lines.collect();
        Digest::of(text.as_bytes())
    }

    /// Number of files.
    pub fn file_count(&self) -> usize {
        self.files.len()
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        let sizes = self.files.iter().map(|file| file.entry.size);
        sizes.fold(0, u64::saturating_add)
    }
}

impl FolderFile {
    fn open(
        entry: TableFile,
        source_name: &str,
        domains: &[TrustDomain],
        store: &Store,
        threads: usize,
    ) -> Result<Self, FolderError> {
        let of_file = || (source_name.to_owned(), entry.path.clone());
        let freed = |missing, objects| {
            let (source_name, path) = of_file();
            FolderError::Freed {
                source_name,
                path,
                missing,
                objects,
            }
        };
        let header = match entry.header {
            Some(id) => Some(find_header(id, domains, store).ok_or_else(|| freed(1, 1))?),
            None => None,
        };
        let header_bytes = header.as_deref().unwrap_or_default();
        let content = match entry.manifest {
            None => None,
            Some(id) => {
                let manifest = store.manifest(id)?.ok_or_else(|| freed(1, 1))?;
                let is_same_header = match manifest.kind {
                    ManifestKind::File => entry.header.is_none(),
                    ManifestKind::Safetensors => {
                        entry.header == Some(ObjectId(manifest.header_digest))
                            && header_bytes.len() as u64 == manifest.data_start
                    }
                };
                if manifest.source_size != entry.size || !is_same_header {
                    let (source_name, path) = of_file();
                    return Err(FolderError::Manifest {
                        source_name,
                        path,
                        manifest: id,
                    });
                }
                let refs: Vec<ObjectRef> =
                    manifest.objects.iter().map(|entry| entry.object).collect();
                let limit = MapLimit::default();
                let mapped = map_objects(store, &refs, Access::ReadOnly, threads, &limit);
                let objects: Vec<Mapping> = mapped.into_iter().flatten().collect();
                if limit.is_met() {
                    let (source_name, path) = of_file();
                    return Err(FolderError::Mappings { source_name, path });
                }
                if objects.len() < refs.len() {
                    return Err(freed(refs.len() - objects.len(), refs.len()));
                }
                Some(Content { manifest, objects })
            }
        };
        Ok(Self {
            name: format!("{source_name}/{}", entry.path).into(),
            entry,
            content,
            header,
        })
    }

    /// As of [`ModelFolder::parts`].
    fn parts(&self, least: u64) -> Vec<Range<u64>> {
        let tensors = self.content.iter().flat_map(|content| {
            let start = content.manifest.data_start;
            let tensors = content.manifest.tensors.iter();
            tensors.map(move |tensor| (start + tensor.source_offset, tensor.len))
        });
        let large = tensors.filter(|(_, len)| *len >= least.max(1));
        let ends = large.flat_map(|(begin, len)| [begin, begin + len]);
        let mut parts = Vec::new();
        let mut at = 0;
        for end in ends.chain([self.entry.size]) {
            if end > at {
                parts.push(at..end);
                at = end;
            }
        }
        parts
    }

    /// At most `len` bytes from `offset` on; fewer at the end of the file.
    pub(crate) fn read(&self, offset: u64, len: usize) -> Cow<'_, [u8]> {
        if let Some(stored) = self.stored() {
            return stored.bytes(offset, len);
        }
        let header = self.header.as_deref().unwrap_or_default();
        Cow::Borrowed(part(header, offset, len))
    }

    /// The sidecar by which loads know the file; `None` for a file without tensors.
    pub(crate) fn sidecar(&self) -> Option<Result<Vec<u8>, LoadFailure>> {
        let stored = self.stored()?;
        let modified = i64::try_from(self.entry.modified).unwrap_or(i64::MAX);
        let is_model = stored.manifest.kind == ManifestKind::Safetensors;
        let (size, manifest) = (self.entry.size, stored.manifest);
        is_model.then(|| sidecar::encode_of(&stored, size, (modified, 0), manifest))
    }

    /// The file with its objects; `None` if it has none.
    pub(crate) fn stored(&self) -> Option<StoredFile<'_>> {
        let content = self.content.as_ref()?;
        Some(StoredFile {
            path: &self.name,
            header: self.header.as_deref().unwrap_or_default(),
            manifest: &content.manifest,
            objects: &content.objects,
        })
    }
}

/// At most `len` bytes from `offset` on.
pub(crate) fn part(bytes: &[u8], offset: u64, len: usize) -> &[u8] {
    let rest = bytes.get(usize::try_from(offset).unwrap_or(usize::MAX)..);
    let rest = rest.unwrap_or_default();
    rest.get(..len).unwrap_or(rest)
}
