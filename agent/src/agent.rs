//! The agent: a handle through which a process loads models.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tetris_loader::{LoadError, PrivateCause, Recognized, Source, Words, hub};
use tetris_store_layout::{Manifest, ManifestKind, Store, StoreError, TensorId, TrustDomain};

use crate::daemon::{Absence, DaemonClient, Patience};
use crate::load::LoadContext;
use crate::model::{Model, SharedFile};
use crate::options::LoadOptions;
use crate::private_reason::{PrivateReason, Unavailable};
use crate::report::LoadReport;
use crate::store_location::{StoreChoice, StoreLocation, StoreLocationError};
use crate::worth::NotWorthSharing;

/// True once the log states that this process shares.
static SHARING: AtomicBool = AtomicBool::new(false);

/// Loads models through a tensor store, or without one.
///
/// ```
/// # let dir = tempfile::tempdir_in("/dev/shm")?;
/// # let model = dir.path().join("model.safetensors");
/// # let view = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![2], &[0; 8])?;
/// # safetensors::serialize_to_file([("weight", view)], None, &model)?;
/// # let store = dir.path().join("store");
/// # tetris_store_layout::Store::create(&store, &Default::default())?;
/// use tetris_agent::Agent;
///
/// let agent = Agent::open_store(&store)?;
/// let model = agent.load(&model)?;
/// let weight = model.tensor("weight").ok_or("no such tensor")?;
/// assert_eq!(weight.shape(), [2]);
/// assert_eq!(weight.bytes().len(), 8);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Agent {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Option<Store>,
    /// The configured store, if it cannot be used.
    unavailable: Option<Unavailable>,
    /// The reason that this store is used, if the agent chose it by a location.
    choice: Option<StoreChoice>,
    /// True if the node daemon is worth asking for room.
    patience: Patience,
    /// True if the node daemon is worth passing files to.
    broker_patience: Patience,
    /// Waits for a node daemon that is away.
    absence: Absence,
    /// Domain in which this process's derived tensors count, once the daemon said so.
    domain: OnceLock<Option<TrustDomain>>,
    brokered_files: AtomicU64,
    loads: AtomicU64,
    private_loads: AtomicU64,
    private_bytes: AtomicU64,
    shared_bytes: AtomicU64,
    new_bytes: AtomicU64,
    other_file_bytes: AtomicU64,
    unshared_files: AtomicU64,
    unshared_bytes: AtomicU64,
}

/// Counts of an agent since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentCounters {
    /// Model files loaded.
    pub loads: u64,
    /// Loads of which some part is in private memory because the store could not take it.
    pub private_loads: u64,
    /// Model files that the node's daemon published for this process.
    pub brokered_files: u64,
    /// Bytes loaded into private memory because the store could not take them.
    pub private_bytes: u64,
    /// Bytes of objects that were in the store already: memory saved against private copies.
    pub shared_bytes: u64,
    /// Bytes of objects that this process published.
    pub new_bytes: u64,
    /// Bytes of `shared_bytes` that came into the store from other files: memory saved against the
    /// page cache as well ([`LoadReport::bytes_of_other_files`]).
    pub other_file_bytes: u64,
    /// Model files read into private memory, or left to the caller, because sharing them is not worth its
    /// cost ([`LoadOptions::min_shared_bytes`]).
    pub unshared_files: u64,
    /// Their bytes.
    pub unshared_bytes: u64,
}

impl Agent {
    /// An agent of the store in `root`.
    ///
    /// # Errors
    /// The store cannot be used. A server that must run even so uses [`Agent::from_env`].
    pub fn open_store(root: impl AsRef<Path>) -> Result<Self, StoreError> {
        Ok(Self::with_store(Store::open(root)?))
    }

    /// An agent of the store that [`STORE_ENV`](crate::store_location::STORE_ENV) names, or of the
    /// default one; see [`Agent::at`].
    pub fn from_env() -> Self {
        Self::at(&StoreLocation::from_env())
    }

