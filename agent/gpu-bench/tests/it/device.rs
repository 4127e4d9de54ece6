//! The benchmark's CUDA code with the fake driver of the mirror's tests. The tests cover the order
//! of the calls and the use of their results; their figures mean nothing.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use crate::fake::build;
use crate::site::{Site, run};

/// A machine with the fake driver.
struct Machine {
    /// State of its devices.
    state: TempDir,
    library: TempDir,
}

impl Machine {
    fn new() -> Self {
        let library = tempfile::tempdir().unwrap();
        build(library.path());
        let state = tempfile::tempdir_in("/dev/shm").unwrap();
        Self { state, library }
    }

    /// Adds the machine's environment to a command.
    fn command(&self, mut command: Command, memory_mib: u32) -> Command {
        command.env("LD_LIBRARY_PATH", self.library.path());
        command.env("FAKE_CUDA_STATE", self.state.path());
        command.env("FAKE_CUDA_MEMORY_MIB", memory_mib.to_string());
        command.env("FAKE_CUDA_DELAY_US", "0");
        command.env("FAKE_CUDA_READ_ONLY_REGISTER", "1");
        command
    }

    /// Checks that no process broke a rule of the driver or left a resource behind.
    #[track_caller]
    fn check(&self) {
        for report in ["misuse", "leaks"] {
            let found = fs::read_to_string(self.state.path().join(report));
            assert!(found.is_err(), "{report}: {found:?}");
        }
    }
}

/// Arguments without the options of the simulated device.
fn arguments(command: &mut Command) -> &mut Command {
    command.args(["--bytes=16M", "--chunk-bytes=2M", "--transfer-bytes=8M"]);
    command.args(["--processes=3", "--rounds=2", "--json"])
}

#[test]
fn on_a_device_bars_are_judged_and_no_rule_of_the_driver_is_broken() {
    let (site, machine) = (Site::new(), Machine::new());
    let mut command = machine.command(site.command(), 20_000);
    arguments(&mut command).arg("--only=attach,transfers,processes,eviction");
    let report = run(&mut command).expect(0).json();
    assert_eq!(report["device"]["simulated"], false);
    assert_eq!(report["notes"].as_array().unwrap().len(), 0);
    let mut judged = 0;
    for measure in report["measures"].as_array().unwrap() {
        assert_eq!(measure["outcome"], "measured", "{measure}");
        for figure in measure["figures"].as_array().unwrap() {
            judged += usize::from(figure["bar"]["met"].is_boolean());
        }
    }
    assert_eq!(judged, 3, "{report}");
    machine.check();
    assert!(site.files().is_empty());
}

#[test]
fn pages_that_cannot_be_registered_are_said_to_be_staged() {
    let (site, machine) = (Site::new(), Machine::new());
    let mut command = machine.command(site.command(), 20_000);
    command.env("FAKE_CUDA_FAIL", "cuMemHostRegister_v2:801:1:1000000");
    command.args(["--bytes=64M", "--chunk-bytes=8M", "--transfer-bytes=8M"]);
    command.args(["--rounds=1", "--json", "--only=transfers"]);
    let report = run(&mut command).expect(0).json();
    let notes = &report["measures"][0]["notes"];
    assert!(notes[0].as_str().unwrap().contains("only 0 of"), "{notes}");
    machine.check();
}

#[test]
fn a_device_that_is_too_small_is_refused_before_anything_is_written() {
    let (site, machine) = (Site::new(), Machine::new());
    let mut command = machine.command(site.command(), 64);
    let run = run(arguments(&mut command)).expect(1);
    assert!(run.stderr.contains("free device memory"), "{run:?}");
    assert!(site.files().is_empty());
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let (site, machine) = (Site::new(), Machine::new());
    let mut command = machine.command(site.command(), 64);
    let run = run(arguments(&mut command).arg("--device=7")).expect(1);
    assert!(
        run.stderr.contains("device number below 1, found 7"),
        "{run:?}"
    );
}

#[test]
#[allow(clippy::print_stdout, reason = "a skipped test says so")]
fn load_file_takes_turns_with_the_mirror() {
    if Command::new("python3").arg("-V").output().is_err() {
        println!("SKIPPED: load_file_takes_turns_with_the_mirror: no python3");
        return;
    }
    let (site, machine) = (Site::new(), Machine::new());
    let modules = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(modules.path().join(name), text).unwrap();
    fs::create_dir(modules.path().join("safetensors")).unwrap();
    write("torch.py", TORCH);
    write("safetensors/__init__.py", "__version__ = '1.0'");
    write("safetensors/torch.py", LOAD_FILE);
    let mut command = machine.command(site.command(), 20_000);
    command.env("PYTHONPATH", modules.path());
    let report = run(arguments(&mut command).arg("--only=load-file"))
        .expect(0)
        .json();
    let measure = &report["measures"][0];
    assert_eq!(measure["outcome"], "measured", "{measure}");
    for series in measure["series"].as_array().unwrap() {
        let first = series["name"].as_str().unwrap().contains("first");
        let expected = if first { 1 } else { 2 };
        assert_eq!(
            series["samples"].as_array().unwrap().len(),
            expected,
            "{series}"
        );
    }
    assert!(
        measure["notes"].to_string().contains("torch 2.0"),
        "{measure}"
    );
    machine.check();
    assert!(site.files().is_empty(), "the file is gone too");
}

/// The functions of torch that the script calls.
const TORCH: &str = "
__version__ = '2.0'
class version: cuda = '13.0'
class cuda:
    is_available = staticmethod(lambda: True)
    synchronize = empty_cache = staticmethod(lambda: None)
def zeros(count, device): pass
";
/// Reads the file and checks the model's header.
const LOAD_FILE: &str = "
import json
def load_file(file, device):
    data = open(file, 'rb').read()
    header = json.loads(data[8:8 + int.from_bytes(data[:8], 'little')])
    assert device == 'cuda:0' and header['lm_head.weight']['dtype'] == 'BF16', header
    return data
";

/// On a machine with a GPU: `cargo test -p tetris-gpu-bench --test it -- --ignored cuda_`.
#[test]
#[ignore = "needs a GPU"]
fn cuda_every_measure_is_taken_on_a_real_device() {
    let site = Site::new();
    let mut command = site.command();
    command.args(["--bytes=1G", "--rounds=3", "--processes=2", "--json"]);
    let report = run(&mut command).expect(0).json();
    assert_eq!(report["device"]["simulated"], false);
    for measure in report["measures"].as_array().unwrap() {
        // Without torch the comparison is skipped.
        let skipped = measure["name"] == "load-file" && measure["outcome"] == "skipped";
        assert!(skipped || measure["outcome"] == "measured", "{measure}");
    }
    assert!(site.files().is_empty());
}
