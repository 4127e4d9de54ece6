//! Objects on a tmpfs that may be swapped, as before Linux 6.4 or with `noswap = false`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};

use tetris_hostile::cgroup::Cgroup;

use crate::ingest::ground::Ground;
use crate::ingest::harness::eventually;
use crate::ingest::process::{Daemon, Loaded, TENSOR_BYTES, TENSORS, client, model, outcome};
use tetris_test_support::skipped::skipped;

const MIB: u64 = 1 << 20;
/// Below the model's length.
const LIMIT: u64 = 64 * MIB;
/// Room for what the limit leaves out.
const SWAP: usize = 192 << 20;
/// Objects that were removed because no one had mapped them for long enough.
const EXPIRED: &str =
    r#"tetris_reclaimed_objects_total{store="store",reason="keep-alive-expired"}"#;

/// A file that the kernel swaps to, until this is dropped.
struct Swap(PathBuf);

impl Swap {
    /// Makes one below the directory of this build, which is on a disk; the reason where there is none to be made.
    fn start() -> Result<Self, String> {
        let name = format!("swap-{}", std::process::id());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let swap = Self(path);
        // A file with holes is refused.
        std::fs::write(&swap.0, vec![0; SWAP]).map_err(|error| error.to_string())?;
        let owner_only = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&swap.0, owner_only).map_err(|error| error.to_string())?;
        for program in ["mkswap", "swapon"] {
            swap.run(program)?;
        }
        Ok(swap)
    }

    fn run(&self, program: &str) -> Result<Output, String> {
        let output = Command::new(program).arg(&self.0).output();
        let output = output.map_err(|error| format!("{program}: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let outcome = output.status.success().then_some(output);
        outcome.ok_or_else(|| format!("{program}: {said}"))
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let _was_not_on = self.run("swapoff");
        let _removed = std::fs::remove_file(&self.0);
    }
}

/// Pages that the kernel has swapped out since it started.
fn swapped_out() -> u64 {
    let text = std::fs::read_to_string("/proc/vmstat").unwrap();
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix("pswpout "));
    value.unwrap().parse().unwrap()
}

#[test]
fn a_model_that_was_swapped_out_has_its_bytes_and_is_reclaimed() {
    let Some(ground) = Ground::new(256) else {
        return;
    };
    let made = Swap::start().and_then(|swap| Ok((swap, Cgroup::with_swap("swapped", LIMIT)?)));
    let (_swap, cgroup) = match made {
        Ok(made) => made,
        Err(reason) => return skipped(&reason),
    };
    assert!(u64::from(TENSORS) * TENSOR_BYTES as u64 > LIMIT);
    let before = swapped_out();
    let settings = "interval_secs = 1\n[policy.store]\nkeep_alive_secs = 0\nexpiry = \"fixed\"\nexpire_after_secs = 0\n";
    let daemon = Daemon::start_in(&ground, Some(cgroup.path()), settings);
    let file = model(&ground, 1);
    // The client compares all bytes.
    assert_eq!(outcome(client(&ground, &file, 1, None)), Loaded::Shared);
    let pages = swapped_out() - before;
    assert!(pages * 4096 > 16 * MIB, "{pages} pages were swapped out");
    eventually("what is not mapped goes from memory and swap", || {
        daemon.metric(EXPIRED) >= f64::from(TENSORS)
    });
}
