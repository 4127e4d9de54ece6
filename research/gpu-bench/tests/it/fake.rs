//! The measures with products, through the CUDA code and the mirror's fake driver.

use std::path::Path;
use std::process::Command;

use crate::site::{Site, run};
use crate::taken::{list, named};

const SOURCES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../agent/gpu/server/tests/fake-driver"
);

/// Builds the fake driver into `folder`.
pub fn build(folder: &Path) {
    let files = std::fs::read_dir(SOURCES).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let sources = files.filter(|file| file.extension().is_some_and(|end| end == "c"));
    let mut command = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()));
    command.args(["-std=c11", "-D_GNU_SOURCE", "-O1", "-shared", "-fPIC"]);
    command.args([
        "-fvisibility=hidden",
        "-pthread",
        "-Wl,-soname,libcuda.so.1",
    ]);
    command.args(sources).arg("-o");
    let status = command.arg(folder.join("libcuda.so.1")).status();
    assert!(status.unwrap().success(), "the fake driver is not built");
}

/// The processes themselves check the results; the driver checks the order and the arguments of
/// calls.
#[test]
fn products_and_families_keep_the_rules_of_the_driver() {
    products_and_families("0");
}

#[test]
fn products_and_families_keep_the_rules_of_an_unkind_driver() {
    products_and_families("1");
}

fn products_and_families(unkind: &str) {
    let (site, driver) = (Site::new(), tempfile::tempdir().unwrap());
    build(driver.path());
    let state = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut command = site.command();
    command.args([
        "--bytes=16M",
        "--chunk-bytes=2M",
        "--rounds=1",
        "--processes=2",
    ]);
    command.args(["--only=overlap,family", "--json"]);
    command
        .env("LD_LIBRARY_PATH", driver.path())
        .env("FAKE_CUDA_STATE", state.path())
        .env("FAKE_CUDA_MEMORY_MIB", "16384")
        .env("FAKE_CUDA_UNKIND", unkind);
    let report = run(&mut command).expect(0).json();
    assert_eq!(report["device"]["name"], "Fake GPU 0");
    assert_eq!(report["device"]["simulated"], false);
    for measure in list(&report["measures"]) {
        assert_eq!(measure["outcome"], "measured", "{measure}");
    }
    let family = &report["measures"][1]["figures"];
    let value = |name: &str| named(family, name)["value"].as_f64().unwrap() as u64;
    // The driver allocates memory in granules of 2 MiB.
    assert_eq!(
        value("a function more with an adapter, without its context"),
        value("private memory with an adapter")
    );
    let misuse = std::fs::read_to_string(state.path().join("misuse"));
    assert!(misuse.is_err(), "{misuse:?}");
}

/// The driver registers no read-only pages, so they are writable during the registration, as in the
/// server.
#[test]
fn transfers_register_pages_as_the_server_does() {
    transfers("0");
}

#[test]
fn transfers_register_pages_where_the_driver_is_unkind() {
    transfers("1");
}

fn transfers(unkind: &str) {
    let (site, driver) = (Site::new(), tempfile::tempdir().unwrap());
    build(driver.path());
    let state = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut command = site.command();
    command.args(["--bytes=64M", "--chunk-bytes=8M", "--rounds=1", "--json"]);
    command.args(["--processes=2", "--only=transfers", "--transfer-bytes=8M"]);
    command
        .env("LD_LIBRARY_PATH", driver.path())
        .env("FAKE_CUDA_STATE", state.path())
        .env("FAKE_CUDA_MEMORY_MIB", "16384")
        .env("FAKE_CUDA_UNKIND", unkind);
    let report = run(&mut command).expect(0).json();
    let measure = &report["measures"][0];
    assert_eq!(measure["outcome"], "measured", "{measure}");
    let notes = measure["notes"].to_string();
    assert_eq!(
        notes.contains("came from registered pages"),
        !can_open_for_writing(driver.path()),
        "{notes}"
    );
    let misuse = std::fs::read_to_string(state.path().join("misuse"));
    assert!(misuse.is_err(), "{misuse:?}");
}

/// Returns true if this user may write to files of mode 0444, such as objects: only then pages are
/// registered.
fn can_open_for_writing(folder: &Path) -> bool {
    let path = folder.join("like an object");
    std::fs::write(&path, "").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o444);
    std::fs::set_permissions(&path, mode).unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).is_ok()
}
