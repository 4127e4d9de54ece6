//! The benchmark's CUDA code with the fake driver of the mirror's tests. The tests cover the order
//! of the calls and the use of their results; their figures mean nothing.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use crate::fake::build;
use crate::site::{Site, run};
use crate::taken::named;

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
            let report_text = fs::read_to_string(self.state.path().join(report));
            assert!(report_text.is_err(), "{report}: {report_text:?}");
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

/// A folder with modules in place of torch and safetensors, if Python is installed.
fn modules() -> Option<TempDir> {
    Command::new("python3").arg("-V").output().ok()?;
    let modules = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(modules.path().join(name), text).unwrap();
    fs::create_dir(modules.path().join("safetensors")).unwrap();
    write("torch.py", TORCH);
    write("safetensors/__init__.py", "__version__ = '1.0'");
    write("safetensors/torch.py", LOAD_FILE);
    Some(modules)
}

#[test]
#[allow(clippy::print_stdout, reason = "a skipped test says so")]
fn load_file_takes_turns_with_the_mirror() {
    let Some(modules) = modules() else {
        println!("SKIPPED: load_file_takes_turns_with_the_mirror: no python3");
        return;
    };
    let (site, machine) = (Site::new(), Machine::new());
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

/// Without the streamer, and with a `load_file` of one way to read.
#[test]
#[allow(clippy::print_stdout, reason = "a skipped test says so")]
fn loaders_that_are_not_there_are_named_and_the_others_measured() {
    let Some(modules) = modules() else {
        println!(
            "SKIPPED: loaders_that_are_not_there_are_named_and_the_others_measured: no python3"
        );
        return;
    };
    let (site, machine) = (Site::new(), Machine::new());
    let mut command = machine.command(site.command(), 20_000);
    command.env("PYTHONPATH", modules.path());
    let report = run(arguments(&mut command).arg("--only=anchors"))
        .expect(0)
        .json();
    let measure = &report["measures"][0];
    assert_eq!(measure["outcome"], "measured", "{measure}");
    for name in [
        "pinned memory, copies of 16 MiB on 2 streams",
        "torch, copies from pinned memory",
        "safetensors",
    ] {
        let samples = &named(&measure["series"], name)["samples"];
        assert_eq!(samples.as_array().unwrap().len(), 2, "{measure}");
    }
    let notes = measure["notes"].to_string();
    for part in [
        "safetensors: safetensors 1.0, torch 2.0 with CUDA 13.0",
        "safetensors, pread: not measured: safetensors 1.0 has no option backend",
        "Run:ai model streamer: not measured: this Python has no runai-model-streamer",
    ] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    machine.check();
    assert!(site.files().is_empty(), "the file is gone too");
}

/// The functions of torch that the script calls.
const TORCH: &str = "
from safetensors.torch import Tensor
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
class Tensor:
    def __init__(self, nbytes): self.nbytes = nbytes
    def pin_memory(self): return self
    def to(self, device, non_blocking, copy):
        assert device == 'cuda:0' and non_blocking and copy
        return self
def load_file(file, device='cpu'):
    data = open(file, 'rb').read()
    header = json.loads(data[8:8 + int.from_bytes(data[:8], 'little')])
    assert device in ('cpu', 'cuda:0') and header['lm_head.weight']['dtype'] == 'BF16', header
    offsets = {name: entry['data_offsets'] for name, entry in header.items() if name != '__metadata__'}
    return {name: Tensor(end - begin) for name, (begin, end) in offsets.items()}
";

/// On a machine with a GPU: `cargo test -p tetris-gpu-bench --test it -- --ignored cuda_`.
#[test]
#[ignore = "needs a GPU"]
fn cuda_every_measure_is_taken_on_a_real_device() {
    let site = Site::new();
    let mut command = site.command();
    // A trial with the fake driver chooses less.
    let bytes = std::env::var("TETRIS_GPU_BENCH_BYTES").unwrap_or_else(|_| "1G".to_owned());
    command.args(["--rounds=3", "--processes=2", "--json"]);
    command.arg(format!("--bytes={bytes}"));
    let report = run(&mut command).expect(0).json();
    assert_eq!(report["device"]["simulated"], false);
    for measure in report["measures"].as_array().unwrap() {
        // Without torch the comparison is skipped, and the anchors name the missing loaders.
        let skipped = measure["name"] == "load-file" && measure["outcome"] == "skipped";
        assert!(skipped || measure["outcome"] == "measured", "{measure}");
    }
    assert!(site.files().is_empty());
}
