//! Several processes on one device, full devices, and programs that capture. The tests named `cuda_` need a
//! GPU, like those of `cuda.rs`; each module also runs its own with a kind and an unkind fake
//! driver.

mod attach;
mod capacity;
mod capture;
mod daemons;
mod imports;
mod pinned;

use crate::fake_driver::FakeDriver;

/// Client of [`crate::fake::served::Served`] that acquires the model, and checks it twice.
const CLIENT: &str = "fake::served::client_by_descriptor";

/// Runs the module's tests that need a GPU with both fake drivers, which are changed by `options`.
fn with_both(module: &str, options: impl Fn(FakeDriver) -> FakeDriver) {
    for driver in FakeDriver::each() {
        let driver = options(driver);
        driver.run(&[&format!("gpu::{module}::cuda_")]);
        driver.check();
    }
}
