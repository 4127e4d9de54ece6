//! GPUs of nodes: their types, the needs of instances, and the room on a device.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tetris_store_layout::ObjectId;

use crate::error::FieldError;
use crate::inventory::{ModelTensors, Similarity};
use crate::limits::MAX_MEMORY_BYTES;

/// Maximum length of the name of a GPU's type, in bytes.
pub const MAX_GPU_TYPE: usize = 63;
/// Maximum number of GPUs of one node.
pub const MAX_GPUS: usize = 64;
/// Time of a whole GPU, in thousandths.
pub const WHOLE_GPU_PERMILLE: u32 = 1_000;

/// Name of a GPU's type: the product's name as the driver reports it, such as
/// `NVIDIA A100-SXM4-80GB`. The text lies inline, so configurations stay plain values.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GpuType {
    length: u8,
    /// Zero beyond the length.
    bytes: [u8; MAX_GPU_TYPE],
}

/// The reason a text is no name of a GPU's type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("found {found:?}, expected 1 to {MAX_GPU_TYPE} printable ASCII characters")]
pub struct GpuTypeError {
    /// The text, cut after 80 characters.
    pub found: String,
}

impl GpuType {
    /// The name.
    pub fn as_str(&self) -> &str {
        let text = self.bytes.get(..self.length.into()).unwrap_or_default();
        // It was made of a string.
        std::str::from_utf8(text).unwrap_or_default()
    }

    /// Form of the name in names of configurations: letters and digits in lower case, joined by
    /// single hyphens. `NVIDIA A100-SXM4-80GB` is `nvidia-a100-sxm4-80gb`.
    pub fn slug(&self) -> String {
        let words = self
            .as_str()
            .split(|one: char| !one.is_ascii_alphanumeric());
        let words = words.filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join("-").to_ascii_lowercase()
    }
}

impl FromStr for GpuType {
    type Err = GpuTypeError;

    fn from_str(text: &str) -> Result<Self, GpuTypeError> {
        let is_printable = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
        let mut bytes = [0; MAX_GPU_TYPE];
        let length = u8::try_from(text.len()).ok();
        let place = bytes.get_mut(..text.len());
        match (length, place) {
            (Some(length @ 1..), Some(place)) if text.bytes().all(is_printable) => {
                place.copy_from_slice(text.as_bytes());
                Ok(Self { length, bytes })
            }
            _ => Err(GpuTypeError {
                found: text.chars().take(80).collect(),
            }),
        }
    }
}

impl TryFrom<String> for GpuType {
    type Error = GpuTypeError;

    fn try_from(text: String) -> Result<Self, GpuTypeError> {
        text.parse()
    }
}

impl From<GpuType> for String {
    fn from(kind: GpuType) -> Self {
        kind.as_str().to_owned()
    }
}

impl fmt::Display for GpuType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for GpuType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Needs of an instance on one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuNeeds {
    /// Type of the GPU.
    pub kind: GpuType,
    /// Private device memory of an instance, in bytes: context, activations, caches. The tensors
    /// are apart, as the instances on a GPU share them.
    pub own_bytes: u64,
    /// Part of the GPU's time that an instance takes at its full rate, in thousandths.
    pub share_permille: u32,
}

impl GpuNeeds {
    /// Checks the ranges: at most 1 PiB, and from 1 to 1,000 thousandths.
    ///
    /// # Errors
    ///
    /// The first field out of range.
    pub(crate) fn check(&self) -> Result<(), FieldError> {
        FieldError::check("gpu.own_bytes", self.own_bytes, 0, MAX_MEMORY_BYTES)?;
        let (share, whole) = (self.share_permille.into(), WHOLE_GPU_PERMILLE.into());
        FieldError::check("gpu.share_permille", share, 1, whole).map(|_| ())
    }
}

