//! Builds the fake driver, and runs tests of this test program in processes that load it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

pub const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fake-driver");

/// One machine: processes started with it see the same devices.
pub struct FakeDriver {
    /// Device memory in MiB that is not for the tests: that of a context, and of other programs.
    unavailable_mib: i32,
    state: TempDir,
    library: PathBuf,
    options: Vec<(String, String)>,
}

/// Folder with the library. Concurrent builds write the same file.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| build("fake-driver", &[]))
}

/// A C compiler, which Rust needs for linking too.
fn compiler() -> Command {
    let mut command = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()));
    command.args([
        "-std=c11",
        "-D_GNU_SOURCE",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pthread",
    ]);
    command
}

/// C files, with their contents.
fn sources() -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(SOURCES).unwrap();
    let files = entries.map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files
        .filter(|path| path.is_file())
        .map(|path| (path.clone(), std::fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

/// Builds the library, unless another process has built it from the same files.
fn build(name: &str, more: &[&str]) -> PathBuf {
    let sources = sources();
    let mut command = compiler();
    command.args(["-shared", "-fPIC", "-fvisibility=hidden"]);
    command.args(more).arg("-Wl,-soname,libcuda.so.1");
    let is_code = |path: &Path| path.extension().is_some_and(|end| end == "c");
    command.args(
        sources
            .iter()
            .map(|(path, _)| path)
            .filter(|path| is_code(path)),
    );
    let mut hasher = DefaultHasher::new();
    (format!("{command:?}"), &sources).hash(&mut hasher);
    let folder = format!("{name}-{:016x}", hasher.finish());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    if folder.join("libcuda.so.1").exists() {
        return folder;
    }
    std::fs::create_dir_all(&folder).unwrap();
    let made = folder.join(format!("libcuda.{}", std::process::id()));
    let status = command.arg("-o").arg(&made).status();
    let built = status.unwrap_or_else(|error| panic!("expected a C compiler: {error}"));
    assert!(built.success(), "the fake driver is not built: {built}");
    std::fs::rename(made, folder.join("libcuda.so.1")).unwrap();
    folder
}

impl FakeDriver {
    pub fn new() -> Self {
        Self {
            unavailable_mib: 0,
            state: tempfile::tempdir_in("/dev/shm").unwrap(),
            library: library().to_owned(),
            options: Vec::new(),
        }
    }

    /// A driver with all of the options that make it unkind and go together: calls take time,
    /// memory is used by others and comes back late, and a wrong size or address is fatal.
    pub fn unkind() -> Self {
        let driver = Self {
            unavailable_mib: 32,
            ..Self::new()
        };
        driver.with("UNKIND", 1)
    }

    /// A kind and an unkind driver: the tests run with both.
    pub fn each() -> [Self; 2] {
        [Self::new(), Self::unkind()]
    }

    /// Sets the memory of each device so that one process has this much for its tests.
    pub fn with_room(self, mib: i32) -> Self {
        let all = mib + self.unavailable_mib;
        self.with("MEMORY_MIB", all)
    }

    /// A driver older than version 11.4.
    pub fn old() -> Self {
        Self {
            library: build("fake-old-driver", &["-DFAKE_OLD_DRIVER"]),
            ..Self::new()
        }
    }

    /// Sets an option of the fake driver: see README.md beside this file.
    pub fn with(self, option: &str, value: i32) -> Self {
        self.with_variable(&format!("FAKE_CUDA_{option}"), &value.to_string())
    }

    /// Makes calls fail: `NAME:CODE[:FIRST[:COUNT]]`.
    pub fn failing(self, calls: &str) -> Self {
        self.with_variable("FAKE_CUDA_FAIL", calls)
    }

    /// Sets an environment variable of the tests.
    pub fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.options.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Compiles a program linked to the driver.
    pub fn compile(&self, name: &str, source: &str) -> PathBuf {
        let program = self.state.path().join(name);
        let mut command = compiler();
        command
            .args(["-I", SOURCES, source])
            .arg("-o")
            .arg(&program);
        let library = self.library.join("libcuda.so.1");
        let status = command.arg(library).status().unwrap();
        assert!(status.success(), "{source} is not built: {status}");
        program
    }

    /// Environment with which a process loads the driver and finds the machine's state.
    pub fn environment(&self) -> Vec<(&str, String)> {
        let mut all = vec![
            ("LD_LIBRARY_PATH", self.library.display().to_string()),
            // A choice among the machine's own devices does not apply to the fake ones.
            ("TETRIS_CUDA_DEVICE", "0".to_owned()),
            ("FAKE_CUDA_STATE", self.state.path().display().to_string()),
        ];
        let options = self.options.iter();
        all.extend(options.map(|(name, value)| (name.as_str(), value.clone())));
        all
    }

    /// Runs ignored tests one after the other in another process, and returns their output.
    pub fn run(&self, tests: &[&str]) -> String {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(tests)
            .args(["--ignored", "--nocapture", "--test-threads=1"]);
        let output = command.envs(self.environment()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{}\n{said}\n{errors}",
            output.status
        );
        assert!(!said.contains("running 0 tests"), "no test of {tests:?}");
        said
    }

    /// Runs one ignored test, like [`Self::run`].
    pub fn run_one(&self, test: &str) -> String {
        self.run(&[test, "--exact"])
    }

    /// The driver's record: `misuse` or `leaks`.
    pub fn remembers(&self, file: &str) -> String {
        std::fs::read_to_string(self.state.path().join(file)).unwrap_or_default()
    }

    /// Checks that no process broke a rule of the driver or left a resource behind at its end.
    pub fn check(&self) {
        assert_eq!(self.remembers("misuse"), "");
        assert_eq!(self.remembers("leaks"), "");
    }
}
