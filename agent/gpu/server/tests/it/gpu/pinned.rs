//! Models that are larger than the limit of registered memory.

use tetris_gpu_device::cuda::VmmDevice;
use tetris_gpu_server::copy::ExecutorConfig;
use tetris_gpu_server::{Limits, ServerConfig};

use crate::cuda::number;
use crate::fake::served::{Served, check, total};
use crate::mirror::{self, MIB, eventually};

/// Two of a model's four objects fit.
const LIMIT_BYTES: u64 = 8 * MIB;
/// One of two models fits.
const CAPACITY_BYTES: u64 = 24 * MIB;
const ROUNDS: u64 = 3;

/// A part of a model stays registered, and no transfer takes a registration from itself.
#[test]
#[ignore = "needs a GPU"]
fn cuda_a_model_above_the_limit_of_registered_memory_is_loaded() {
    let config = ServerConfig {
        executor: ExecutorConfig::try_new(2, 4, 64 << 10, LIMIT_BYTES).unwrap(),
        ..mirror::config(Limits::default())
    };
    let device = VmmDevice::open(number()).unwrap();
    let served = Served::with_capacity(device, &config, CAPACITY_BYTES);
    let others = served.publish(&["e", "f", "g", "h"]);
    let pinned = || served.report().devices[0].pinned_bytes;
    for round in 1..=ROUNDS {
        let model = served.load().unwrap();
        check(&model);
        model.release().unwrap();
        eventually("a part is registered, or the driver refuses", || {
            pinned() > 0 || served.report().devices[0].unregistered.is_some()
        });
        assert!(pinned() <= LIMIT_BYTES, "{:?}", served.report());
        let other = served.load_within(&others, mirror::LONG).unwrap();
        other.release().unwrap();
        eventually("all bytes are counted", || {
            let counters = served.counters();
            counters.direct_bytes + counters.staged_bytes == 2 * round * total()
        });
        assert!(pinned() <= LIMIT_BYTES, "{:?}", served.report());
    }
    // Each transfer registers two objects at most.
    let registrations = served.counters().registrations;
    assert!(registrations <= 4 * ROUNDS, "{registrations}");
}

#[test]
fn a_model_above_the_limit_is_loaded_with_the_fake_driver() {
    super::with_both("pinned", |driver| driver.with("READ_ONLY_REGISTER", 1));
}
