//! The command that removes a cause, in the words of the reader's program.

use std::borrow::Cow;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};

use nix::unistd::geteuid;
use tetris_store_layout::StoreError;

use super::PrivateCause;

/// The program whose words a remedy uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Words {
    /// The command `tetris`.
    CommandLine,
    /// The Python package.
    Python,
    /// The node daemon.
    Daemon,
}

/// The words of this process's log.
static WORDS: AtomicU8 = AtomicU8::new(Words::CommandLine as u8);

impl Words {
    /// Sets the words of this process's log.
    pub fn set_for_process(self) {
        WORDS.store(self as u8, Ordering::Relaxed);
    }

    /// The words of this process's log: those of the command line unless set.
    pub fn of_process() -> Self {
        let set = WORDS.load(Ordering::Relaxed);
        let all = [Self::CommandLine, Self::Python, Self::Daemon];
        let words = all.into_iter().find(|words| *words as u8 == set);
        words.unwrap_or(Self::CommandLine)
    }
}

impl PrivateCause {
    /// The next step after a store could not be opened or created, if its own message has none.
    pub fn remedy_of_open(error: &StoreError, words: Words) -> Option<String> {
        let dir = match error {
            StoreError::NotAStore { path } | StoreError::Version { path, .. } => path.as_path(),
            StoreError::Header { path, .. } => path.parent()?,
            _ => return None,
        };
        Some(Self::of_open(error).remedy(words, dir))
    }

    /// The next step for the store in `dir`, with a command to run, as a phrase in the imperative.
    pub fn remedy(self, words: Words, dir: &Path) -> String {
        let store = Quoted(dir);
        match self {
            Self::NotUsed => not_used(words).to_owned(),
            Self::NoStore | Self::NotAStore => create(words, dir),
            Self::NotTrusted { owner } => not_trusted(words, dir, owner),
            Self::NoPermission => format!("have its owner run `chmod 0755 {store}`"),
            Self::OtherVersion { .. } | Self::DamagedStore => {
                format!("recreate the store with `tetris init --recreate {store}`")
            }
            Self::Unusable | Self::Failed => match words {
                Words::Python => "run `python -m tetris`, which looks for the reason".to_owned(),
                _ => format!("run `tetris doctor --store {store}`, which looks for the reason"),
            },
            Self::ReadOnly => format!(
                "have the node daemon publish: `tetris-node run --store {store}` on the node, as the store's owner or root"
            ),
            Self::NotMine { .. } => format!(
                "have the node daemon publish: `sudo tetris-node run --store {store}`, or {}",
                use_another(words, Path::new(&own_dir(dir)))
            ),
            Self::NoDaemon => format!(
                "start the node daemon: `sudo systemctl start tetris-node`, or `sudo tetris-node run --store {store}`"
            ),
            Self::DaemonSilent => {
                "restart the node daemon: `sudo systemctl restart tetris-node`".to_owned()
            }
            Self::DaemonRefused => {
                "read the node daemon's log: `journalctl -u tetris-node`".to_owned()
            }
            Self::Full { needed } => format!(
                "{}, or end processes that hold models",
                grow(words, dir, needed)
            ),
            Self::Kept { needed } => format!(
                "{}, or change what the node daemon keeps: `[policy.store]` and declared models",
                grow(words, dir, needed)
            ),
            Self::OverLimit => over_limit(dir),
            Self::TooSmall { needed } => grow(words, dir, needed),
            Self::DamagedObject => format!("run `tetris{} verify --quarantine`", named(words, dir)),
            Self::Leased => "on the node, run `grep LEASE /proc/locks`, which gives the process id, and end that process".to_owned(),
            Self::MappingLimit => "run `sudo sysctl -w vm.max_map_count=1048576`".to_owned(),
            Self::SmallFile | Self::NewFile => match words {
                Words::Python => "to share every file, set `TETRIS_MIN_SHARED_BYTES=0`".to_owned(),
                _ => "to share every file, load with `LoadOptions::with_min_shared_bytes(0)`"
                    .to_owned(),
            },
            Self::SmallPages if is_mount_point(dir) => {
                format!("run `sudo tetris init {store} --huge within-size`")
            }
            Self::SmallPages => {
                "run `sudo tetris init`, which mounts a store with 2 MiB pages".to_owned()
            }
        }
    }
}

/// A larger limit. Its table is that of the namespace, where pods get the store as a volume.
fn over_limit(dir: &Path) -> String {
    format!(
        "end processes that hold models of {}, or raise the limit in the node daemon's configuration: `limit_percent` or `limit_bytes` in `[policy.namespaces.NAME]` or `[policy.store]`",
        Quoted(dir)
    )
}

fn not_used(words: Words) -> &'static str {
    match words {
        Words::CommandLine => "use the store of this machine: `Agent::from_env()`",
        Words::Python => "use the store of this machine: `tetris.agent()`",
        Words::Daemon => "name a store: `tetris-node run --store /run/tetris/store`",
    }
}

fn create(words: Words, dir: &Path) -> String {
    let store = Quoted(dir);
    match words {
        Words::CommandLine => format!("run `tetris init {store}`"),
        Words::Python => {
            format!(
                "run `tetris init {store}`, or call `tetris.create_store({:?})`",
                dir.to_string_lossy()
            )
        }
        Words::Daemon => format!(
            "run `tetris init {store}`, or have the daemon mount it: the table `[mount]` of its configuration"
        ),
    }
}

