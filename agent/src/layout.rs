//! Layouts: tensors that an engine makes of a model, made by one process of the node and mapped by all (LAYOUT.md 3.7).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tetris_loader::PrivateCause;
use tetris_store_layout::{
    Access, CreationLock, DecodeError, DerivedKey, DerivedRecord, Dtype, Layout, LayoutKey,
    LayoutPlace, LayoutTensor, MAX_LAYOUT_LEN, ObjectId, ObjectRef, PublishOutcome, Store,
    TensorId,
};

use crate::agent::Agent;
use crate::daemon::{BuildTurn, DaemonClient};
use crate::detached::Region;
use crate::error::ShareError;
use crate::load::LoadContext;
use crate::options::LoadOptions;
use crate::origin::Origin;
use crate::private_reason::PrivateReason;
use crate::read_at::of_bytes;

/// Time between two questions for a turn.
const PAUSE: Duration = Duration::from_millis(100);

/// Most questions for a turn that may fail.
const MAX_FAILURES: u32 = 10;

/// A tensor of a layout, over the memory that holds it.
#[derive(Debug, Clone)]
pub struct PlacedTensor {
    /// The tensor's name, once in a layout.
    pub name: String,
    /// Type of the elements.
    pub dtype: Dtype,
    /// Dimensions, outermost first; empty for a scalar.
    pub shape: Vec<u64>,
    /// Distance of neighbors in each dimension, in elements.
    pub strides: Vec<u64>,
    /// The memory; `None` for a tensor without elements.
    pub region: Option<Arc<Region>>,
    /// Offset of the first element in that memory, in bytes.
    pub offset: u64,
    /// Index of the earlier tensor whose memory this one uses: a change of one shows in both.
    pub alias: Option<u32>,
}

/// Tensors and small attributes: what a build makes, and what a process attaches.
#[derive(Debug, Clone, Default)]
pub struct LayoutParts {
    /// The tensors, in the engine's order.
    pub tensors: Vec<PlacedTensor>,
    /// Small values that the engine keeps beside tensors.
    pub attributes: BTreeMap<String, Vec<u8>>,
}

/// A layout in memory. Dropping it drops the references.
#[derive(Debug)]
pub struct AttachedLayout {
    parts: LayoutParts,
    origin: Origin,
    private: Option<PrivateReason>,
    /// The reference to the table, without which the layout's record would go.
    _table: Option<Arc<Region>>,
}

impl AttachedLayout {
    /// The tensors and attributes.
    pub fn parts(&self) -> &LayoutParts {
        &self.parts
    }

    /// [`Origin::Shared`] if it was found, [`Origin::New`] if this process made and recorded it, [`Origin::Private`] if others
    /// cannot find it.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The reason that others cannot find it, if they cannot.
    pub fn private_reason(&self) -> Option<&str> {
        Some(&self.private.as_ref()?.text)
    }

    /// The cause of that reason.
    pub fn private_cause(&self) -> Option<PrivateCause> {
        Some(self.private.as_ref()?.cause)
    }

    fn private(parts: LayoutParts, reason: PrivateReason) -> Self {
        Self {
            parts,
            origin: Origin::Private,
            private: Some(reason),
            _table: None,
        }
    }
}

impl Agent {
    /// The layout of `key`: attached if any process of the node made it before, and made by `build` otherwise.
    ///
    /// `build` publishes each piece of memory ([`Agent::publish`]), or takes it from a load, and returns which tensors lie in it.
    /// It runs at most once. Processes that ask at once wait for the first, up to [`LoadOptions::wait`]; when that one dies or
    /// hangs, they build themselves. If objects of a recorded layout are gone, it is built anew.
    ///
    /// A process that can only read the store has the node's daemon record the layout. Only its trust domain finds it.
    ///
    /// # Errors
    /// What `build` returns; and a key that the store cannot record. A layout that the store cannot hold as a whole is returned
    /// as it was built, and [`AttachedLayout::private_reason`] is the reason no one else finds it.
    pub fn layout<E>(
        &self,
        key: &LayoutKey,
        options: &LoadOptions,
        build: impl FnOnce() -> Result<LayoutParts, E>,
    ) -> Result<Result<AttachedLayout, E>, DecodeError> {
        let sources = key.sources();
        let key = key.derived_key()?;
        let Some(store) = self.store() else {
            let reason = PrivateReason::without_store(self.unavailable_store());
            return Ok(build().map(|parts| AttachedLayout::private(parts, reason)));
        };
        if let Some(found) = attached(store, &key, options.access) {
            return Ok(Ok(found));
        }
        let context = self.load_context(options);
        let key = self.key_of_claim(&context, store, key);
        // Others wait for as long as this lives.
        let _turn = match &key {
            Claim::Own(key) | Claim::Brokered(key) => match take_turn(store, key, options) {
                Ok(turn) => turn,
                Err(found) => return Ok(Ok(*found)),
            },
            Claim::None(_) => None,
        };
        Ok(build().map(|parts| self.recorded(&context, store, key, sources, parts)))
    }

