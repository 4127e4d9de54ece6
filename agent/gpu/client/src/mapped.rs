//! A model's chunks, mapped in this process, and the connection that holds them.

use std::sync::Arc;

use super::chunks::Chunks;
use super::events::Events;
use super::reaper::{self, Unmap};
use tetris_gpu_device::{DeviceMemory, MemoryError, MemoryKind};

/// Mappings removed once this process's queued work no longer reads them, and only then
/// the connection.
#[derive(Debug)]
pub(super) struct Mappings<D: DeviceMemory> {
    /// `None` once they end.
    chunks: Option<Chunks<D>>,
    events: Arc<Events>,
    /// Process that mapped them. A forked child has a copy of this value, and no driver.
    process: u32,
    end: End,
}

/// Manner of the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Waits until the memory is unmapped, or is kept for a later attempt.
    Close,
    /// Like `Close`; ends the connection for children too.
    HangUp,
    /// Like `HangUp`, without a wait.
    Aside,
}

impl<D: DeviceMemory> Mappings<D> {
    pub fn new(chunks: Chunks<D>, events: Events) -> Self {
        Self {
            chunks: Some(chunks),
            events: Arc::new(events),
            process: std::process::id(),
            end: End::Close,
        }
    }

    pub fn events(&self) -> &Arc<Events> {
        &self.events
    }

    /// The chunks; `None` once they end.
    pub fn chunks(&self) -> Option<&Chunks<D>> {
        self.chunks.as_ref()
    }

    /// Ends the mappings in this manner.
    pub fn end(mut self, end: End) {
        self.end = end;
    }

    /// Leaves the memory mapped until this process ends, and closes the connection.
    pub fn abandon(mut self) {
        if let Some(chunks) = self.chunks.take() {
            chunks.abandon();
        }
    }

    /// Unmaps the memory, and reports if it had to be kept. The caller may still use the events.
    pub fn unmap(mut self) -> Result<(), MemoryError> {
        self.unmap_by(End::Close)
    }

    fn unmap_by(&mut self, end: End) -> Result<(), MemoryError> {
        let Some(chunks) = self.chunks.take() else {
            return Ok(());
        };
        let is_host = D::KIND == MemoryKind::Host;
        if !is_host && self.process != std::process::id() {
            // No call into the driver is allowed here.
            chunks.abandon();
            return Ok(());
        }
        chunks.stop();
        let device = Arc::clone(chunks.device());
        let mut unmapping = Unmapping {
            chunks,
            events: Some(Arc::clone(&self.events)),
            hang_up: end != End::Close,
        };
        if is_host {
            // Host memory needs no wait, and a forked child, which has no reaper, has it too.
            return unmapping.attempt();
        }
        if let Err(error) = device.finish_here()
            && !error.ends_all_work()
        {
            // Kernels of that context may run on.
            unmapping.leak();
            return Err(error);
        }
        if end == End::Aside {
            reaper::take(Box::new(unmapping));
            return Ok(());
        }
        reaper::take_and_wait(Box::new(unmapping))
    }
}

impl<D: DeviceMemory> Drop for Mappings<D> {
    fn drop(&mut self) {
        if let Err(error) = self.unmap_by(self.end) {
            tracing::debug!(%error, "device memory stays mapped for now");
        }
    }
}

/// Mappings that no one uses any more, apart from queued work.
struct Unmapping<D: DeviceMemory> {
    chunks: Chunks<D>,
    events: Option<Arc<Events>>,
    hang_up: bool,
}

impl<D: DeviceMemory> Unmapping<D> {
    fn close(&mut self) {
        if let Some(events) = self.events.take()
            && self.hang_up
        {
            events.hang_up();
        }
    }
}

impl<D: DeviceMemory> Unmap for Unmapping<D> {
    fn attempt(&mut self) -> Result<(), MemoryError> {
        match self.chunks.device().finish() {
            Ok(()) => self.chunks.unmap(),
            Err(error) if error.ends_all_work() => {
                // The calls would only fail. Nothing reads the memory any more, so the server may
                // put other objects there.
                tracing::debug!(%error, "device memory stays mapped until this process ends");
                self.chunks.leak();
            }
            Err(error) => return Err(error),
        }
        self.close();
        Ok(())
    }

    fn leak(&mut self) {
        self.chunks.leak();
        std::mem::forget(self.events.take());
    }
}
