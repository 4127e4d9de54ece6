//! A real cluster, through `kubectl`: what the end-to-end test needs of it.

mod forward;
mod kubectl;
mod status;

pub use forward::get;
pub use kubectl::Kubectl;
pub use status::StoreUse;

use std::time::{Duration, Instant};

/// Longest wait for anything: images are there, but a node may be slow.
pub const DEADLINE: Duration = Duration::from_mins(4);

/// Asks again until there is an answer, or the deadline is over.
///
/// # Errors
/// With what was waited for, and the last reason why it was not there.
pub fn wait_for<T>(what: &str, mut ask: impl FnMut() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let start = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return Ok(answer),
            Err(error) if start.elapsed() > DEADLINE => {
                return Err(error.context(format!("waited for {what}")));
            }
            Err(_) => std::thread::sleep(Duration::from_secs(1)),
        }
    }
}
