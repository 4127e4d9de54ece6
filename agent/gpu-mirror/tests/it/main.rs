//! Device memory, the protocol and the server, on the simulated device, on the fake driver and,
//! where there is one, on a GPU.

mod compute;
mod conformance;
mod cuda;
mod fake;
mod fake_driver;
mod fuzz_corpus;
mod host;
mod hostile;
mod mirror;
mod processes;
mod ptx;
mod refusals;
mod server;
mod support;
mod waste;
#[path = "../../../../fuzz/checks/wire.rs"]
mod wire_check;
#[path = "../../../../fuzz/seeds/wire.rs"]
mod wire_seeds;
