//! The thread that registers memory between transfers.

use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::Registrar;
use super::link::LINK;
use super::registrar::Due;
use tetris_gpu_device::DeviceMemory;

/// Time without a transfer after which a registration begins. The loads of one model follow each
/// other within it.
const CALM: Duration = Duration::from_millis(20);

/// Longest wait for an idle link. A registration that is due waits again; a registration that has
/// expired goes all the same, because the store may need its memory.
const PATIENCE: Duration = Duration::from_millis(100);

/// Registers memory that transfers have staged while no transfer runs in this process, a piece at a
/// time, and gives up memory that no transfer has used for long. Its drop ends the thread.
#[derive(Debug)]
pub struct RegistrationThread<D: DeviceMemory + 'static> {
    registrar: Arc<Registrar<D>>,
    thread: Option<JoinHandle<()>>,
}

impl<D: DeviceMemory + 'static> RegistrationThread<D> {
    /// Starts the thread. Memory stays registered for `keep` after its last use. `counted` runs after
    /// each registration.
    ///
    /// # Errors
    ///
    /// An I/O error if the thread cannot start.
    pub fn start(
        registrar: Arc<Registrar<D>>,
        keep: Duration,
        counted: impl Fn(&Registrar<D>) + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::clone(&registrar);
        let thread = Builder::new().name("mirror-register".to_owned());
        let thread = thread.spawn(move || run(&shared, keep, &counted))?;
        Ok(Self {
            registrar,
            thread: Some(thread),
        })
    }
}

impl<D: DeviceMemory + 'static> Drop for RegistrationThread<D> {
    fn drop(&mut self) {
        self.registrar.stop();
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            tracing::error!("the thread that registers memory panicked");
        }
    }
}

fn run<D: DeviceMemory>(registrar: &Registrar<D>, keep: Duration, counted: &dyn Fn(&Registrar<D>)) {
    loop {
        match registrar.wait(keep) {
            Due::Stop => return,
            Due::Expire => {
                LINK.wait(Duration::ZERO, PATIENCE);
                registrar.expire_next(keep);
            }
            Due::Register => {
                if LINK.wait(CALM, PATIENCE) && registrar.register_next_between(CALM) {
                    counted(registrar);
                }
            }
        }
    }
}
