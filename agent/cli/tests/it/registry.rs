//! A registry of another project.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::site::{eventually, skipped};

/// A registry that wants a login.
pub struct Registry {
    server: Child,
    pub address: String,
}

/// The login, and the line of it in a file of htpasswd.
const LOGIN: &str = "user:secret-of-a-test";
const HTPASSWD: &str = "user:$2b$04$Z9V4ZcyBCiMROy8YLM9POO6nDizHn4O4PKsvsw6e5PctOAvWBF2z6";

impl Registry {
    /// `None`, with the reason on stderr, where there is no registry.
    pub fn start(work: &Path) -> Option<Self> {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        std::fs::write(work.join("htpasswd"), HTPASSWD).unwrap();
        let config = format!(
            "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {work}/registry}}}}\nhttp: {{addr: '{address}', secret: x}}\nauth: {{htpasswd: {{realm: test, path: {work}/htpasswd}}}}\n",
            work = work.display()
        );
        let path = work.join("registry.yml");
        std::fs::write(&path, config).unwrap();
        let server = Command::new("docker-registry")
            .arg("serve")
            .arg(path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(server) = server else {
            skipped("no docker-registry (tests/tools.sh)");
            return None;
        };
        eventually("the registry answers", || {
            std::net::TcpStream::connect(&address).is_ok()
        });
        Some(Self { server, address })
    }

    /// Writes the login as `docker login` does.
    pub fn log_in(&self, docker: &Path) {
        // user:secret-of-a-test
        let auth = r#"{"auth": "dXNlcjpzZWNyZXQtb2YtYS10ZXN0"}"#;
        let config = format!(r#"{{"auths": {{"{}": {auth}}}}}"#, self.address);
        std::fs::write(docker.join("config.json"), config).unwrap();
    }

    /// Pushes the files of a folder and returns the digest of the manifest.
    pub fn push(&self, repo: &str, folder: &Path, media_type: &str, annotation: &str) -> String {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/push_artifact.py");
        let pushed = Command::new("python3")
            .arg(script)
            .args([&self.address, LOGIN, repo, "v1"])
            .arg(folder)
            .args([media_type, annotation])
            .output()
            .unwrap();
        assert!(pushed.status.success(), "{pushed:?}");
        String::from_utf8(pushed.stdout).unwrap().trim().to_owned()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