    /// The key under which this process's word counts.
    fn key_of_claim(&self, context: &LoadContext<'_>, store: &Store, key: DerivedKey) -> Claim {
        if store.is_writable() {
            return Claim::Own(key);
        }
        if !context.asks_broker(store) {
            return Claim::None(context.unpublished());
        }
        let domain = self.trust_domain(store, context.options().broker_timeout);
        domain.map_or_else(
            || {
                let text = "this process has no trust domain, so nobody would take its word for a layout (LAYOUT.md 4)";
                Claim::None(PrivateReason::new(PrivateCause::Failed, text))
            },
            |domain| Claim::Brokered(key.in_domain(domain)),
        )
    }

    /// Publishes the table of what was built, and records it.
    fn recorded(
        &self,
        context: &LoadContext<'_>,
        store: &Store,
        claim: Claim,
        sources: BTreeSet<TensorId>,
        parts: LayoutParts,
    ) -> AttachedLayout {
        let made = move |parts: &LayoutParts| -> Result<Arc<Region>, PrivateReason> {
            let bytes = table(sources, parts)?;
            let options = context.options();
            let region = self.publish(bytes.len() as u64, &of_bytes(&bytes), options);
            let region = region.map_err(|error| reason_of(error, store))?;
            let object = *region.object().ok_or_else(no_object)?;
            match &claim {
                Claim::Own(key) => {
                    let recorded = store.record_derived(key, object);
                    recorded.map_err(|error| PrivateReason::of_publish(&error, store))?;
                }
                Claim::Brokered(key) => {
                    let daemon = DaemonClient::of_store(store, options.broker_timeout);
                    let recorded = daemon.record_derived(store.header_descriptor(), key, object);
                    recorded.map_err(|error| {
                        PrivateReason::new(PrivateCause::Failed, error.to_string())
                    })?;
                }
                Claim::None(reason) => return Err(reason.clone()),
            }
            Ok(region)
        };
        match made(&parts) {
            Ok(table) => AttachedLayout {
                parts,
                origin: Origin::New,
                private: None,
                _table: Some(table),
            },
            Err(reason) => AttachedLayout::private(parts, reason),
        }
    }
}

/// The way in which this process records layouts.
enum Claim {
    /// It writes the store.
    Own(DerivedKey),
    /// The daemon does, in the key's trust domain.
    Brokered(DerivedKey),
    /// No one would take its word.
    None(PrivateReason),
}

/// The right to build while others wait. Dropping it ends that.
enum Turn {
    Lock { _held: CreationLock },
    Daemon { _held: BuildTurn },
}

/// Waits for this process's turn to build, or until another process has built. Without a turn in time, it builds all the same.
///
/// # Errors
/// The layout, if there is one meanwhile.
fn take_turn(
    store: &Store,
    key: &DerivedKey,
    options: &LoadOptions,
) -> Result<Option<Turn>, Box<AttachedLayout>> {
    let built = |turn| match attached(store, key, options.access) {
        Some(found) => Err(Box::new(found)),
        None => Ok(turn),
    };
    if store.is_writable() {
        let lock = store.creation_lock(&key.id().0, options.wait, || false);
        return built(lock.map(|held| Turn::Lock { _held: held }));
    }
    let daemon = DaemonClient::of_store(store, options.broker_timeout);
    let deadline = Instant::now() + options.wait;
    let mut failures = 0;
    loop {
        // Of the process's own domain, in which nothing was looked for yet.
        built(None)?;
        match daemon.take_turn(store.header_descriptor(), key) {
            Ok(Some(held)) => return built(Some(Turn::Daemon { _held: held })),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(PAUSE),
            Ok(None) => return Ok(None),
            // The connections of many processes that ask at once are too many for a moment.
            Err(_) if failures < MAX_FAILURES => {
                failures += 1;
                std::thread::sleep(PAUSE);
            }
            Err(error) => {
                tracing::debug!(%error, "no turn to build a layout; it is built without");
                return Ok(None);
            }
        }
    }
}

fn no_object() -> PrivateReason {
    PrivateReason::new(
        PrivateCause::Failed,
        "the table of the layout has no object",
    )
}

fn reason_of(error: ShareError, store: &Store) -> PrivateReason {
    match error {
        ShareError::Publish(error) => PrivateReason::of_publish(&error, store),
        ShareError::Private { cause, reason } => PrivateReason::new(cause, reason),
        other => PrivateReason::new(PrivateCause::Failed, other.to_string()),
    }
}