/// A GPU of a node, as observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuView {
    /// UUID of the device, as the driver writes it.
    pub uuid: String,
    /// Type of the device.
    pub kind: GpuType,
    /// Room of the node's GPU mirror for the tensors of these functions, in bytes, as if none of
    /// their instances ran. Tensors that no one holds leave when others need the room, so they do
    /// not count.
    pub tensor_bytes: u64,
    /// Room for private memory of instances, in bytes, as if none of these functions' ran.
    pub own_bytes: u64,
    /// Objects in device memory.
    pub resident: Arc<BTreeSet<ObjectId>>,
}

/// Amounts that a GPU lacks for one more instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuShortage {
    /// Device memory in bytes, private and of tensors.
    pub bytes: u64,
    /// Time of the GPU, in thousandths.
    pub share_permille: u32,
}

impl GpuShortage {
    pub(crate) fn is_none(self) -> bool {
        self == Self::default()
    }
}

/// Room of a GPU beside the instances that it has.
///
/// A tensor takes room once, when the first instance with it comes. It costs a copy only if it is
/// not in device memory yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuRoom {
    /// Type of the device.
    pub kind: GpuType,
    /// Room for tensors that no instance there has, in bytes.
    pub tensor_bytes: u64,
    /// Room for private memory, in bytes.
    pub own_bytes: u64,
    /// Free time of the GPU, in thousandths.
    pub share_permille: u32,
    resident: Arc<BTreeSet<ObjectId>>,
    held: BTreeSet<ObjectId>,
}

impl GpuRoom {
    /// Room of a GPU without instances of these functions.
    pub fn of(view: &GpuView) -> Self {
        Self {
            kind: view.kind,
            tensor_bytes: view.tensor_bytes,
            own_bytes: view.own_bytes,
            share_permille: WHOLE_GPU_PERMILLE,
            resident: Arc::clone(&view.resident),
            held: BTreeSet::new(),
        }
    }

    /// Returns the room that an object of `bytes` takes, and the bytes that must be copied.
    pub(crate) fn of_object(&self, (id, bytes): (ObjectId, u64)) -> (u64, u64) {
        match (self.held.contains(&id), self.resident.contains(&id)) {
            (true, _) => (0, 0),
            (false, true) => (bytes, 0),
            (false, false) => (bytes, bytes),
        }
    }

    /// Returns the same for all tensors of a model.
    pub fn of_tensors(&self, tensors: &ModelTensors) -> (u64, u64) {
        let objects = tensors.objects().iter();
        // The sum is a part of the model's total, which fits.
        objects.fold((0, 0), |(room, copied), &object| {
            let (takes, copies) = self.of_object(object);
            (room.saturating_add(takes), copied.saturating_add(copies))
        })
    }

    /// Returns the share of a model's bytes that is in device memory.
    pub fn similarity(&self, tensors: &ModelTensors) -> Similarity {
        let (_, copied) = self.of_tensors(tensors);
        let total_bytes = tensors.total_bytes();
        Similarity {
            resident_bytes: total_bytes.saturating_sub(copied),
            total_bytes,
        }
    }

    /// Returns the shortage for an instance with these needs whose tensors take `room` bytes.
    pub fn lacks(&self, needs: &GpuNeeds, room: u64) -> GpuShortage {
        let own_bytes = needs.own_bytes.saturating_sub(self.own_bytes);
        let tensors = room.saturating_sub(self.tensor_bytes);
        GpuShortage {
            bytes: own_bytes.saturating_add(tensors),
            share_permille: needs.share_permille.saturating_sub(self.share_permille),
        }
    }

    /// Takes an instance. What it lacks is taken down to zero: a running instance is there in any
    /// case.
    pub fn take(&mut self, needs: &GpuNeeds, tensors: &ModelTensors) {
        let (room, _) = self.of_tensors(tensors);
        self.tensor_bytes = self.tensor_bytes.saturating_sub(room);
        self.own_bytes = self.own_bytes.saturating_sub(needs.own_bytes);
        self.share_permille = self.share_permille.saturating_sub(needs.share_permille);
        let ids = tensors.objects().iter().map(|(id, _)| *id);
        self.held.extend(ids);
    }
}

