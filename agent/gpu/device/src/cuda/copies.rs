//! Streams, events and the copies on them.
#![expect(unsafe_code, reason = "calls into the driver")]

use std::any::Any;
use std::collections::VecDeque;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::sys;

use super::context::CudaContext;
use super::result::{NOT_READY, check, note};
use crate::{HostSlice, Mapped, MemoryError};

/// `CU_STREAM_NON_BLOCKING`: the stream and the default stream do not wait for each other.
const NON_BLOCKING: u32 = 1;
/// `CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING`: a waiting thread sleeps.
const SLEEP_WITHOUT_TIMING: u32 = 3;

/// Time for which a wait asks the driver without a pause: a third of the copy of 8 MiB over a fast link.
const SPINS: Duration = Duration::from_micros(50);
/// Pause between further looks.
const LOOK: Duration = Duration::from_micros(50);
/// Time after which a wait leaves the rest to the driver.
const LOOKS: Duration = Duration::from_millis(20);

/// A stream, with the memory that its copies still read and write.
#[derive(Debug)]
pub struct CudaStream {
    context: Arc<CudaContext>,
    handle: sys::CUstream,
    /// Memory of the copies queued after the last event.
    open: Vec<CopiedMemory>,
    /// Memory of the copies queued before each event.
    closed: VecDeque<(Arc<Inner>, Vec<CopiedMemory>)>,
}

/// Source and destination of one copy.
struct CopiedMemory {
    _from: Source,
    _to: Arc<dyn Any + Send + Sync>,
}

/// Source of one copy.
enum Source {
    Host(#[expect(dead_code, reason = "kept until the copy is done")] HostSlice),
    Device(#[expect(dead_code, reason = "kept until the copy is done")] Arc<dyn Any + Send + Sync>),
}

impl std::fmt::Debug for CopiedMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CopiedMemory")
    }
}

// SAFETY: a stream is a handle that any thread may use; the driver does its own locking.
unsafe impl Send for CudaStream {}

/// A point in the order of a stream.
#[derive(Debug)]
pub struct CudaEvent(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    context: Arc<CudaContext>,
    handle: sys::CUevent,
}

// SAFETY: an event is a handle that any thread may use; the driver does its own locking.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl CudaStream {
    pub(super) fn new(context: &Arc<CudaContext>) -> Result<Self, MemoryError> {
        let current = context.enter()?;
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` may be written, and a context is current. Destroyed on drop.
        let code = unsafe { (current.driver.stream_create)(&raw mut handle, NON_BLOCKING) };
        check(code, "create a stream")?;
        Ok(Self {
            context: Arc::clone(context),
            handle,
            open: Vec::new(),
            closed: VecDeque::new(),
        })
    }

    /// The driver's handle, valid while this value lives.
    pub fn handle(&self) -> sys::CUstream {
        self.handle
    }

    /// Queues a copy to a device address inside the mapping `to`, which the caller has checked.
    pub(super) fn copy_in(
        &mut self,
        to: Arc<dyn Any + Send + Sync>,
        address: u64,
        from: HostSlice,
    ) -> Result<(), MemoryError> {
        let bytes = from.bytes();
        if bytes.is_empty() {
            return Ok(());
        }
        let current = self.context.enter()?;
        let source = bytes.as_ptr().cast();
        // SAFETY: the address and `bytes.len()` bytes after it are inside a mapping that this
        // stream keeps until the copy is done. It keeps the owner of the bytes too: they stay in
        // place and unchanged, because the owner provides them for its whole life.
        let code = unsafe { (current.driver.copy_in)(address, source, bytes.len(), self.handle) };
        drop(current);
        let kept = CopiedMemory {
            _from: Source::Host(from),
            _to: to,
        };
        // Also after an error, which may belong to an earlier copy.
        self.open.push(kept);
        check(code, "copy to the device")
    }

    /// Queues a copy of `bytes` bytes from an address inside the mapping `from` of another device,
    /// which this one may read, to an address inside the mapping `to`. The caller has checked both.
    pub(super) fn copy_across(
        &mut self,
        (to, address): (Arc<dyn Any + Send + Sync>, u64),
        (from, source): (Arc<dyn Any + Send + Sync>, u64),
        bytes: usize,
    ) -> Result<(), MemoryError> {
        if bytes == 0 {
            return Ok(());
        }
        let current = self.context.enter()?;
        // SAFETY: `bytes` bytes after both addresses are inside mappings that this stream keeps
        // until the copy is done.
        let code = unsafe { (current.driver.copy_between)(address, source, bytes, self.handle) };
        drop(current);
        let kept = CopiedMemory {
            _from: Source::Device(from),
            _to: to,
        };
        // Also after an error, which may belong to an earlier copy.
        self.open.push(kept);
        check(code, "copy between devices")
    }

    /// Fills a mapping with one byte, ignoring its protection, and waits.
    pub(super) fn fill(&mut self, to: &impl Mapped, byte: u8) -> Result<(), MemoryError> {
        let current = self.context.enter()?;
        let (address, bytes) = (to.address(), to.bytes() as usize);
        // SAFETY: the addresses are those of a mapping, which stays borrowed until the call below
        // has waited.
        let code = unsafe { (current.driver.fill)(address, byte, bytes, self.handle) };
        drop(current);
        check(code, "fill device memory")?;
        self.synchronize()
    }

    pub(super) fn record(&mut self) -> Result<CudaEvent, MemoryError> {
        let current = self.context.enter()?;
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` may be written, and a context is current. Destroyed on drop.
        let code = unsafe { (current.driver.event_create)(&raw mut handle, SLEEP_WITHOUT_TIMING) };
        check(code, "create an event")?;
        let inner = Arc::new(Inner {
            context: Arc::clone(&self.context),
            handle,
        });
        // SAFETY: event and stream are of the same context, and live.
        let code = unsafe { (current.driver.event_record)(handle, self.handle) };
        check(code, "record an event")?;
        let kept = std::mem::take(&mut self.open);
        self.closed.push_back((Arc::clone(&inner), kept));
        Ok(CudaEvent(inner))
    }

    pub(super) fn settle(&mut self) -> Result<(), MemoryError> {
        while let Some((event, _)) = self.closed.front() {
            if !event.is_done()? {
                break;
            }
            self.closed.pop_front();
        }
        Ok(())
    }

    /// Waits for everything queued on the stream.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Driver`] if some of it has failed.
    pub fn synchronize(&mut self) -> Result<(), MemoryError> {
        let current = self.context.enter()?;
        // SAFETY: the stream lives.
        let code = unsafe { (current.driver.stream_synchronize)(self.handle) };
        check(code, "wait for a stream")?;
        self.open.clear();
        self.closed.clear();
        Ok(())
    }
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        if self.synchronize().is_err() {
            // The driver may still read the memory, so it is leaked and never reused.
            std::mem::forget(std::mem::take(&mut self.open));
            std::mem::forget(std::mem::take(&mut self.closed));
        }
        if let Ok(current) = self.context.enter() {
            // SAFETY: made by `new`, destroyed once, here.
            let code = unsafe { (current.driver.stream_destroy)(self.handle) };
            note(code, "destroy a stream");
        }
    }
}

