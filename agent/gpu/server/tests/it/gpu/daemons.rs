//! Servers that follow each other.

use tetris_gpu_device::DeviceMemory;
use tetris_gpu_device::cuda::VmmDevice;

use super::CLIENT;
use crate::cuda::number;
use crate::fake::outlives::FOLDER;
use crate::fake::served::{OBJECTS, SOCKET, total};
use crate::mirror::eventually;
use crate::mirror::process::Process;

const SERVER: &str = "fake::outlives::server_to_be_killed";

/// The second server copies the model anew, while a client of the first keeps its memory.
#[test]
#[ignore = "needs a GPU"]
fn cuda_a_server_follows_another_whose_clients_stay() {
    let device = VmmDevice::open(number()).unwrap();
    let free = || device.info().unwrap().free_bytes;
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().display().to_string();
    let serve = || Process::start(SERVER, &[(FOLDER, path.clone())]);
    let mut first = serve();
    let environment = [
        (SOCKET, folder.path().join("gpu").display().to_string()),
        (OBJECTS, first.hear()),
    ];
    let mut old = Process::start(CLIENT, &environment);
    assert_eq!(old.hear(), "as it should be");
    first.go_on();
    first.ended();
    let mut second = serve();
    assert_eq!(second.hear(), environment[1].1, "the same model");
    let mut new = Process::start(CLIENT, &environment);
    assert_eq!(new.hear(), "as it should be");
    let copies = free();
    old.go_on();
    assert_eq!(old.hear(), "as it was");
    old.ended();
    eventually(
        "the first server's memory ends with its last client",
        || free() >= copies + total(),
    );
    new.go_on();
    assert_eq!(new.hear(), "as it was");
    new.ended();
    second.go_on();
    second.ended();
}

#[test]
fn a_server_follows_another_with_the_fake_driver() {
    super::with_both("daemons", |driver| driver);
}
