//! Device memory, the protocol and the server, on the simulated device, on the fake driver and,
//! where there is one, on a GPU.

mod across;
mod broken_devices;
mod compatibility;
mod conformance;
mod cuda;
mod deadlines;
mod fake;
mod fake_driver;
mod gpu;
mod host;
mod hostile;
mod lingering;
mod mirror;
mod prefetch;
mod processes;
mod refusals;
mod registration;
mod server;
mod spares;
mod streaming;
mod support;
mod templates;
mod waste;
