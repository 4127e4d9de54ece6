//! Waits for arrivals on a stream of another library.
#![expect(unsafe_code, reason = "a program's own calls into the driver")]

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cudarc::driver::sys;
use tetris_gpu_client::Acquired;
use tetris_gpu_device::StreamHandle;
use tetris_gpu_device::cuda::VmmDevice;
use tetris_gpu_server::residency::TenantId;
use tetris_store_layout::ObjectRef;

use crate::fake::lifetimes::Framework;
use crate::fake::served::{Served, acquire, check};
use crate::fake_driver::FakeDriver;
use crate::mirror::LONG;

/// A stream of the program, on which it runs functions in the role of kernels.
struct Stream(sys::CUstream);

/// A function that looks if an object's bytes are there.
struct Look {
    held: Arc<Acquired<VmmDevice>>,
    object: ObjectRef,
    ready: Arc<AtomicUsize>,
}

unsafe extern "C" fn look(data: *mut c_void) {
    // SAFETY: made by `Stream::look`, and called once.
    let look = unsafe { Box::from_raw(data.cast::<Look>()) };
    if look.held.is_ready(&look.object.id).unwrap_or(false) {
        look.ready.fetch_add(1, Ordering::Relaxed);
    }
}

impl Stream {
    fn new() -> Self {
        let mut stream = ptr::null_mut();
        // SAFETY: a context is current, and `stream` may be written.
        let code = unsafe { sys::cuStreamCreate(&raw mut stream, 1) };
        assert_eq!(code as u32, 0);
        Self(stream)
    }

    fn handle(&self) -> StreamHandle {
        // SAFETY: the stream lives, and is of the device of these tests.
        unsafe { StreamHandle::from_raw(self.0 as u64) }
    }

    fn look(&self, held: &Arc<Acquired<VmmDevice>>, object: ObjectRef, ready: &Arc<AtomicUsize>) {
        let look_at = Box::new(Look {
            held: Arc::clone(held),
            object,
            ready: Arc::clone(ready),
        });
        // SAFETY: the stream lives, and the function takes what was boxed here.
        let code =
            unsafe { sys::cuLaunchHostFunc(self.0, Some(look), Box::into_raw(look_at).cast()) };
        assert_eq!(code as u32, 0);
    }

    fn synchronize(&self) {
        // SAFETY: the stream lives.
        assert_eq!(unsafe { sys::cuStreamSynchronize(self.0) } as u32, 0);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: made by `new`.
        assert_eq!(unsafe { sys::cuStreamDestroy_v2(self.0) } as u32, 0);
    }
}

/// Queues waits and looks, last object first, while the server copies.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn program_that_queues_ahead() {
    let served = Served::new(VmmDevice::open(0).unwrap());
    let framework = Framework::enter(0);
    let stream = Stream::new();
    let model = acquire(&served.socket, &served.model, VmmDevice::open(0).unwrap()).unwrap();
    let shared = Arc::new(model);
    let (arrivals, ready) = (shared.arrivals(LONG), Arc::<AtomicUsize>::default());
    let last = served.model.last().unwrap();
    assert!(!shared.is_ready(&last.id).unwrap(), "copies are late");
    for object in served.model.iter().rev() {
        shared
            .wait_on_stream(&object.id, stream.handle(), &arrivals)
            .unwrap();
        stream.look(&shared, *object, &ready);
    }
    assert!(ready.load(Ordering::Relaxed) < served.model.len(), "ahead");
    stream.synchronize();
    arrivals.check(LONG).unwrap();
    assert_eq!(ready.load(Ordering::Relaxed), served.model.len());
    check(&shared);
    Arc::into_inner(shared).unwrap().release().unwrap();
    drop(stream);
    drop(framework);
}

/// The server ends while a stream waits.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn program_whose_bytes_do_not_come() {
    let served = Served::new(VmmDevice::open(0).unwrap());
    let framework = Framework::enter(0);
    let stream = Stream::new();
    let model = acquire(&served.socket, &served.model, VmmDevice::open(0).unwrap()).unwrap();
    let arrivals = model.arrivals(LONG);
    for object in &served.model {
        model
            .wait_on_stream(&object.id, stream.handle(), &arrivals)
            .unwrap();
    }
    let complete = model.is_ready(&served.model.last().unwrap().id).unwrap();
    assert!(!complete, "copies are late");
    assert!(served.server.leave(TenantId(0)));
    // Not stuck, and notified.
    stream.synchronize();
    assert!(arrivals.check(LONG).is_err());
    drop(model);
    drop(stream);
    drop(framework);
}

#[test]
fn kernels_are_queued_ahead_of_their_bytes() {
    for driver in FakeDriver::each() {
        let driver = driver.with("DELAY_US", 20_000);
        driver.run_one("fake::waits::program_that_queues_ahead");
        driver.check();
    }
}

#[test]
fn a_stream_goes_on_when_its_bytes_do_not_come() {
    for driver in FakeDriver::each() {
        let driver = driver.with("DELAY_US", 50_000);
        driver.run_one("fake::waits::program_whose_bytes_do_not_come");
        assert_eq!(driver.remembers("misuse"), "");
    }
}

/// The driver refuses the wait: the caller hears of it, and waits on the host.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn program_whose_waits_are_refused() {
    let served = Served::new(VmmDevice::open(0).unwrap());
    let framework = Framework::enter(0);
    let stream = Stream::new();
    let model = acquire(&served.socket, &served.model, VmmDevice::open(0).unwrap()).unwrap();
    let arrivals = model.arrivals(LONG);
    let object = served.model[0];
    let refused = model.wait_on_stream(&object.id, stream.handle(), &arrivals);
    assert!(refused.unwrap_err().to_string().contains("queue a wait"));
    model.wait_all(LONG).unwrap();
    check(&model);
    drop(model);
    drop(stream);
    drop(framework);
}

#[test]
fn a_refused_wait_is_an_error_and_leaves_nothing() {
    for driver in FakeDriver::each() {
        let driver = driver.failing("cuLaunchHostFunc:801");
        driver.run_one("fake::waits::program_whose_waits_are_refused");
        driver.check();
    }
}
