//! Processes that attach at the same time.

use tetris_gpu_device::cuda::VmmDevice;

use super::CLIENT;
use crate::cuda::number;
use crate::fake::served::{Served, total};
use crate::mirror::DEVICE;

const PROCESSES: usize = 8;

/// The first of them loads the model, and all share one copy.
#[test]
#[ignore = "needs a GPU"]
fn cuda_eight_processes_attach_at_once() {
    let served = Served::new(VmmDevice::open(number()).unwrap());
    let mut clients: Vec<_> = (0..PROCESSES).map(|_| served.client(CLIENT, &[])).collect();
    for client in &mut clients {
        assert_eq!(client.hear(), "as it should be");
    }
    let usage = served.server.usage(DEVICE).unwrap();
    assert_eq!((usage.held_bytes, usage.held_models), (total(), 1));
    let counters = served.counters_of_a_load();
    assert_eq!(counters.direct_bytes + counters.staged_bytes, total());
    for mut client in clients {
        client.go_on();
        assert_eq!(client.hear(), "as it was");
        client.ended();
    }
}

#[test]
fn eight_processes_attach_at_once_with_the_fake_driver() {
    super::with_both("attach", |driver| driver);
}