    /// An agent of the store at `location`. If that store cannot be used, the agent loads into private
    /// memory: it warns once in the log, and [`Agent::unavailable`] gives the reason.
    ///
    /// A store that the user did not name must belong to this user or to root.
    pub fn at(location: &StoreLocation) -> Self {
        let agent = Self::at_silently(location);
        if let Some(unavailable) = agent.unavailable_store() {
            let remedy = agent.unavailable_remedy(Words::of_process());
            tracing::warn!(
                store = %unavailable.dir.display(),
                cause = unavailable.reason.cause.code(),
                reason = unavailable.reason.text,
                remedy,
                "no tensor store; models are loaded into private memory"
            );
        }
        agent
    }

    /// As [`Agent::at`], without the warning: for a caller that gives it in its own words.
    pub fn at_silently(location: &StoreLocation) -> Self {
        Self::open_at(location).unwrap_or_else(|error| {
            let reason = PrivateReason::new(error.cause(), error.to_string());
            let dir = location.dir.clone();
            Self::new(None, Some(Unavailable { reason, dir }), None)
        })
    }

    /// An agent of the store at `location`.
    ///
    /// # Errors
    /// The reason that the store cannot be used, with its cause and a remedy.
    pub fn open_at(location: &StoreLocation) -> Result<Self, StoreLocationError> {
        let store = location.open()?;
        Ok(Self::new(Some(store), None, Some(location.choice)))
    }

    /// An agent that uses `store`.
    pub fn with_store(store: Store) -> Self {
        Self::new(Some(store), None, None)
    }

    /// An agent that loads into private memory.
    pub fn without_store() -> Self {
        Self::new(None, None, None)
    }

