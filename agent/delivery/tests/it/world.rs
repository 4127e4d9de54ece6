//! A store, a server and pulls between them.

use std::path::PathBuf;
use std::time::Duration;

use tetris_delivery::{Destination, FileReport, PullError, PullOptions, PullReport, pull};
use tetris_store_layout::Store;
use tetris_test_support::model_site::ModelSite;
use tetris_test_support::models::{Fixture, assert_same};

/// A store and a server with one model.
pub struct World {
    pub fixture: Fixture,
    pub site: ModelSite,
    /// The model as a file of this machine.
    pub model: PathBuf,
}

/// Options with which a broken server is given up soon.
pub fn options() -> PullOptions {
    PullOptions::default()
        .with_stall(Duration::from_millis(300))
        .with_attempts(2)
}

impl World {
    pub fn new() -> Self {
        let fixture = Fixture::new();
        let model = fixture.model("m.safetensors", 1);
        let site = ModelSite::new();
        site.put("m.safetensors", std::fs::read(&model).unwrap());
        Self {
            fixture,
            site,
            model,
        }
    }

    pub fn store(&self) -> &Store {
        self.fixture.store()
    }

    pub fn destination(&self) -> Destination<'_> {
        Destination::writable(self.store(), &|_| false)
    }

    pub fn size(&self) -> u64 {
        std::fs::metadata(&self.model).unwrap().len()
    }

    /// Pulls from the address of a file.
    pub fn pull(&self, path: &str) -> Result<PullReport, PullError> {
        self.pull_with(path, &options())
    }

    pub fn pull_with(&self, path: &str, options: &PullOptions) -> Result<PullReport, PullError> {
        let source = self.site.file_url(path).parse().unwrap();
        pull(&source, self.destination(), options)
    }

    /// The only file of a pull.
    #[track_caller]
    pub fn pull_one(&self, path: &str) -> FileReport {
        let mut files = self.pull(path).unwrap().files;
        assert_eq!(files.len(), 1);
        files.remove(0)
    }

    /// Number of objects in the store.
    pub fn objects(&self) -> usize {
        self.store().objects().unwrap().objects.len()
    }

    /// Checks that the file of this machine is loaded by what the pull left: no byte of it is new.
    #[track_caller]
    pub fn assert_loads_from_the_store(&self) {
        let model = self.fixture.agent.load(&self.model).unwrap();
        assert_eq!(model.report().bytes_new, 0);
        assert_eq!(model.report().bytes_private, 0);
        assert_same(&model, &self.model);
    }
}
