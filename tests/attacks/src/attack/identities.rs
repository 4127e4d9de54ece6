//! Files that say they are other ones: two images with the same times on one loop device, and a file that is
//! rewritten and given its times again. The attacker loads both through its store, and compares every byte.
//!
//! The images are mounted with the rights of the node, as a volume of images would be.

use std::fs::{File, FileTimes};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use tetris_agent::{Agent, LoadOptions};

use super::Rounds;
use crate::line::Tally;
use crate::model;

const LEN: usize = 4 << 20;
const FILE: &str = "model.safetensors";
/// Rounds after the images were made: their number distinguishes them from those of an earlier run.
const LOADS: usize = 2;
/// The longest wait for a loop device that is still held.
const DETACHED: Duration = Duration::from_secs(20);

/// Two images that differ in the bytes of a tensor alone.
#[derive(Debug)]
pub struct Images {
    device: String,
    images: [(PathBuf, u64); 2],
}

impl Images {
    /// Makes them, and takes a loop device. Needs root.
    ///
    /// # Errors
    /// Without the tools, or a loop device.
    pub fn make(scratch: &Path) -> Result<Self> {
        let begin = u64::from(std::process::id()) << 16;
        let make = |seed: u64| -> Result<(PathBuf, u64)> {
            let (tree, image) = (
                scratch.join(format!("tree-{seed}")),
                scratch.join(format!("image-{seed}")),
            );
            std::fs::create_dir_all(&tree)?;
            model::write(&tree.join(FILE), seed, LEN)?;
            let mut command = Command::new("mksquashfs");
            command.args([&tree, &image]);
            command.args(["-all-time", "0", "-mkfs-time", "0", "-noappend"]);
            run(command.arg("-no-progress"))?;
            Ok((image, seed))
        };
        let images = [make(begin)?, make(begin + 1)?];
        std::fs::create_dir_all(scratch.join("image"))?;
        let [(first, _), _] = &images;
        let shown = run(Command::new("losetup")
            .args(["--find", "--show"])
            .arg(first))?;
        let made = Self {
            device: shown.trim().to_owned(),
            images,
        };
        // Some kernels have no squashfs.
        drop(made.mounted(0, &scratch.join("image"))?);
        Ok(made)
    }

    /// Mounts an image, the other one not being mounted.
    fn mounted(&self, which: usize, on: &Path) -> Result<Mounted> {
        let (image, _) = self.images.get(which).context("there are two")?;
        run(Command::new("losetup").arg("--detach").arg(&self.device))?;
        // The kernel detaches when the daemon has closed the last file of the mounted image.
        let end = Instant::now() + DETACHED;
        while let Err(error) = run(Command::new("losetup").arg(&self.device).arg(image)) {
            if Instant::now() > end {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let (device, kind) = (Some(self.device.as_str()), Some("squashfs"));
        mount(device, on, kind, MsFlags::MS_RDONLY, None::<&str>).context("mount an image")?;
        Ok(Mounted(on.to_owned()))
    }
}

impl Drop for Images {
    fn drop(&mut self) {
        let _detached = run(Command::new("losetup").arg("--detach").arg(&self.device));
    }
}

struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _unmounted = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

fn run(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let done = command.output().with_context(|| format!("run {name}"))?;
    let error = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{name}: {error}");
    Ok(String::from_utf8(done.stdout)?)
}

pub(super) fn run_rounds(rounds: &Rounds<'_>, images: Option<&Images>) -> Result<()> {
    rounds.repeat(Duration::from_secs(1), |round, tally| {
        if let Some(images) = images {
            for (which, (_, seed)) in images.images.iter().enumerate() {
                let dir = rounds.scratch("image");
                let mounted = images.mounted(which, &dir)?;
                check(rounds, &dir.join(FILE), *seed, "image", tally)?;
                drop(mounted);
            }
        }
        rewrite(rounds, round, tally)
    })
}

/// A file gets other bytes, and the time of its last change again.
fn rewrite(rounds: &Rounds<'_>, round: u64, tally: &mut Tally) -> Result<()> {
    let path = rounds.scratch("rewritten");
    let seed = (u64::from(std::process::id()) << 32) + round * 2;
    model::write(&path, seed, LEN)?;
    check(rounds, &path, seed, "rewritten", tally)?;
    let file = File::options().write(true).open(&path)?;
    let modified = file.metadata()?.modified()?;
    let header = model::header(LEN as u64, "").len() as u64;
    file.write_all_at(&model::bytes(seed + 1, LEN), header)?;
    file.set_times(FileTimes::new().set_modified(modified))?;
    check(rounds, &path, seed + 1, "rewritten", tally)
}

/// Loads the file, so that it is known, and compares every byte.
fn check(rounds: &Rounds<'_>, path: &Path, seed: u64, what: &str, tally: &mut Tally) -> Result<()> {
    let options = LoadOptions::default().with_min_shared_bytes(0);
    for _ in 0..LOADS {
        let agent = Agent::open_store(&rounds.context.store)?;
        let model = agent.load_with(path, &options)?;
        let recognized = model.report().recognized.first();
        let recognized = recognized.map_or("nothing", |recognized| recognized.name());
        tally.count(format!("{what}-{recognized}"));
        let tensor = model.tensor(model::TENSOR);
        let tensor = tensor.ok_or_else(|| anyhow!("the model has no tensor"))?;
        if tensor.bytes() != model::bytes(seed, LEN) {
            rounds.wrong(format!("wrong bytes of {what}, recognized by {recognized}"))?;
        }
    }
    Ok(())
}
