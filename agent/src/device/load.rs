//! Loads into device memory: of a file, and of memory that is in the store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tetris_gpu_client::{ClientError, Wanted};
use tetris_gpu_protocol::MAX_MODEL_OBJECTS;
use tetris_store_layout::{Dtype, ObjectRef, TensorId};

use super::held::Held;
use super::lease::Lease;
use super::named::NamedModel;
use super::open::{acquire, connect};
use super::registry::Key;
use super::{
    DeviceError, DeviceModel, DeviceOptions, DeviceTensor, Location, Registry, Target, socket,
    split, watch,
};
use crate::Agent;
use crate::detached::{DetachedTensor, Region};
use crate::known_model::{KnownModel, StoredTensor};
use crate::report::LoadReport;

/// Maximum number of objects that one connection requests.
pub(super) const MOST: usize = MAX_MODEL_OBJECTS as usize;

impl Registry {
    /// Maps a model in device memory: a safetensors file, or a directory in the layout of Hugging
    /// Face. Returns when the tensors' addresses are known, while memory may still be mapped, and bytes arrive.
    ///
    /// A model of more than 16,384 objects takes several connections, and holds all of them or
    /// none.
    ///
    /// # Errors
    /// [`DeviceError`] with the reason it is not in device memory. The process then holds nothing.
    pub fn load(
        &self,
        agent: &Agent,
        path: impl AsRef<Path>,
        options: &DeviceOptions,
    ) -> Result<DeviceModel, DeviceError> {
        self.load_in_parts(agent, path.as_ref(), options, MOST)
    }

    pub(super) fn load_in_parts(
        &self,
        agent: &Agent,
        path: &Path,
        options: &DeviceOptions,
        most: usize,
    ) -> Result<DeviceModel, DeviceError> {
        // The mirror takes objects, of however small a file.
        let through_store = options.host.clone().with_min_shared_bytes(0);
        // The mirror has a known model, or copies it, without a mapping of its objects here.
        if let Some(known) = agent.known_model(path, &through_store)
            && let Some(lease) = known.while_compared(agent, &through_store, || {
                self.known_lease(agent, options, &known, most)
            })
            && let Some(lease) = lease?
        {
            agent.count(&known.report, 0, Some(path));
            return Ok(model(known.tensors, known.metadata, known.report, lease));
        }
        // Checks for a mirror before anything is read. The load into the store may take long, and
        // the mirror does not keep an idle connection.
        let socket = mirror(agent, options)?;
        let host = agent.load_with(path, &through_store)?;
        let to_owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        let metadata = host.metadata().map(to_owned).collect();
        let (host, report) = host.detach();
        let tensors: Vec<_> = host.iter().map(StoredTensor::from).collect();
        let lease = self.lease(socket, options, &tensors, host, &report, most)?;
        Ok(model(tensors, metadata, report, lease))
    }

