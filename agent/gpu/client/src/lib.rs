//! The mirror's client: requests a model from the node's server, and maps it.
//!
//! ```no_run
//! # use std::{path::Path, sync::Arc, time::Duration};
//! # use tetris_gpu_client::{Client, WantedModel, Wanted};
//! # use tetris_gpu_device::{DeviceMemory, cuda::VmmDevice};
//! # fn example(manifest: tetris_store_layout::ManifestId) -> Result<(), Box<dyn std::error::Error>> {
//! let device = Arc::new(VmmDevice::open(0)?);
//! let client = Client::connect(Path::new("/run/tetris/gpu"), VmmDevice::KIND, Duration::from_secs(10))?;
//! let wanted = Wanted::new(WantedModel::Manifests(vec![manifest]));
//! let model = client.acquire(device, &wanted, &mut |_| {})?;
//! for object in model.objects() {
//!     model.wait(&object.id, Duration::from_secs(60))?;
//!     println!("{} at {:#x}", object.id, object.address);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! **Guarantees.** Every call ends by its deadline, which counts time without progress: a server that
//! lets a client wait reports every second that the client is in turn. A thread maps the chunks where their
//! addresses are known beforehand; waits for an object include its mapping. Mappings are read-only where the device
//! supports it, and stay until [`Acquired`] is dropped, even if the server ends before that.
//! Dropping it first waits for the work that this process has queued on the device, then unmaps,
//! then releases the model. One thread of the process does that (`reaper`). If the wait is forbidden,
//! because the process captures a CUDA graph, or fails, memory is never unmapped under running
//! kernels: it stays mapped and held, until the capture has ended or until the process ends.
//!
//! **Caveats.** Contexts that a program makes by `cuCtxCreate` are not listed by any call. The one that
//! is current on the thread that drops a model is waited for; for others the program waits itself,
//! before it drops the model. Nothing may use an address after [`Acquired`] is dropped: the server may put
//! another object there. A child process inherits the connection, and keeps the model held until it
//! ends or closes it. It must not wait for objects, because it would consume its parent's messages.
//! [`Acquired::hang_up`] ends the connection for children too. With [`Acquired::abandon`] a child
//! drops a model that CUDA does not let it use.

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod acquire;
mod acquired;
mod arrivals;
mod chunks;
mod connect;
mod describe;
mod error;
mod events;
mod mapped;
mod news;
mod prefetched;
mod reaper;

pub use acquire::{Waiting, Wanted, WantedModel};
pub use acquired::{Acquired, OnDevice};
pub use arrivals::Arrivals;
pub use connect::{Client, HangUp};
pub use describe::DeviceState;
pub use error::ClientError;
pub use prefetched::Prefetched;
pub use reaper::{UnmappingPause, settle_unmapping};
