//! Containers as a pod under Pod Security "restricted" has them.

use std::path::{Path, PathBuf};

use tetris_container_tests::model::Spec;
use tetris_container_tests::report::{Line, Loaded};

use crate::docker::Container;
use crate::host::Host;
use crate::image;
use crate::wait::until;

const MIB: u64 = 1 << 20;

/// Settings of a pod's container.
pub struct Pod<'a> {
    host: &'a Host,
    options: Vec<String>,
}

impl<'a> Pod<'a> {
    /// One of user `uid`, with `limit_mib` of memory.
    pub fn new(host: &'a Host, uid: u32, limit_mib: u64) -> Self {
        let options = vec![
            format!("--user={uid}:{uid}"),
            "--cap-drop=ALL".to_owned(),
            "--security-opt=no-new-privileges".to_owned(),
            format!("--memory={limit_mib}m"),
            // No swap, in which more than the limit would fit.
            format!("--memory-swap={limit_mib}m"),
            "--tmpfs=/scratch:size=64m,mode=1777".to_owned(),
        ];
        Self { host, options }
    }

    /// The store's volume.
    #[must_use]
    pub fn with_store(mut self, volume: &Path) -> Self {
        let volume = format!("--volume={}:/run/tetris/store:ro,rslave", volume.display());
        self.options.push(volume);
        self
    }

    #[must_use]
    pub fn with_models(mut self, dir: &Path) -> Self {
        let volume = format!("--volume={}:/models:ro", dir.display());
        self.options.push(volume);
        self
    }

    /// Descriptors that each process may have.
    #[must_use]
    pub fn with_descriptors(mut self, most: u32) -> Self {
        self.options.push(format!("--ulimit=nofile={most}:{most}"));
        self
    }

    pub fn run(&self, what: &str, command: &[&str]) -> Container {
        let command = [&[image::POD], command].concat();
        Container::start(what, &self.host.image.name, &self.options, &command)
    }

    /// A server that loads the model in `/models`, and holds it.
    pub fn load(&self, spec: Spec) -> Server {
        self.load_with(spec, &[])
    }

    pub fn load_with(&self, spec: Spec, more: &[&str]) -> Server {
        let (seed, tensors) = (spec.seed.to_string(), spec.tensors.to_string());
        let bytes = spec.tensor_bytes.to_string();
        let mut command = vec!["load", "/models/model.safetensors", "--seed", &seed];
        command.extend(["--tensors", &tensors, "--tensor-bytes", &bytes]);
        command.extend(more);
        Server {
            container: self.run("pod", &command),
        }
    }
}

/// A container that loads a model.
pub struct Server {
    pub container: Container,
}

impl Server {
    /// Waits until it has loaded its model and found the bytes to be right.
    pub fn loaded(&self) -> Loaded {
        until("the model is loaded", || {
            // Asked first: what it said before it ended is read afterwards.
            let runs = self.container.is_running();
            let loaded = said(&self.container)
                .into_iter()
                .find_map(|line| match line {
                    Line::Loaded(loaded) => Some(loaded),
                    _ => None,
                });
            assert!(runs || loaded.is_some(), "{:?}", self.container.ended());
            loaded
        })
    }

    /// Ends it as the kubelet does; its bytes were right to the end.
    pub fn end(self) {
        self.container.signal("TERM");
        let ended = self.container.ended();
        assert_eq!(ended, 0, "{}", self.container.stderr());
        assert!(said(&self.container).contains(&Line::StillRight));
    }
}

/// Output of a container's program so far, in whole lines.
pub fn said(container: &Container) -> Vec<Line> {
    let out = container.stdout();
    let whole = out.rfind('\n').map_or("", |end| &out[..end]);
    Line::read_all(whole).unwrap()
}

/// A model with a copy for each of several pods.
pub fn downloads(host: &Host, count: u32, spec: Spec) -> Vec<PathBuf> {
    let name = |index| format!("{}-{index}", spec.seed);
    (0..count)
        .map(|index| host.download(&name(index), spec))
        .collect()
}

/// As `docker run --memory` counts.
pub const fn mib(count: u64) -> u64 {
    count * MIB
}
