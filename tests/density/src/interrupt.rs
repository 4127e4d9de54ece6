//! Ctrl-C and termination: a flag that every wait checks, so that all guards clean up.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static RAISED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

fn flag() -> &'static Arc<AtomicBool> {
    RAISED.get_or_init(Arc::default)
}

/// Installs handlers, so that an interrupt, hang-up or termination signal only raises the flag.
pub fn install() -> io::Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(flag()))?;
    }
    Ok(())
}

/// Returns true after such a signal.
pub fn raised() -> bool {
    flag().load(Ordering::Relaxed)
}