/// The bytes of the table of what was built.
fn table(sources: BTreeSet<TensorId>, parts: &LayoutParts) -> Result<Vec<u8>, PrivateReason> {
    let invalid = |text: String| PrivateReason::new(PrivateCause::Failed, text);
    let mut layout = Layout {
        sources,
        attributes: parts.attributes.clone(),
        ..Layout::default()
    };
    let mut places: HashMap<ObjectId, u32> = HashMap::new();
    for tensor in &parts.tensors {
        let place = match &tensor.region {
            None => None,
            Some(region) => {
                let private = || {
                    invalid(format!(
                        "tensor `{}` is in private memory",
                        tensor.name.escape_debug()
                    ))
                };
                let object: ObjectRef = *region.object().ok_or_else(private)?;
                let next = layout.objects.len() as u32;
                let index = *places.entry(object.id).or_insert(next);
                if index == next {
                    layout.objects.push(object);
                }
                Some(LayoutPlace {
                    object: index,
                    offset: tensor.offset,
                })
            }
        };
        layout.tensors.push(LayoutTensor {
            name: tensor.name.clone(),
            dtype: tensor.dtype,
            shape: tensor.shape.clone(),
            strides: tensor.strides.clone(),
            place,
            alias: tensor.alias,
        });
    }
    layout
        .check()
        .map_err(|error| invalid(format!("the layout cannot be recorded: {error}")))?;
    let bytes = layout.encode();
    if bytes.len() as u64 > MAX_LAYOUT_LEN {
        let len = bytes.len();
        let text =
            format!("the layout's table has {len} bytes, at most {MAX_LAYOUT_LEN} are recorded");
        return Err(invalid(text));
    }
    Ok(bytes)
}

/// The layout that `key` records, with all its objects mapped; `None` if one is gone, or it is damaged.
fn attached(store: &Store, key: &DerivedKey, access: Access) -> Option<AttachedLayout> {
    let record = DerivedRecord {
        object: store.derived(key, Access::ReadOnly).ok()??.object,
        key: key.clone(),
    };
    let table = store.map(&record.object, Access::ReadOnly).ok()??;
    let layout = match store.layout(&record.object) {
        Ok(layout) => layout?,
        Err(error) => {
            let object = record.object.file_name();
            tracing::warn!(object, %error, "a recorded layout is not valid; it is built anew");
            return None;
        }
    };
    let mut regions = Regions::new(store, &layout.objects, access);
    let mut tensors: Vec<PlacedTensor> = Vec::with_capacity(layout.tensors.len());
    for tensor in layout.tensors {
        let region = match (tensor.place, tensor.alias) {
            (None, _) => None,
            (Some(_), Some(alias)) => tensors.get(alias as usize)?.region.clone(),
            (Some(place), None) => Some(regions.take(place, tensor.extent()?)?),
        };
        tensors.push(PlacedTensor {
            name: tensor.name,
            dtype: tensor.dtype,
            shape: tensor.shape,
            strides: tensor.strides,
            region,
            offset: tensor.place.map_or(0, |place| place.offset),
            alias: tensor.alias,
        });
    }
    let table = Region::of_mapping(table, record.object, PublishOutcome::Existing);
    Some(AttachedLayout {
        parts: LayoutParts {
            tensors,
            attributes: layout.attributes,
        },
        origin: Origin::Shared,
        private: None,
        _table: Some(Arc::new(table)),
    })
}

/// Mappings of a layout's objects. Tensors that are no aliases get separate memory, even if their bytes are the same:
/// a write to one must not show in the other.
struct Regions<'a> {
    store: &'a Store,
    access: Access,
    objects: &'a [ObjectRef],
    /// The last mapping of each object, with the ranges that tensors use.
    last: Vec<Option<(Arc<Region>, Taken)>>,
    mapped: usize,
}

/// Ranges of bytes: ends by begins.
type Taken = BTreeMap<u64, u64>;

/// Most mappings of one layout: a process has 65,530 by default (`vm.max_map_count`).
const MAX_MAPPINGS: usize = 60_000;

impl<'a> Regions<'a> {
    fn new(store: &'a Store, objects: &'a [ObjectRef], access: Access) -> Self {
        Self {
            store,
            access,
            objects,
            last: objects.iter().map(|_| None).collect(),
            mapped: 0,
        }
    }

    /// The mapping for `len` bytes at `place`; `None` if the object is gone.
    fn take(&mut self, place: LayoutPlace, len: u64) -> Option<Arc<Region>> {
        let slot = self.last.get_mut(place.object as usize)?;
        let (begin, end) = (place.offset, place.offset.saturating_add(len));
        if let Some((region, taken)) = slot {
            let before = taken.range(..end).next_back();
            if before.is_none_or(|(_, other)| *other <= begin) {
                taken.insert(begin, end);
                return Some(Arc::clone(region));
            }
        }
        self.mapped += 1;
        if self.mapped > MAX_MAPPINGS {
            return None;
        }
        let object = self.objects.get(place.object as usize)?;
        let mapping = self.store.map(object, self.access).ok()??;
        let region = Arc::new(Region::of_mapping(
            mapping,
            *object,
            PublishOutcome::Existing,
        ));
        *slot = Some((Arc::clone(&region), Taken::from([(begin, end)])));
        Some(region)
    }
}
