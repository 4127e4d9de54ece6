//! Programs that record CUDA graphs while they let go of a model.

use tetris_gpu_client::{UnmappingPause, settle_unmapping};
use tetris_gpu_device::cuda::VmmDevice;

use crate::cuda::number;
use crate::fake::lifetimes::{Capture, Framework};
use crate::fake::served::{Served, check};
use crate::mirror::eventually;

fn framework() -> Framework {
    Framework::enter(i32::try_from(number()).unwrap())
}

/// The graph is valid, and the memory is unmapped after it.
#[test]
#[ignore = "needs a GPU"]
fn cuda_the_last_drop_during_a_capture_does_not_disturb_it() {
    let served = Served::new(VmmDevice::open(number()).unwrap());
    let model = served.load().unwrap();
    let framework = framework();
    let capture = Capture::begin();
    let pause = UnmappingPause::begin();
    drop(model);
    settle_unmapping();
    assert_eq!(served.usage().held_models, 1, "it is kept");
    assert_eq!(capture.end(), 0);
    drop(pause);
    eventually("it is unmapped", || served.usage().held_models == 0);
    check(&served.load().unwrap());
    drop(framework);
}

/// The library does not know: the wait for the device may end the capture, and memory is not
/// unmapped before it.
#[test]
#[ignore = "needs a GPU"]
fn cuda_the_last_drop_during_an_unknown_capture_unmaps_nothing() {
    let served = Served::new(VmmDevice::open(number()).unwrap());
    let model = served.load().unwrap();
    let framework = framework();
    let capture = Capture::begin();
    drop(model);
    assert_eq!(served.usage().held_models, 1, "it is kept");
    let ended = capture.end();
    assert!([0, 901].contains(&ended), "{ended}");
    eventually("it is unmapped", || served.usage().held_models == 0);
    check(&served.load().unwrap());
    drop(framework);
}

#[test]
fn models_are_dropped_during_a_capture_with_the_fake_driver() {
    super::with_both("capture", |driver| driver);
}