    /// A lease of a known model; `None` if objects of it are not in the store any more.
    fn known_lease(
        &self,
        agent: &Agent,
        options: &DeviceOptions,
        known: &KnownModel,
        most: usize,
    ) -> Result<Option<Arc<Lease>>, DeviceError> {
        let (tensors, report) = (&known.tensors, &known.report);
        match self.lease(socket(agent)?, options, tensors, Vec::new(), report, most) {
            Ok(lease) => Ok(Some(lease)),
            Err(error) if error.is_for_missing_objects() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Maps memory of the store in device memory: the objects of a layout, derived tensors or
    /// published bytes. The tensors of the result are the bytes of `regions`, in this order, each
    /// named after its object. Memory of the same object has the same address on the device.
    ///
    /// # Errors
    /// [`DeviceError`] with the reason it is not in device memory; [`DeviceError::Private`] if some
    /// of it is not in the store. The process then holds nothing.
    pub fn load_regions(
        &self,
        agent: &Agent,
        regions: &[Arc<Region>],
        options: &DeviceOptions,
    ) -> Result<DeviceModel, DeviceError> {
        let socket = mirror(agent, options)?;
        let host: Vec<_> = regions.iter().map(bytes_of).collect();
        let tensors: Vec<_> = host.iter().map(StoredTensor::from).collect();
        let report = LoadReport {
            private_reason: Some("some of the bytes were never published".to_owned()),
            ..LoadReport::default()
        };
        let lease = self.lease(socket, options, &tensors, host, &report, MOST)?;
        Ok(model(tensors, Vec::new(), LoadReport::default(), lease))
    }

    /// A lease of the tensors' objects: one that this process has, or a new one. It keeps `host` until all
    /// of them have arrived.
    fn lease(
        &self,
        socket: PathBuf,
        options: &DeviceOptions,
        tensors: &[StoredTensor],
        host: Vec<DetachedTensor>,
        report: &LoadReport,
        most: usize,
    ) -> Result<Arc<Lease>, DeviceError> {
        let objects = split::objects(tensors, report)?;
        self.name(&NamedModel::new(&objects, most)?);
        let key = Key::new(&socket, &objects);
        if let Some(known) = self.find(&key, options.target, options.keep) {
            return Ok(known);
        }
        let asked = Asked {
            socket,
            options,
            objects: &objects,
        };
        let wanted = split::wanted(&objects, tensors, &options.order, options.wait, most);
        let lease = asked.lease(&wanted, host)?;
        Ok(self.enter(key, lease, options.keep))
    }
}

/// The socket of a mirror that serves the requested device.
fn mirror(agent: &Agent, options: &DeviceOptions) -> Result<PathBuf, DeviceError> {
    let socket = socket(agent)?;
    drop(connect(&socket, options.target, options.timeout)?);
    options.check_wanted()?;
    Ok(socket)
}

/// The whole memory of a region, as a tensor of bytes.
fn bytes_of(region: &Arc<Region>) -> DetachedTensor {
    let object = region.object();
    DetachedTensor {
        name: object.map(ObjectRef::file_name).unwrap_or_default(),
        dtype: Dtype::U8,
        shape: vec![region.len() as u64],
        id: object.map(|object| TensorId(object.id.0)),
        origin: region.origin(),
        len: region.len(),
        offset: 0,
        region: (!region.is_empty()).then(|| Arc::clone(region)),
    }
}

/// Tensors at the addresses of their objects.
fn model(
    tensors: Vec<StoredTensor>,
    metadata: Vec<(String, String)>,
    report: LoadReport,
    lease: Arc<Lease>,
) -> DeviceModel {
    let tensors = tensors.into_iter();
    let tensors = tensors.map(|tensor| DeviceTensor::new(tensor, Arc::clone(&lease)));
    DeviceModel::new(tensors.collect(), metadata, report, lease)
}

/// A request for a model.
struct Asked<'a> {
    socket: PathBuf,
    options: &'a DeviceOptions,
    objects: &'a [ObjectRef],
}

impl Asked<'_> {
    /// Acquires all parts, or none.
    fn lease(
        &self,
        wanted: &[Wanted],
        host: Vec<DetachedTensor>,
    ) -> Result<Arc<Lease>, DeviceError> {
        let mut location = match self.options.target {
            Target::Simulated => Location::Simulated,
            Target::Cuda(number) => Location::Cuda(number),
            Target::AnyCuda => Location::Cuda(0),
        };
        let mut parts: Vec<Box<dyn Held>> = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            // All parts go to the device of the first one.
            let first = parts.is_empty();
            let target = if first {
                self.options.target
            } else {
                location.into()
            };
            let (part, on) = self.part(wanted, target)?;
            parts.push(part);
            location = on;
        }
        let lease = Arc::new(Lease::new(parts, location, self.objects, host)?);
        watch::watch(&lease)?;
        Ok(lease)
    }

    fn part(
        &self,
        wanted: &Wanted,
        target: Target,
    ) -> Result<(Box<dyn Held>, Location), DeviceError> {
        let options = self.options;
        let (client, kind) = connect(&self.socket, target, options.timeout)?;
        options.check_wanted()?;
        let hang_up = client.hang_up()?;
        let cancelled = &options.cancelled;
        let mut waiting = |_| {
            if cancelled.load(Ordering::Relaxed) {
                hang_up.now();
            }
        };
        let part = acquire(client, kind, target, wanted, &mut waiting);
        match part {
            Err(DeviceError::Mirror(ClientError::Closed | ClientError::Io(_))) => {
                options.check_wanted()?;
                part
            }
            part => part,
        }
    }
}