/// Returns the GPU of this type that must copy least, and among equals the one with most time and
/// memory left; `None` if none has room.
pub fn best_gpu(gpus: &[GpuRoom], needs: &GpuNeeds, tensors: &ModelTensors) -> Option<usize> {
    let of_type = gpus.iter().enumerate();
    let of_type = of_type.filter(|(_, gpu)| gpu.kind == needs.kind);
    let fitting = of_type.filter_map(|(at, gpu)| {
        let (room, copied) = gpu.of_tensors(tensors);
        let left = (gpu.share_permille, gpu.own_bytes);
        let fits = gpu.lacks(needs, room).is_none();
        fits.then_some((copied, std::cmp::Reverse(left), at))
    });
    fitting.min().map(|(_, _, at)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str) -> GpuType {
        name.parse().unwrap()
    }

    fn room(resident: &[&[u8]]) -> GpuRoom {
        let resident = resident.iter().map(|name| ObjectId::of(name)).collect();
        GpuRoom::of(&GpuView {
            uuid: "GPU-0".to_owned(),
            kind: kind("T4"),
            tensor_bytes: 100,
            own_bytes: 50,
            resident: Arc::new(resident),
        })
    }

    fn tensors(all: &[(&[u8], u64)]) -> ModelTensors {
        let objects = all.iter().map(|(name, bytes)| (ObjectId::of(name), *bytes));
        ModelTensors::try_new(objects).unwrap()
    }

    fn needs(own_bytes: u64, share_permille: u32) -> GpuNeeds {
        GpuNeeds {
            kind: kind("T4"),
            own_bytes,
            share_permille,
        }
    }

    #[test]
    fn names_of_types_are_bounded_texts() {
        let a100 = kind("NVIDIA A100-SXM4-80GB");
        assert_eq!(a100.slug(), "nvidia-a100-sxm4-80gb");
        assert_eq!(a100.to_string(), "NVIDIA A100-SXM4-80GB");
        let json = serde_json::to_string(&a100).unwrap();
        assert_eq!(serde_json::from_str::<GpuType>(&json).unwrap(), a100);
        for bad in ["", "a\nb", "é", &"x".repeat(64), &"x".repeat(300)] {
            assert!(bad.parse::<GpuType>().is_err(), "{bad}");
        }
        assert_eq!(kind(&"x".repeat(63)).as_str().len(), 63);
    }

    #[test]
    fn a_tensor_takes_room_once_and_costs_a_copy_where_it_is_not() {
        let mut gpu = room(&[b"a"]);
        let first = tensors(&[(b"a", 30), (b"b", 40)]);
        assert_eq!(gpu.of_tensors(&first), (70, 40));
        gpu.take(&needs(10, 400), &first);
        assert_eq!(
            (gpu.tensor_bytes, gpu.own_bytes, gpu.share_permille),
            (30, 40, 600)
        );
        let variant = tensors(&[(b"b", 40), (b"c", 31)]);
        assert_eq!(gpu.of_tensors(&variant), (31, 31));
        assert_eq!(
            gpu.lacks(&needs(41, 601), 31),
            GpuShortage {
                bytes: 2,
                share_permille: 1
            }
        );
        assert!(gpu.lacks(&needs(40, 600), 0).is_none());
    }

    #[test]
    fn the_gpu_with_most_of_the_tensors_comes_first_if_it_has_room() {
        let model = tensors(&[(b"a", 30), (b"b", 40)]);
        let gpus = [room(&[]), room(&[b"a", b"b"]), room(&[b"a"])];
        assert_eq!(best_gpu(&gpus, &needs(1, 1), &model), Some(1));
        let mut full = gpus.clone();
        full[1].own_bytes = 0;
        assert_eq!(best_gpu(&full, &needs(1, 1), &model), Some(2));
        let other = GpuNeeds {
            kind: kind("A100"),
            ..needs(1, 1)
        };
        assert_eq!(best_gpu(&gpus, &other, &model), None);
    }
}