fn not_trusted(words: Words, dir: &Path, owner: u32) -> String {
    let store = Quoted(dir);
    let name = match words {
        Words::CommandLine => {
            format!(
                "if you trust them, name it: `--store {store}`, or `export TETRIS_STORE={store}`"
            )
        }
        Words::Python => format!("if you trust them, name it: `export TETRIS_STORE={store}`"),
        Words::Daemon => return format!("run the daemon as user {owner} or as root"),
    };
    format!(
        "{name}, else {}",
        use_another(words, Path::new(&own_dir(dir)))
    )
}

/// Another store, in the place of one that does not serve.
fn use_another(words: Words, new: &Path) -> String {
    let store = Quoted(new);
    match words {
        Words::CommandLine => format!(
            "make another store with `tetris init {store}`, and name it with `export TETRIS_STORE={store}` or `--store {store}`"
        ),
        Words::Python => format!(
            "make another store with `tetris init {store}`, and name it with `export TETRIS_STORE={store}`"
        ),
        Words::Daemon => format!(
            "make another store with `tetris init {store}`, and give the daemon `--store {store}`"
        ),
    }
}

/// A larger store: the mount grows in place; a directory gives way to a mount.
fn grow(words: Words, dir: &Path, needed: u64) -> String {
    let (store, size) = (Quoted(dir), format!("{}MiB", needed.div_ceil(1 << 20)));
    if !is_mount_point(dir) {
        return format!(
            "mount a larger store with `sudo tetris init /run/tetris/store --size {size}`, and name it with `export TETRIS_STORE=/run/tetris/store`"
        );
    }
    match words {
        Words::Daemon => {
            format!("set `mount.size_bytes`, or run `sudo tetris init {store} --size {size}`")
        }
        _ => format!("run `sudo tetris init {store} --size {size}`"),
    }
}

/// The option that names a store to the command line; Python's words have the variable instead.
fn named(words: Words, dir: &Path) -> String {
    match words {
        Words::CommandLine => format!(" --store {}", Quoted(dir)),
        _ => String::new(),
    }
}

/// A directory on /dev/shm for a store of this user's own.
fn own_dir(other: &Path) -> String {
    let default = "/dev/shm/tetris";
    if other == Path::new(default) {
        return format!("{default}-{}", geteuid());
    }
    default.to_owned()
}

/// Returns true for the root of a file system.
fn is_mount_point(dir: &Path) -> bool {
    let device = |path: &Path| path.metadata().map(|metadata| metadata.dev()).ok();
    match (device(dir), device(&dir.join(".."))) {
        (Some(own), Some(above)) => own != above,
        _ => false,
    }
}

/// A path as a shell takes it.
struct Quoted<'p>(&'p Path);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path: Cow<'_, str> = self.0.to_string_lossy();
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c);
        if !path.is_empty() && path.chars().all(plain) {
            return f.write_str(&path);
        }
        write!(f, "'{}'", path.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_remedy_has_a_command_and_python_s_have_no_option_store() {
        let dir = Path::new("/run/tetris/store");
        for cause in PrivateCause::ALL {
            for words in [Words::CommandLine, Words::Python, Words::Daemon] {
                let remedy = cause.remedy(words, dir);
                assert!(
                    remedy.contains('`') || remedy.contains("run the daemon"),
                    "{cause:?}: {remedy}"
                );
                let first = remedy.chars().next().unwrap();
                assert!(first.is_lowercase() && !remedy.ends_with('.'), "{remedy}");
                // Messages put it behind their last semicolon.
                assert!(!remedy.contains("; "), "{remedy}");
            }
            let remedy = cause.remedy(Words::Python, dir);
            // The daemon has an option of that name; Python has none.
            let of_python = remedy.replace("tetris-node run --store", "");
            assert!(!of_python.contains("--store"), "{cause:?}: {remedy}");
        }
    }

    #[test]
    fn a_full_mount_is_told_to_grow_in_place_and_a_directory_to_give_way() {
        let cause = PrivateCause::TooSmall {
            needed: (8 << 30) + 1,
        };
        let mount = cause.remedy(Words::CommandLine, Path::new("/proc"));
        assert_eq!(mount, "run `sudo tetris init /proc --size 8193MiB`");
        let dir = tempfile::tempdir().unwrap();
        let plain = cause.remedy(Words::CommandLine, &dir.path().join("none"));
        assert!(
            plain.contains("sudo tetris init /run/tetris/store --size 8193MiB"),
            "{plain}"
        );
    }

    #[test]
    fn paths_are_quoted_for_a_shell() {
        assert_eq!(Quoted(Path::new("/a/b-c")).to_string(), "/a/b-c");
        assert_eq!(
            Quoted(Path::new("/a b/it's")).to_string(),
            r"'/a b/it'\''s'"
        );
    }

    #[test]
    fn a_process_has_the_words_of_the_command_line_until_told() {
        assert_eq!(Words::of_process(), Words::CommandLine);
        Words::Python.set_for_process();
        assert_eq!(Words::of_process(), Words::Python);
        Words::CommandLine.set_for_process();
    }
}
