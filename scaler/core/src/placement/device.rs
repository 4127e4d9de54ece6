//! GPUs of a placement under construction.

use std::collections::BTreeMap;

use super::atoms::OnGpu;
use super::instance::{ChosenGpu, ProblemInstance, Slot};
use super::room::share;
use super::shortage::Shortage;
use crate::gpu::GpuRoom;
use crate::numbered::Numbered as _;

/// A GPU with the instances that the placement puts there.
#[derive(Clone, Debug)]
struct Device {
    tensor_bytes: u64,
    own_bytes: u64,
    share_permille: u32,
    /// Number of instances by model.
    hosted: BTreeMap<usize, u32>,
    /// Number of models that have an atom, by atom. Empty for a device that never had an instance.
    uses: Vec<u32>,
}

impl From<&GpuRoom> for Device {
    fn from(room: &GpuRoom) -> Self {
        Self {
            tensor_bytes: room.tensor_bytes,
            own_bytes: room.own_bytes,
            share_permille: room.share_permille,
            hosted: BTreeMap::new(),
            uses: Vec::new(),
        }
    }
}

/// The GPUs of all nodes, by node and index.
#[derive(Clone, Debug)]
pub(super) struct Devices<'a> {
    instance: &'a ProblemInstance<'a>,
    all: Vec<Vec<Device>>,
}

impl<'a> Devices<'a> {
    pub(super) fn new(instance: &'a ProblemInstance<'a>) -> Self {
        let nodes = instance.problem.nodes.iter();
        let of = |gpus: &Vec<GpuRoom>| gpus.iter().map(Device::from).collect();
        Self {
            instance,
            all: nodes.map(|node| of(&node.gpus)).collect(),
        }
    }

    /// Returns the GPU of a slot, if its node has one of that type there.
    fn of(&self, slot: Slot, gpu: ChosenGpu) -> Option<&Device> {
        let rooms = &self.instance.problem.nodes.at(slot.node).gpus;
        let is_of_type = rooms.get(gpu.at)?.kind == gpu.needs.kind;
        is_of_type.then(|| self.all.at(slot.node).at(gpu.at))
    }

    /// Returns the bytes that one more instance brings to its GPU, given those placed so far.
    pub(super) fn brings(&self, slot: Slot) -> OnGpu {
        let gpu = self.instance.choice(slot).gpu;
        let device = gpu.and_then(|gpu| Some((gpu.at, self.of(slot, gpu)?)));
        let Some((at, device)) =
            device.filter(|(_, entry)| !entry.hosted.contains_key(&slot.model))
        else {
            return OnGpu::default();
        };
        let used = |atom: usize| device.uses.get(atom).is_some_and(|&count| count > 0);
        let atoms = self.instance.atoms_of.at(slot.model).iter();
        let absent = atoms.filter(|&&atom| !used(atom));
        let bytes = absent.map(|&atom| {
            let atom = self.instance.atoms.at(atom);
            atom.on_gpus.at(slot.node).at(at)
        });
        // The sums are parts of the model's total, which fits.
        bytes.fold(OnGpu::default(), |sum, one| OnGpu {
            room: sum.room.saturating_add(one.room),
            copied: sum.copied.saturating_add(one.copied),
        })
    }

    /// Adds the shortage of the slot's GPU for one more instance.
    pub(super) fn add_lacks(&self, slot: Slot, lacks: &mut Shortage) {
        let Some(gpu) = self.instance.choice(slot).gpu else {
            return;
        };
        let Some(device) = self.of(slot, gpu) else {
            lacks.gpus = 1;
            return;
        };
        let own_bytes = gpu.needs.own_bytes.saturating_sub(device.own_bytes);
        let room = self.brings(slot).room.saturating_sub(device.tensor_bytes);
        let share = gpu
            .needs
            .share_permille
            .saturating_sub(device.share_permille);
        lacks.gpu_bytes = own_bytes.saturating_add(room);
        lacks.gpu_permille = share.into();
    }

    /// Returns the device memory that one more instance takes, in bytes, and its part of the GPU's
    /// time, in thousandths.
    pub(super) fn needs(&self, slot: Slot) -> (u64, u64) {
        let gpu = self.instance.choice(slot).gpu;
        gpu.map_or((0, 0), |gpu| {
            let bytes = gpu.needs.own_bytes.saturating_add(self.brings(slot).room);
            (bytes, gpu.needs.share_permille.into())
        })
    }

    /// Returns the largest share of its GPU's room that one more instance takes, in millionths.
    pub(super) fn strain(&self, slot: Slot) -> u128 {
        let gpu = self.instance.choice(slot).gpu;
        let Some((gpu, device)) = gpu.and_then(|gpu| Some((gpu, self.of(slot, gpu)?))) else {
            return 0;
        };
        let of_time = share(
            gpu.needs.share_permille.into(),
            device.share_permille.into(),
        );
        share(gpu.needs.own_bytes, device.own_bytes)
            .max(share(self.brings(slot).room, device.tensor_bytes))
            .max(of_time)
    }

    /// Adds an instance that fits.
    pub(super) fn add(&mut self, slot: Slot) {
        let room = self.brings(slot).room;
        self.count(slot, true);
        self.account(slot, |device, gpu| {
            device.tensor_bytes = device.tensor_bytes.saturating_sub(room);
            device.own_bytes = device.own_bytes.saturating_sub(gpu.needs.own_bytes);
            let share = gpu.needs.share_permille;
            device.share_permille = device.share_permille.saturating_sub(share);
        });
    }

    /// Removes an instance.
    pub(super) fn remove(&mut self, slot: Slot) {
        self.count(slot, false);
        let room = self.brings(slot).room;
        self.account(slot, |device, gpu| {
            device.tensor_bytes = device.tensor_bytes.saturating_add(room);
            device.own_bytes = device.own_bytes.saturating_add(gpu.needs.own_bytes);
            let share = gpu.needs.share_permille;
            device.share_permille = device.share_permille.saturating_add(share);
        });
    }

    fn account(&mut self, slot: Slot, change: impl FnOnce(&mut Device, ChosenGpu)) {
        let Some(gpu) = self.instance.choice(slot).gpu else {
            return;
        };
        change(self.all.at_mut(slot.node).at_mut(gpu.at), gpu);
    }

    fn count(&mut self, slot: Slot, added: bool) {
        let instance = self.instance;
        self.account(slot, |device, _| {
            let hosted = device.hosted.entry(slot.model).or_default();
            *hosted = hosted.saturating_add_signed(if added { 1 } else { -1 });
            let by = match (*hosted, added) {
                (1, true) => 1,
                (0, false) => -1,
                _ => return,
            };
            if by < 0 {
                device.hosted.remove(&slot.model);
            }
            device.uses.resize(instance.atoms.len(), 0);
            for &atom in instance.atoms_of.at(slot.model) {
                let count = device.uses.at_mut(atom);
                *count = count.saturating_add_signed(by);
            }
        });
    }
}
