//! A safetensors file that is open, and loaded only when its tensors are asked for.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Instant;

use tetris_loader::header::Header;
use tetris_loader::{LoadError, Source};
use tetris_store_layout::{ManifestId, ManifestKind};

use crate::agent::Agent;
use crate::load::bound;
use crate::model::Model;
use crate::options::LoadOptions;
use crate::worth::NotWorthSharing;

/// An open safetensors file of which the header has been read, and nothing else.
///
/// It stays the opened file, whatever its path names meanwhile.
#[derive(Debug)]
pub struct ModelFile {
    agent: Agent,
    source: Source,
    header: Header,
}

impl Agent {
    /// Opens a safetensors file and reads its header; its tensors are loaded when they are asked for.
    ///
    /// # Errors
    /// When the file cannot be read or is no valid safetensors file.
    pub fn open_file(&self, path: impl AsRef<Path>) -> Result<ModelFile, LoadError> {
        ModelFile::open(self.clone(), path.as_ref())
    }
}

impl ModelFile {
    pub(crate) fn open(agent: Agent, path: &Path) -> Result<Self, LoadError> {
        let source = Source::open(path)?;
        let (header, _) = Header::read(source.file(), source.identity().size, path)?;
        Ok(Self {
            agent,
            source,
            header,
        })
    }

    /// The opened path.
    pub fn path(&self) -> &Path {
        self.source.path()
    }

    /// The descriptor that it is open under.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.source.file().as_fd()
    }

    /// The file's header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The reason to leave the file to callers that map files by other means, as of
    /// [`Agent::load_unless_new`]: it counts as unshared then. `None` when it should be loaded
    /// here.
    pub fn leave(&self, options: &LoadOptions) -> Option<String> {
        let reason = self.agent.not_worth_sharing(&self.source, options)?;
        if !matches!(reason, NotWorthSharing::New(_)) {
            return None;
        }
        self.agent.count_unshared(1, self.source.identity().size);
        Some(reason.to_string())
    }

    /// The content id of the file: the manifest that its identity is bound to in the store. Reads no
    /// tensor. `None` for a file that the store does not know yet.
    pub fn known_manifest(&self) -> Option<ManifestId> {
        let store = self.agent.store()?;
        let (_, id) = bound(&self.source, ManifestKind::Safetensors, store).next()?;
        Some(id)
    }

    /// Loads the tensors, as [`Agent::load`] does.
    ///
    /// # Errors
    /// When the file cannot be read, or has changed since it was opened into something that is not valid.
    pub fn load(&self, options: &LoadOptions) -> Result<Model, LoadError> {
        let begun = Instant::now();
        let again = || self.source.again();
        let context = self.agent.load_context(options);
        let part = context.load_source(again()?, ManifestKind::Safetensors, again)?;
        let model = Model::new(vec![part], None)?;
        Ok(self.agent.loaded(model, begun))
    }
}
