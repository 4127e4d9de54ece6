//! The fake driver's options do what its README.md describes: a C program checks each.

use std::process::Command;

use crate::fake_driver::{FakeDriver, SOURCES};

/// Runs the program's test `name`, and returns the driver for its records.
fn shows(name: &str, driver: FakeDriver) -> FakeDriver {
    let program = driver.compile("unkind", &format!("{SOURCES}/rules/unkind.c"));
    let output = Command::new(program)
        .arg(name)
        .envs(driver.environment())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{name}: {}: {errors}",
        output.status
    );
    driver
}

fn option(name: &str, option: &str, value: i32) {
    shows(name, FakeDriver::new().with(option, value)).check();
}

#[test]
fn registration_costs_time_in_which_no_other_call_ends() {
    option("registration", "REGISTER_MS_PER_GB", 6000);
}

#[test]
fn released_memory_comes_back_late() {
    option("release_late", "RELEASE_MS", 3_600_000);
    option("release_soon", "RELEASE_MS", 50);
}

#[test]
fn memory_of_the_dead_comes_back_late() {
    option("death_late", "DEATH_MS", 3_600_000);
    option("death_soon", "DEATH_MS", 50);
}

#[test]
fn contexts_use_device_memory() {
    option("contexts", "CONTEXT_MIB", 100);
    option("no_room_for_a_context", "CONTEXT_MIB", 1000);
}

#[test]
fn other_programs_use_device_memory() {
    option("others", "OTHERS_MIB", 50);
}

#[test]
fn mappings_have_the_size_of_their_memory() {
    option("sizes", "EXACT_SIZE", 1);
}

#[test]
fn device_addresses_are_none_of_the_process() {
    option("addresses", "DEVICE_ADDRESSES", 1);
}

#[test]
fn the_driver_is_not_ready_at_first() {
    option("not_ready_twice", "NOT_READY_CALLS", 2);
    option("not_ready_for_a_time", "NOT_READY_MS", 200);
}

#[test]
fn compute_modes_refuse_contexts() {
    option("prohibited", "COMPUTE_MODE", 2);
    option("exclusive", "COMPUTE_MODE", 3);
}

#[test]
fn a_fault_ends_all_clients_of_mps() {
    option("mps", "MPS", 1);
}

#[test]
fn captures_forbid_calls_that_could_wait() {
    let driver = shows("capture", FakeDriver::new());
    let misuse = driver.remembers("misuse");
    assert!(
        misuse
            .trim_end()
            .ends_with("cuStreamEndCapture in another thread"),
        "{misuse}"
    );
    let invalidated = driver.remembers("captures");
    for call in [
        "cuStreamSynchronize",
        "cuEventQuery",
        "cuMemAlloc",
        "cuCtxSynchronize",
    ] {
        assert!(invalidated.contains(call), "{call}: {invalidated}");
    }
    assert_eq!(driver.remembers("leaks"), "");
}