    fn new(
        store: Option<Store>,
        unavailable: Option<Unavailable>,
        choice: Option<StoreChoice>,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                store,
                unavailable,
                choice,
                patience: Patience::default(),
                broker_patience: Patience::default(),
                absence: Absence::default(),
                domain: OnceLock::new(),
                brokered_files: AtomicU64::new(0),
                loads: AtomicU64::new(0),
                private_loads: AtomicU64::new(0),
                private_bytes: AtomicU64::new(0),
                shared_bytes: AtomicU64::new(0),
                new_bytes: AtomicU64::new(0),
                other_file_bytes: AtomicU64::new(0),
                unshared_files: AtomicU64::new(0),
                unshared_bytes: AtomicU64::new(0),
            }),
        }
    }

    /// The store, if there is one.
    pub fn store(&self) -> Option<&Store> {
        self.inner.store.as_ref()
    }

    /// The reason that the configured store cannot be used, if it cannot.
    pub fn unavailable(&self) -> Option<&str> {
        Some(&self.unavailable_store()?.reason.text)
    }

    /// The cause of that reason.
    pub fn unavailable_cause(&self) -> Option<PrivateCause> {
        Some(self.unavailable_store()?.reason.cause)
    }

    /// The next step that makes the configured store usable, with a command to run.
    pub fn unavailable_remedy(&self, words: Words) -> Option<String> {
        let unavailable = self.unavailable_store()?;
        Some(unavailable.reason.cause.remedy(words, &unavailable.dir))
    }

    /// The reason that this store is used and no other, if the agent chose it by a location.
    pub fn store_choice(&self) -> Option<StoreChoice> {
        self.inner.choice
    }

    pub(crate) fn unavailable_store(&self) -> Option<&Unavailable> {
        self.inner.unavailable.as_ref()
    }

    /// Counts since this agent was made.
    pub fn counters(&self) -> AgentCounters {
        AgentCounters {
            loads: self.inner.loads.load(Ordering::Relaxed),
            private_loads: self.inner.private_loads.load(Ordering::Relaxed),
            brokered_files: self.inner.brokered_files.load(Ordering::Relaxed),
            private_bytes: self.inner.private_bytes.load(Ordering::Relaxed),
            shared_bytes: self.inner.shared_bytes.load(Ordering::Relaxed),
            new_bytes: self.inner.new_bytes.load(Ordering::Relaxed),
            other_file_bytes: self.inner.other_file_bytes.load(Ordering::Relaxed),
            unshared_files: self.inner.unshared_files.load(Ordering::Relaxed),
            unshared_bytes: self.inner.unshared_bytes.load(Ordering::Relaxed),
        }
    }

    /// Loads a model: a safetensors file, or a directory as Hugging Face lays it out.
    ///
    /// # Errors
    /// When the model's files are missing or invalid. Never because of the store: what it cannot
    /// hold, or what is not worth sharing, is loaded into private memory, and [`Model::report`] gives the reason.
    pub fn load(&self, path: impl AsRef<Path>) -> Result<Model, LoadError> {
        self.load_with(path, &LoadOptions::default())
    }

    /// As [`Agent::load`], with options.
    pub fn load_with(
        &self,
        path: impl AsRef<Path>,
        options: &LoadOptions,
    ) -> Result<Model, LoadError> {
        let begun = Instant::now();
        let layout = hub::resolve(path.as_ref())?;
        let context = self.load_context(options);
        let parts = layout
            .files
            .iter()
            .map(|file| context.load(file, ManifestKind::Safetensors))
            .collect::<Result<Vec<_>, _>>()?;
        let model = Model::new(parts, layout.weight_map.as_ref())?;
        Ok(self.loaded(model, begun))
    }

    /// As [`Agent::load_with`] for one safetensors file, for callers that map files by other means: a file that is too new to be
    /// shared, but not smaller than [`LoadOptions::min_shared_bytes`], is left to them. Nothing of it is read, and it counts as
    /// unshared.
    ///
    /// # Errors
    /// As [`Agent::load`].
    pub fn load_unless_new(
        &self,
        path: impl AsRef<Path>,
        options: &LoadOptions,
    ) -> Result<Option<Model>, LoadError> {
        let (begun, path) = (Instant::now(), path.as_ref());
        let source = Source::open(path)?;
        if let Some(NotWorthSharing::New(_)) = self.not_worth_sharing(&source, options) {
            self.count_unshared(1, source.identity().size);
            return Ok(None);
        }
        let again = || Source::open(path);
        let part =
            self.load_context(options)
                .load_source(source, ManifestKind::Safetensors, again)?;
        let model = Model::new(vec![part], None)?;
        Ok(Some(self.loaded(model, begun)))
    }

    /// The reason that sharing a safetensors file costs more than it saves; `None` when it is worth
    /// it, or there is no store.
    pub(crate) fn not_worth_sharing(
        &self,
        source: &Source,
        options: &LoadOptions,
    ) -> Option<NotWorthSharing> {
        self.store()?;
        NotWorthSharing::of(source, options)
    }

    /// Counts a load that began at `begun`.
    pub(crate) fn loaded(&self, mut model: Model, begun: Instant) -> Model {
        model.report_mut().duration = begun.elapsed();
        let path = model.manifests().next().map(|(path, _)| path.to_owned());
        self.count(
            model.report(),
            model.report().bytes_private,
            path.as_deref(),
        );
        model
    }

    /// Keeps a whole file of any format in the store, for programs that map it by path.
    ///
    /// Where the store cannot take it, [`SharedFile::path`] is the original file. Small files are kept as
    /// well: the caller wants the file in the store.
    pub fn share_file(
        &self,
        path: impl AsRef<Path>,
        options: &LoadOptions,
    ) -> Result<SharedFile, LoadError> {
        let begun = Instant::now();
        let mut part = self
            .load_context(options)
            .load(path.as_ref(), ManifestKind::File)?;
        part.report.duration = begun.elapsed();
        let object = part.backings.stored().next();
        let stored = self.store().zip(object);
        let path: Option<PathBuf> = stored.map(|(store, object)| store.object_path(&object));
        let private = if path.is_none() { part.size } else { 0 };
        self.count(&part.report, private, Some(&part.path));
        Ok(SharedFile::new(part, path))
    }

    /// The manifests of a model's files, without publishing anything: from the store for known
    /// files, by hashing otherwise.
    pub fn manifests(
        &self,
        path: impl AsRef<Path>,
        kind: ManifestKind,
        options: &LoadOptions,
    ) -> Result<Vec<(PathBuf, Manifest)>, LoadError> {
        let files = match kind {
            ManifestKind::Safetensors => hub::resolve(path.as_ref())?.files,
            ManifestKind::File => vec![path.as_ref().to_owned()],
        };
        let context = self.load_context(options);
        let manifest = |file: PathBuf| Ok((file.clone(), context.manifest(&file, kind, false)?));
        files.into_iter().map(manifest).collect()
    }

    /// Makes room for an object of `bytes` in a full store, or has the node daemon make it, as `options`
    /// allow. Returns true when publishing again may help.
    pub fn make_room(&self, bytes: u64, options: &LoadOptions) -> bool {
        self.load_context(options).make_room(bytes)
    }

    /// BLAKE3-256 of a whole file. A store remembers it: the file is read once, and its content is not
    /// published.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn file_id(&self, path: impl AsRef<Path>) -> Result<TensorId, LoadError> {
        let options = LoadOptions::default();
        let context = self.load_context(&options);
        let manifest = context.manifest(path.as_ref(), ManifestKind::File, true)?;
        let whole = manifest.objects.first();
        Ok(whole.map_or_else(|| TensorId::of(&[]), |whole| TensorId(whole.object.id.0)))
    }

    pub(crate) fn load_context<'a>(&'a self, options: &'a LoadOptions) -> LoadContext<'a> {
        let inner = &*self.inner;
        let unavailable = inner.unavailable.as_ref();
        LoadContext::new(
            self.store(),
            unavailable,
            options,
            &inner.patience,
            &inner.broker_patience,
            &inner.absence,
        )
    }

    /// The domain in which this process's derived tensors count, in a store that it can only read.
    /// The daemon is asked once.
    pub(crate) fn trust_domain(&self, store: &Store, timeout: Duration) -> Option<TrustDomain> {
        if let Some(known) = self.inner.domain.get() {
            return *known;
        }
        self.inner.absence.wait(store);
        let header = store.header_descriptor();
        match DaemonClient::of_store(store, timeout).trust_domain(header) {
            Ok(domain) => *self.inner.domain.get_or_init(|| domain),
            Err(error) if error.is_absent() => *self.inner.domain.get_or_init(|| None),
            Err(error) => {
                tracing::debug!(
                    %error,
                    "the node's daemon did not say this process's trust domain"
                );
                self.inner.broker_patience.lose(Instant::now());
                None
            }
        }
    }

    pub(crate) fn count_unshared(&self, files: u64, bytes: u64) {
        let inner = &self.inner;
        inner.unshared_files.fetch_add(files, Ordering::Relaxed);
        inner.unshared_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a load of the model at `path`, and logs the first that shares, and the first that does not.
    pub(crate) fn count(&self, report: &LoadReport, private_bytes: u64, path: Option<&Path>) {
        let inner = &self.inner;
        let model = path.unwrap_or(Path::new("")).display();
        let shared = report.bytes_shared + report.bytes_new;
        inner
            .shared_bytes
            .fetch_add(report.bytes_shared, Ordering::Relaxed);
        inner
            .new_bytes
            .fetch_add(report.bytes_new, Ordering::Relaxed);
        inner
            .other_file_bytes
            .fetch_add(report.bytes_of_other_files, Ordering::Relaxed);
        if let Some(store) = self.store()
            && shared > 0
            && !SHARING.swap(true, Ordering::Relaxed)
        {
            let because = inner.choice.unwrap_or(StoreChoice::Named).to_string();
            tracing::info!(
                store = %store.root().display(),
                because,
                %model,
                shared_bytes = report.bytes_shared,
                new_bytes = report.bytes_new,
                "models are shared through the tensor store"
            );
        }
        let files = |way| report.recognized.iter().filter(|how| **how == way).count() as u64;
        inner
            .brokered_files
            .fetch_add(files(Recognized::Brokered), Ordering::Relaxed);
        self.count_unshared(files(Recognized::Unshared), report.bytes_unshared);
        inner.loads.fetch_add(1, Ordering::Relaxed);
        if private_bytes == 0 {
            return;
        }
        inner
            .private_bytes
            .fetch_add(private_bytes, Ordering::Relaxed);
        let before = inner.private_loads.fetch_add(1, Ordering::Relaxed);
        if before == 0 && inner.store.is_some() {
            let reason = report.private_reason.as_deref().unwrap_or("unknown");
            let remedy = report.remedy(Words::of_process());
            tracing::warn!(
                %model,
                private_bytes,
                cause = report.private_cause.map(PrivateCause::code),
                reason,
                remedy,
                "the tensor store could not hold a model"
            );
        }
    }
}
