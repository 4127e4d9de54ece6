//! Disk images of one file, made so that two of them differ in that file's bytes alone, and a loop device that they take turns on.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use tempfile::TempDir;

use crate::mount::Mount;

/// Name of the file in an image.
pub const FILE: &str = "model.safetensors";

/// A file system in an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// squashfs
    Squashfs,
    /// erofs
    Erofs,
    /// ext4
    Ext4,
}

impl Kind {
    /// Its name for mount(2).
    pub fn name(self) -> &'static str {
        match self {
            Self::Squashfs => "squashfs",
            Self::Erofs => "erofs",
            Self::Ext4 => "ext4",
        }
    }

    /// An image with `content` as its file, with fixed times and a fixed UUID.
    pub fn make(self, dir: &Path, name: &str, content: &[u8]) -> anyhow::Result<PathBuf> {
        const UUID: &str = "01234567-89ab-4def-8123-456789abcdef";
        let (tree, image) = (dir.join(name), dir.join(format!("{name}.{}", self.name())));
        std::fs::create_dir_all(&tree)?;
        std::fs::write(tree.join(FILE), content)?;
        let mut command = match self {
            Self::Squashfs => {
                let mut command = Command::new("mksquashfs");
                command.args([&tree, &image]);
                command.args([
                    "-all-time",
                    "0",
                    "-mkfs-time",
                    "0",
                    "-noappend",
                    "-no-progress",
                ]);
                command
            }
            Self::Erofs => {
                let mut command = Command::new("mkfs.erofs");
                command.args(["-T", "0", "-U", UUID]).args([&image, &tree]);
                command
            }
            Self::Ext4 => {
                let mut command = Command::new("mkfs.ext4");
                command.args(["-q", "-F", "-U", UUID, "-E", "lazy_itable_init=0", "-d"]);
                command.args([&tree, &image]).arg("64M");
                command
            }
        };
        run(&mut command)?;
        if self == Self::Ext4 {
            set_times_back(&image)?;
        }
        Ok(image)
    }
}

/// Gives the file in an ext4 image, or on a device, fixed times: what a clock that was set back would do.
pub fn set_times_back(image: &Path) -> anyhow::Result<()> {
    for time in ["mtime", "ctime"] {
        for (field, value) in [
            (time.to_owned(), "20200101"),
            (format!("{time}_extra"), "0"),
        ] {
            let request = format!("set_inode_field {FILE} {field} {value}");
            run(Command::new("debugfs")
                .args(["-w", "-R", &request])
                .arg(image))?;
        }
    }
    Ok(())
}

/// A loop device that is attached to one image after the other.
#[derive(Debug)]
pub struct Loop {
    device: PathBuf,
}

impl Loop {
    /// A free one. Needs root.
    pub fn attach(image: &Path) -> anyhow::Result<Self> {
        let shown = run(Command::new("losetup")
            .args(["--find", "--show"])
            .arg(image))?;
        Ok(Self {
            device: shown.trim().into(),
        })
    }

    /// Attaches the same device to another image. An error if someone else has taken it meanwhile.
    pub fn exchange(&self, image: &Path) -> anyhow::Result<()> {
        self.detach()?;
        run(Command::new("losetup").arg(&self.device).arg(image)).map(drop)
    }

    /// The device.
    pub fn device(&self) -> &Path {
        &self.device
    }

    /// Mounts what it is attached to.
    pub fn mount(&self, kind: Kind, on: &Path) -> anyhow::Result<Mount> {
        Mount::device(&self.device, kind.name(), kind != Kind::Ext4, on)
    }

    fn detach(&self) -> anyhow::Result<()> {
        run(Command::new("losetup").arg("--detach").arg(&self.device)).map(drop)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = self.detach();
    }
}

/// The reason no images of this kind can be made and mounted here.
pub fn unavailable(kind: Kind) -> Option<String> {
    if !crate::skip::is_root() {
        return Some("needs root to mount images".to_owned());
    }
    let tools: &[&str] = match kind {
        Kind::Squashfs => &["losetup", "mksquashfs"],
        Kind::Erofs => &["losetup", "mkfs.erofs"],
        Kind::Ext4 => &["losetup", "mkfs.ext4", "debugfs"],
    };
    let is_missing = |tool: &&&str| {
        let found = Command::new("sh")
            .args(["-c", "command -v \"$0\"", tool])
            .stdout(Stdio::null())
            .status();
        !found.is_ok_and(|status| status.success())
    };
    if let Some(tool) = tools.iter().find(is_missing) {
        return Some(format!("needs {tool} (tests/tools.sh)"));
    }
    let attempt = || -> anyhow::Result<()> {
        let dir = TempDir::new()?;
        let image = kind.make(dir.path(), "attempt", b"content")?;
        let device = Loop::attach(&image)?;
        device.mount(kind, dir.path()).map(drop)
    };
    let failed = attempt().err()?;
    Some(format!(
        "{} images cannot be mounted: {failed:#}",
        kind.name()
    ))
}

fn run(command: &mut Command) -> anyhow::Result<String> {
    let done = command
        .output()
        .with_context(|| format!("run {}", command.get_program().display()))?;
    let error = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{command:?}: {error}");
    Ok(String::from_utf8(done.stdout)?)
}
