//! A full device.

use tetris_gpu_device::cuda::VmmDevice;
use tetris_gpu_server::Limits;

use super::CLIENT;
use crate::cuda::number;
use crate::fake::served::{KIB, Served};
use crate::mirror::{self, LONG, MIB, content};

/// One of two models fits.
const ROOM_MIB: i32 = 24;

/// The driver may free the dead client's share of the memory later than its process ends.
#[test]
#[ignore = "needs a GPU"]
fn cuda_a_model_is_loaded_at_once_where_a_client_of_another_was_killed() {
    let device = VmmDevice::open(number()).unwrap();
    let config = mirror::config(Limits::default());
    let served = Served::with_capacity(device, &config, ROOM_MIB as u64 * MIB);
    let names = ["e", "f", "g", "h"];
    let others = served.publish(&names);
    for _ in 0..2 {
        let mut client = served.client(CLIENT, &[]);
        assert_eq!(client.hear(), "as it should be");
        client.kill();
        let model = served.load_within(&others, LONG).unwrap();
        for (object, name) in others.iter().zip(names) {
            assert!(model.read(&object.id, LONG).unwrap() == content(name, KIB));
        }
        model.release().unwrap();
    }
    assert!(served.counters().evicted >= 3);
}

#[test]
fn a_model_replaces_that_of_a_killed_client_with_the_fake_driver() {
    // The contexts of the client and of the next one use memory too.
    super::with_both("capacity", |driver| driver.with_room(ROOM_MIB + 4));
}
