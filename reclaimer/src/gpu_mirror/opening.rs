//! The start of the GPU mirror: its devices may be there only later.
//!
//! After a machine has started, a driver can answer for minutes that the system is not ready (802),
//! that there is no device (100), or not be loaded at all.

use std::time::{Duration, Instant};

use tetris_gpu_device::MemoryError;
use tetris_gpu_server::ServerError;

use super::orders::{Order, Orders, Wanted};
use super::{GpuMirrorConfig, GpuMirrorView, Opened};

/// First pause before the devices are opened again; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Opens the devices by `open`, as often as it takes. Returns the server and the stores that were
/// ordered meanwhile; `None` if the orders end, or if the server cannot start for a reason that does
/// not pass.
pub(super) fn opened(
    config: &GpuMirrorConfig,
    view: &GpuMirrorView,
    orders: &Orders,
    mut open: impl FnMut(&GpuMirrorConfig) -> Result<Opened, ServerError>,
) -> Option<(Opened, Option<Wanted>)> {
    let mut wanted = None;
    let mut pause = FIRST_PAUSE;
    let mut told = String::new();
    loop {
        let error = match view.during("opening the devices", || open(config)) {
            Ok(opened) => return Some((opened, wanted)),
            Err(error) => error,
        };
        let may_pass = match &error {
            ServerError::Memory(reason) => !matches!(reason, MemoryError::Unsupported { .. }),
            _ => false,
        };
        let reason = error.to_string();
        if reason != told {
            tracing::warn!(%error, tries_again = may_pass, "no GPU mirror (table `gpu_mirror`)");
            told.clone_from(&reason);
        }
        view.close(reason);
        if !may_pass {
            return None;
        }
        wait(orders, pause, &mut wanted)?;
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
    }
}

/// Answers orders for the time of `pause`. `None` at the end of the orders.
fn wait(orders: &Orders, pause: Duration, wanted: &mut Option<Wanted>) -> Option<()> {
    let until = Instant::now() + pause;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        // The engine may not wait any more for an answer.
        match orders.next(Some(left))? {
            Order::Serve(new, done) => {
                *wanted = Some(new);
                let _told = done.send(());
            }
            Order::Unpin(_, done) => {
                let _told = done.send(0);
            }
            Order::Nothing => return Some(()),
        }
    }
}
