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
mod fuzz_corpus;
mod gpu;
mod host;
mod hostile;
mod lingering;
mod mirror;
#[path = "../../../../../fuzz/checks/mirror_session.rs"]
mod mirror_session;
#[path = "../../../../../fuzz/seeds/mirror_session.rs"]
mod mirror_session_seeds;
mod prefetch;
mod processes;
mod refusals;
mod registration;
#[path = "../../../../../fuzz/replay.rs"]
mod replay;
mod server;
#[path = "../../../../../fuzz/checks/session.rs"]
mod session;
mod spares;
#[expect(dead_code, reason = "its protocol has no files that change")]
#[path = "../../../../../fuzz/seeds/steps.rs"]
mod steps;
mod streaming;
mod support;
mod templates;
mod waste;
#[path = "../../../../../fuzz/checks/wire.rs"]
mod wire_check;
#[path = "../../../../../fuzz/seeds/wire.rs"]
mod wire_seeds;
