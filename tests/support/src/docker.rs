//! Images as they are deployed, run by Docker.
//!
//! They are made from the program of this build and the libraries that it names, with the Dockerfile of `deploy/images`: nothing else
//! is in them, as in those that are shipped. Where `TETRIS_IMAGE_TAG` is set, the images that `deploy/images/build` made with that
//! tag are run instead.

use std::io::Read as _;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Longest time for a program to connect.
const PATIENCE: Duration = Duration::from_mins(2);
/// First byte that a TLS client sends: a record of the handshake.
const HANDSHAKE: u8 = 22;

/// An image, and the program that its containers start.
pub struct Image {
    name: String,
    entry_point: String,
    is_ours: bool,
}

/// The reason no image can be run here, if none can.
pub fn missing() -> Option<String> {
    let answer = Command::new("docker").arg("version").output();
    match answer {
        Err(error) => Some(format!("no docker command: {error}")),
        Ok(output) if !output.status.success() => {
            Some("no Docker daemon answers (tests/docker.sh starts one)".to_owned())
        }
        Ok(_) => None,
    }
}

impl Image {
    /// The image called `image`, of `program`, which runs as `user`.
    pub fn of(image: &str, program: &str, user: &str) -> Self {
        let binary = Path::new(program).file_name().unwrap().to_str().unwrap();
        let entry_point = format!("/usr/local/bin/{binary}");
        if let Ok(tag) = std::env::var("TETRIS_IMAGE_TAG") {
            let name = format!("{image}:{tag}");
            return Self {
                name,
                entry_point,
                is_ours: false,
            };
        }
        let name = unique(image);
        let context = folder();
        let (root, copy) = (context.path().join("root"), context.path().join(binary));
        let images = images();
        check(
            Command::new(images.join("libraries"))
                .arg(program)
                .arg(&root),
        );
        // Each container takes a copy of the image, and debuggers have no part in this.
        let stripped = Command::new("strip")
            .arg("-o")
            .arg(&copy)
            .arg(program)
            .status();
        if !stripped.is_ok_and(|status| status.success()) {
            std::fs::copy(program, &copy).unwrap();
        }
        check(
            Command::new("docker")
                .arg("build")
                .arg("--quiet")
                .arg("--file")
                .arg(images.join("prebuilt-dynamic.Dockerfile"))
                .args(["--build-arg", &format!("BINARY={binary}")])
                .args(["--build-arg", &format!("USER={user}")])
                .args(["--tag", &name])
                .arg(context.path()),
        );
        Self {
            name,
            entry_point,
            is_ours: true,
        }
    }

    /// Runs it to its end, on this host's network.
    pub fn output(&self, options: &[String], arguments: &[&str]) -> Output {
        let mut command = self.run(&["--rm"], options);
        command.args(arguments).output().unwrap()
    }

    /// Starts it, on this host's network.
    pub fn start(&self, options: &[String], arguments: &[&str]) -> Container {
        let name = unique("container");
        let container = Container(name.clone());
        check(
            self.run(&["--detach", "--name", &name], options)
                .args(arguments),
        );
        container
    }

    fn run(&self, how: &[&str], options: &[String]) -> Command {
        let mut command = Command::new("docker");
        command.arg("run").args(how).args(options);
        // As a manifest's `command`, which takes the place of an entry point.
        command.args(["--network=host", "--entrypoint", &self.entry_point]);
        command.arg(&self.name);
        command
    }

    /// Checks that it prints its version and how it is used.
    pub fn answers_version_and_help(&self) {
        let text = |output: Output| {
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{errors}");
            String::from_utf8(output.stdout).unwrap()
        };
        let binary = self.entry_point.rsplit('/').next().unwrap();
        let version = text(self.output(&[], &["--version"]));
        assert_eq!(
            version.trim(),
            format!("{binary} {}", env!("CARGO_PKG_VERSION"))
        );
        let help = text(self.output(&[], &["--help"]));
        assert!(help.contains("Usage:") && help.contains(binary), "{help}");
    }

    /// Checks that it connects to an API server with TLS for which the kubeconfig names no certificate authority.
    pub fn reaches_an_api_server(&self, options: &[String], arguments: &[&str]) {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let dir = folder();
        let url = format!("https://{}", server.local_addr().unwrap());
        let mut options = options.to_vec();
        options.extend(kubeconfig(dir.path(), &url));
        let container = self.start(&options, arguments);
        assert_eq!(first_byte(&server, &container), HANDSHAKE);
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        if self.is_ours {
            let _gone = Command::new("docker")
                .args(["rmi", "--force", &self.name])
                .output();
        }
    }
}

/// A container, which ends with this.
pub struct Container(String);

impl Container {
    /// Returns the log of the container.
    pub fn log(&self) -> String {
        let output = Command::new("docker").args(["logs", &self.0]).output();
        let output = output.unwrap();
        [output.stdout, output.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .concat()
    }

    /// Returns true if the container runs.
    pub fn is_running(&self) -> bool {
        let format = ["inspect", "--format", "{{.State.Running}}", &self.0];
        let output = Command::new("docker").args(format).output().unwrap();
        output.stdout.starts_with(b"true")
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if std::thread::panicking() {
            use std::io::Write as _;
            let _shown = writeln!(std::io::stderr(), "--- {}\n{}", self.0, self.log());
        }
        let _gone = Command::new("docker")
            .args(["rm", "--force", &self.0])
            .output();
    }
}

/// Options by which a container finds the API server at `url`: a kubeconfig in `dir` without certificates.
pub fn kubeconfig(dir: &Path, url: &str) -> [String; 2] {
    let text = format!(
        "{{clusters: [{{name: c, cluster: {{server: '{url}'}}}}], users: [{{name: u, user: {{token: t}}}}], \
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}], current-context: x}}"
    );
    std::fs::write(dir.join("kubeconfig"), text).unwrap();
    readable(dir);
    [
        format!("--volume={0}:{0}:ro", dir.display()),
        format!("--env=KUBECONFIG={}/kubeconfig", dir.display()),
    ]
}

/// Has every user read what is in `dir`: images do not run as root.
pub fn readable(dir: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The first byte that anybody sends to `server`, while `container` runs.
fn first_byte(server: &TcpListener, container: &Container) -> u8 {
    server.set_nonblocking(true).unwrap();
    let began = std::time::Instant::now();
    loop {
        if let Ok((mut stream, SocketAddr::V4(_))) = server.accept() {
            stream.set_nonblocking(false).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut first = [0];
            stream.read_exact(&mut first).unwrap();
            return first[0];
        }
        assert!(container.is_running(), "it ended: {}", container.log());
        assert!(began.elapsed() < PATIENCE, "nobody connected");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A folder below that of the build, which Docker reaches.
fn folder() -> tempfile::TempDir {
    let below = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tmp"));
    std::fs::create_dir_all(below).unwrap();
    // A container sees it under the same path.
    tempfile::tempdir_in(below.canonicalize().unwrap()).unwrap()
}

fn images() -> PathBuf {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let folder = above.find_map(|folder| {
        let images = folder.join("deploy/images");
        images.exists().then_some(images)
    });
    folder.unwrap()
}

fn unique(what: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("tetris-test-{}-{next}-{what}", std::process::id())
}

fn check(command: &mut Command) {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
}