impl Inner {
    fn is_done(&self) -> Result<bool, MemoryError> {
        let current = self.context.enter()?;
        // SAFETY: the event lives.
        match unsafe { (current.driver.event_query)(self.handle) } {
            NOT_READY => Ok(false),
            code => copied(code).map(|()| true),
        }
    }
}

/// Converts the result of the copies before an event.
fn copied(code: u32) -> Result<(), MemoryError> {
    check(code, "finish a copy").map_err(|error| MemoryError::Copy {
        reason: error.to_string(),
    })
}

impl CudaEvent {
    pub(super) fn is_done(&self) -> Result<bool, MemoryError> {
        self.0.is_done()
    }

    /// Waits for the copies before the event. The driver's own wait sleeps until an interrupt, whose way
    /// through a virtual machine took a millisecond: as long as copies of 50 MB. So it comes last.
    pub(super) fn wait(&self) -> Result<(), MemoryError> {
        let begun = Instant::now();
        while begun.elapsed() < LOOKS {
            if self.is_done()? {
                return Ok(());
            }
            if begun.elapsed() > SPINS {
                std::thread::sleep(LOOK);
            } else {
                std::thread::yield_now();
            }
        }
        let current = self.0.context.enter()?;
        // SAFETY: the event lives.
        copied(unsafe { (current.driver.event_synchronize)(self.0.handle) })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Ok(current) = self.context.enter() {
            // SAFETY: made by `record`, destroyed once, here; the driver finishes pending waits for
            // it.
            let code = unsafe { (current.driver.event_destroy)(self.handle) };
            note(code, "destroy an event");
        }
    }
}

/// Copies device memory at an address that the caller has checked, and waits.
pub(super) fn copy_out(
    context: &CudaContext,
    address: u64,
    to: &mut [u8],
) -> Result<(), MemoryError> {
    if to.is_empty() {
        return Ok(());
    }
    let current = context.enter()?;
    let into = to.as_mut_ptr().cast();
    // SAFETY: `to` may be written for its whole length; the address is inside a mapping that the
    // caller holds. The call returns after the copy.
    check(
        unsafe { (current.driver.copy_out)(into, address, to.len()) },
        "copy from the device",
    )
}
