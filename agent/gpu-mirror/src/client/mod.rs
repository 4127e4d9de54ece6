//! The mirror's client: asks the node's server for a model, and maps it.
//!
//! ```no_run
//! # use std::{path::Path, sync::Arc, time::Duration};
//! # use tetris_gpu_mirror::client::{Client, Model, Wanted};
//! # use tetris_gpu_mirror::memory::{DeviceMemory, cuda::VmmDevice};
//! # fn example(manifest: tetris_store_layout::ManifestId) -> Result<(), Box<dyn std::error::Error>> {
//! let device = Arc::new(VmmDevice::open(0)?);
//! let client = Client::connect(Path::new("/run/tetris/gpu"), VmmDevice::KIND, Duration::from_secs(10))?;
//! let wanted = Wanted::new(Model::Manifests(vec![manifest]));
//! let model = client.acquire(device, &wanted, &mut |_| {})?;
//! for object in model.objects() {
//!     model.wait(&object.id, Duration::from_secs(60))?;
//!     println!("{} at {:#x}", object.id, object.address);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! **Guarantees.** Every call ends by its deadline. What is mapped is read-only where the device has that, and stays mapped until
//! [`Acquired`] is dropped, also when the server ends. Dropping it unmaps first and releases then.
//!
//! Before it unmaps, it waits for what this process has queued on the device.
//!
//! **Caveats.** Nothing may use an address after [`Acquired`] is gone: the server may put something else there. A child process has
//! the connection too, and keeps the model held until it ends or closes it; it must not wait for objects, which would take its
//! parent's messages. [`Acquired::hang_up`] ends the connection for children too, and [`Acquired::abandon`] is how a
//! child lets go of what CUDA does not let it use.

mod acquire;
mod acquired;
mod connect;
mod error;
mod events;
mod mapped;

pub use acquire::{Model, Waiting, Wanted};
pub use acquired::{Acquired, OnDevice};
pub use connect::{Client, HangUp};
pub use error::ClientError;
