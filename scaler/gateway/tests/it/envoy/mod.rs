//! Tests of the endpoint picker with a real Envoy, which `tests/gateway envoy` installs.

mod configuration;
mod killed;
mod process;
mod serving;

/// Variable with the path of Envoy.
const PROGRAM: &str = "TETRIS_ENVOY";

/// Path of Envoy. Without one the test is skipped with a message.
fn program() -> Option<std::path::PathBuf> {
    use std::io::Write as _;
    let path = std::env::var_os(PROGRAM).map(std::path::PathBuf::from);
    if path.is_none() {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("test");
        // Not through a macro: the harness swallows the output of a test that passes.
        let said = writeln!(
            std::io::stderr(),
            "SKIPPED: {test}: {PROGRAM} does not name an Envoy (tests/gateway envoy)"
        );
        drop(said);
    }
    path
}
