//! Device memory that other programs use: the mirror's capacity follows what the device has.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::core::Core;
use super::state::{Slot, State};
use crate::residency::{ClientId, DeviceId, Released};
use tetris_gpu_device::DeviceMemory;

/// Time after which a driver that has not returned from a call counts as hung. The longest call
/// clears a chunk, which takes milliseconds.
const HUNG: Duration = Duration::from_secs(10);

impl<D: DeviceMemory> State<D> {
    /// Sets a device's capacity to the memory that the mirror has there and what is free beside it,
    /// and at most its limit. Returns true if it rose.
    fn follow(&mut self, id: DeviceId, free_bytes: u64) -> bool {
        let Some(slot) = self.devices.get(&id) else {
            return false;
        };
        let Some(usage) = self.manager.usage(id) else {
            return false;
        };
        let chunks: u64 = slot.chunks.values().map(|chunk| chunk.bytes).sum();
        let and_lingering = chunks.saturating_add(usage.lingering_bytes);
        let and_making = and_lingering.saturating_add(slot.making_bytes);
        let ours = and_making.saturating_add(slot.spares.bytes());
        let capacity = slot.limit_bytes.min(ours.saturating_add(free_bytes));
        self.manager.set_capacity(id, capacity);
        if capacity > usage.capacity_bytes {
            self.tell_waiting();
        }
        capacity > usage.capacity_bytes
    }

    /// Working devices whose capacity is below their limit.
    fn pressed(&self) -> Vec<(DeviceId, Arc<D>)> {
        let pressed = |(id, slot): (&DeviceId, &Slot<D>)| {
            let usage = self.manager.usage(*id)?;
            let is_pressed = slot.lost.is_none() && usage.capacity_bytes < slot.limit_bytes;
            is_pressed.then(|| (*id, Arc::clone(&slot.device)))
        };
        self.devices.iter().filter_map(pressed).collect()
    }

    /// Records that the thread which makes chunks goes into the driver, or has come back.
    pub fn begins(&mut self, id: DeviceId, is_busy: bool) {
        if let Some(slot) = self.devices.get_mut(&id) {
            slot.making = is_busy.then(Instant::now);
        }
    }

    /// Records that a chunk of this length is being created. Until it is known it counts as the
    /// mirror's, created or not.
    pub fn makes(&mut self, id: DeviceId, bytes: u64) {
        self.begins(id, true);
        if let Some(slot) = self.devices.get_mut(&id) {
            slot.making_bytes = bytes;
        }
    }

    /// Records that the chunk has been created, or could not be, and that the thread goes on.
    pub fn made_within(&mut self, id: DeviceId) {
        if let Some(slot) = self.devices.get_mut(&id) {
            slot.making_bytes = 0;
        }
    }

    /// As [`Self::made_within`], and the thread has come back from the driver.
    pub fn made(&mut self, id: DeviceId) {
        self.made_within(id);
        self.begins(id, false);
    }

    /// The reason a client waits for its chunks in vain; `None` while it is in turn.
    pub fn hung(&self, client: ClientId) -> Option<String> {
        let lease = self.leases.get(&client)?;
        let took = self.devices.get(&lease.device)?.making?.elapsed();
        let secs = took.as_secs();
        (took >= HUNG).then(|| {
            format!("the driver of {:?} has not answered for {secs} s; load into host memory, and restart the machine if it stays so", lease.device)
        })
    }
}

impl<D: DeviceMemory> Core<D> {
    /// Lets a device's capacity follow its free memory. Returns true if it rose.
    pub fn follow(&self, id: DeviceId, device: &D) -> bool {
        // Outside the lock, because the driver may be slow. An error is found by the next check.
        let info = device.info();
        info.is_ok_and(|info| self.state().follow(id, info.free_bytes))
    }

    /// Lets the capacity of devices follow that other programs have pressed below their limit.
    /// Returns true if one rose.
    pub fn follow_pressed(&self) -> bool {
        let pressed = self.state().pressed();
        let rose = pressed
            .iter()
            .filter(|(id, device)| self.follow(*id, device));
        rose.count() > 0
    }

    /// Evicts idle models until the chunks on a device are shorter by `bytes`, or no idle model is
    /// left. Returns the chunks to release.
    pub fn shrink(&self, id: DeviceId, bytes: u64) -> Vec<Released> {
        let mut state = self.state();
        let usage = state.manager.usage(id).unwrap_or_default();
        let freed = state
            .manager
            .shrink(id, usage.created_bytes.saturating_sub(bytes));
        self.metrics.evicted.add(freed.evicted.len() as u64);
        self.metrics.dropped_objects.add(freed.dropped.len() as u64);
        self.metrics.yielded.add(freed.evicted.len() as u64);
        freed.released
    }
}
