//! Memory that is let go of while a graph is captured, and while kernels may use it.
#![expect(unsafe_code, reason = "a program's own calls into the driver")]

use std::ptr;

use cudarc::driver::sys;
use tetris_gpu_client::{UnmappingPause, settle_unmapping};
use tetris_gpu_device::cuda::VmmDevice;
use tetris_gpu_device::{DeviceMemory, HostSlice, Protection};

use crate::fake::served::{Served, check};
use crate::fake_driver::FakeDriver;
use crate::mirror::{MIB, eventually};

/// Number of mappings of device memory in this process.
fn mappings() -> usize {
    let state = std::env::var("FAKE_CUDA_STATE").unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains(&state)).count()
}

/// The primary context of a device, current on this thread, as a framework has it.
pub struct Framework(i32);

impl Framework {
    pub fn enter(device: i32) -> Self {
        let mut context = ptr::null_mut();
        // SAFETY: the driver is initialized, and `context` may be written.
        let code = unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut context, device) };
        assert_eq!(code as u32, 0);
        // SAFETY: the context has just been retained.
        assert_eq!(unsafe { sys::cuCtxPushCurrent_v2(context) } as u32, 0);
        Self(device)
    }
}

impl Drop for Framework {
    fn drop(&mut self) {
        let mut context = ptr::null_mut();
        // SAFETY: pushed on this thread by `enter`.
        let code = unsafe { sys::cuCtxPopCurrent_v2(&raw mut context) };
        assert_eq!(code as u32, 0);
        // SAFETY: retained by `enter`.
        let code = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.0) };
        assert_eq!(code as u32, 0);
    }
}

/// A capture of the strictest mode, which forbids calls to all threads.
pub struct Capture(sys::CUstream);

impl Capture {
    pub fn begin() -> Self {
        let mut stream = ptr::null_mut();
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
        // SAFETY: a context is current, and `stream` may be written.
        let code = unsafe { sys::cuStreamCreate(&raw mut stream, 1) };
        assert_eq!(code as u32, 0);
        // SAFETY: the stream has just been made.
        let code = unsafe { sys::cuStreamBeginCapture_v2(stream, mode) };
        assert_eq!(code as u32, 0);
        Self(stream)
    }

    /// Ends it. Returns the driver's answer.
    pub fn end(self) -> u32 {
        let mut graph = ptr::null_mut();
        // SAFETY: the stream is in capture, by this thread.
        let code = unsafe { sys::cuStreamEndCapture(self.0, &raw mut graph) } as u32;
        if code == 0 {
            // SAFETY: made by the call above.
            let destroyed = unsafe { sys::cuGraphDestroy(graph) };
            assert_eq!(destroyed as u32, 0);
        }
        // SAFETY: made by `begin`.
        let destroyed = unsafe { sys::cuStreamDestroy_v2(self.0) };
        assert_eq!(destroyed as u32, 0);
        code
    }
}

fn held(served: &Served<VmmDevice>) -> usize {
    served.usage().held_models
}

/// A model is loaded during a capture, and let go of.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn program_that_captures() {
    let served = Served::new(VmmDevice::open(0).unwrap());
    let first = served.load().unwrap();
    let all = mappings();
    let framework = Framework::enter(0);
    let capture = Capture::begin();
    let pause = UnmappingPause::begin();
    // Calls of the server and of this client are no concern of the capture.
    let second = served.load().unwrap();
    check(&second);
    // The last drop of a model during a capture.
    drop(second);
    first.let_go();
    settle_unmapping();
    assert!(mappings() > all, "both are kept");
    assert_eq!(held(&served), 1);
    assert_eq!(capture.end(), 0, "nothing has disturbed it");
    drop(pause);
    eventually("both are unmapped", || held(&served) == 0);
    settle_unmapping();
    assert!(mappings() < all);
    drop(framework);
}

#[test]
fn a_capture_is_not_disturbed_and_memory_is_unmapped_after_it() {
    for driver in FakeDriver::each() {
        driver.run_one("fake::lifetimes::program_that_captures");
        assert_eq!(driver.remembers("captures"), "");
        driver.check();
    }
}

/// A program that takes no pause: the driver refuses the wait.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn program_that_captures_without_a_pause() {
    let served = Served::new(VmmDevice::open(0).unwrap());
    let model = served.load().unwrap();
    let framework = Framework::enter(0);
    let capture = Capture::begin();
    let all = mappings();
    let error = model.release().unwrap_err().to_string();
    assert!(error.contains("(900)"), "{error}");
    assert_eq!(mappings(), all, "kernels may use it");
    assert_eq!(held(&served), 1);
    assert_eq!(capture.end(), 901, "the wait has ended it");
    eventually("it is unmapped", || held(&served) == 0);
    settle_unmapping();
    drop(framework);
}

#[test]
fn memory_that_cannot_be_waited_for_is_not_unmapped() {
    for driver in FakeDriver::each() {
        driver.run_one("fake::lifetimes::program_that_captures_without_a_pause");
        driver.check();
    }
}

/// The device never reports that it has finished.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn program_without_an_end() {
    let served = Served::new(VmmDevice::open(0).unwrap());
    let model = served.load().unwrap();
    let all = mappings();
    drop(model);
    for _ in 0..8 {
        settle_unmapping();
    }
    assert_eq!((mappings(), held(&served)), (all, 1));
}

#[test]
fn memory_is_leaked_rather_than_unmapped_under_kernels() {
    let driver = FakeDriver::new().failing("cuCtxSynchronize:999");
    // Left behind on purpose.
    driver
        .with("LEAKS", 0)
        .run_one("fake::lifetimes::program_without_an_end");
}

/// Work in another context than the one that everybody shares.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn program_with_a_context_of_its_own() {
    let served = Served::new(VmmDevice::open(0).unwrap());
    let model = served.load().unwrap();
    let other = VmmDevice::open(1).unwrap();
    let chunk = other.create(2 * MIB).unwrap();
    let range = other.reserve(2 * MIB).unwrap();
    let mapping = other.map(range, &chunk, Protection::ReadWrite).unwrap();
    let mapping = std::sync::Arc::new(mapping);
    let mut stream = other.stream().unwrap();
    let bytes = HostSlice::whole(std::sync::Arc::new(vec![1; 100]));
    other.copy_in(&mut stream, &mapping, 0, bytes).unwrap();
    let event = other.record(&mut stream).unwrap();
    assert!(!other.is_done(&event).unwrap());
    let framework = Framework::enter(1);
    drop(model);
    drop(framework);
    assert!(
        other.is_done(&event).unwrap(),
        "the current context is done"
    );
}

#[test]
fn the_current_context_is_waited_for() {
    for driver in FakeDriver::each() {
        let driver = driver.with("DEVICES", 2).with("DELAY_US", -1);
        driver.run_one("fake::lifetimes::program_with_a_context_of_its_own");
        driver.check();
    }
}
