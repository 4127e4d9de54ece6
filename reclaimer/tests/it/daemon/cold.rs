//! The cold tier of a daemon: models come back after a restart of the machine, and when a pull asks for them.

use std::os::unix::fs::{FileExt as _, PermissionsExt};
use std::path::PathBuf;

use tempfile::TempDir;
use tetris_agent::Agent;
use tetris_agent::daemon::DaemonClient;
use tetris_delivery::{Destination, PullOptions, PullReport, pull};
use tetris_store_layout::{ObjectEntry, ObjectRef, Reclaimed, Store};
use tetris_test_support::model_site::ModelSite;
use tetris_test_support::models::write_model;

use crate::daemon::harness::{Daemon, Place, command, eventually};

/// A node with a disk, and a web server with a model.
struct Node {
    place: Place,
    disk: TempDir,
    site: ModelSite,
    model: PathBuf,
}

impl Node {
    fn new() -> Self {
        let place = Place::new();
        let site = ModelSite::new();
        let model = place.path("m.safetensors");
        write_model(&model, 1, None);
        site.put("m.safetensors", std::fs::read(&model).unwrap());
        Self {
            place,
            disk: TempDir::new().unwrap(),
            site,
            model,
        }
    }

    fn daemon(&self) -> Daemon {
        let cold = self.disk.path().join("cold");
        let config = format!(
            "listen = \"127.0.0.1:0\"\ncold = {{ path = \"{}\", size_bytes = \"1GiB\", free_percent = 0 }}\n",
            cold.display()
        );
        Daemon::start(&self.place.config(&config), &[])
    }

    /// All of the memory is gone, as after a restart of the machine.
    fn restart_machine(&self) {
        std::fs::remove_dir_all(self.place.path("store")).unwrap();
        drop(self.place.store());
    }

    fn pull(&self, store: &Store) -> PullReport {
        let source = self.site.file_url("m.safetensors").parse().unwrap();
        let destination = Destination::writable(store, &|_| false);
        pull(&source, destination, &PullOptions::default()).unwrap()
    }

    fn loads_without_reading(&self) {
        let agent = Agent::open_store(self.place.path("store")).unwrap();
        let loaded = agent.load(&self.model).unwrap();
        assert_eq!(loaded.report().bytes_new, 0, "{:?}", loaded.report());
    }
}

fn is_on_disk(daemon: &Daemon) {
    eventually("the model on the disk", || {
        let page = daemon.get("/metrics");
        page.contains("tetris_cold_models{store=\"a\"} 1\n")
            .then_some(())
    });
}

fn objects(store: &Store) -> Vec<ObjectRef> {
    let entries: Vec<ObjectEntry> = store.objects().unwrap().objects;
    let mut objects: Vec<ObjectRef> = entries.iter().map(|entry| entry.object).collect();
    objects.sort_unstable_by_key(|object| object.id);
    objects
}

#[test]
fn models_come_back_by_themselves_after_a_restart_of_the_machine() {
    let node = Node::new();
    let store = node.place.store();
    let daemon = node.daemon();
    node.pull(&store);
    let before = objects(&store);
    drop(store);
    is_on_disk(&daemon);
    assert!(daemon.stop().success());

    node.restart_machine();
    let daemon = node.daemon();
    daemon.says("a model is back from the disk");
    let store = node.place.store();
    assert_eq!(objects(&store), before);
    assert!(daemon.metric("tetris_cold_restored_bytes_total{store=\"a\"}") > 0.0);
    node.loads_without_reading();
    let again = node.pull(&store);
    assert_eq!((again.fetched, again.restored), (0, 0));
    assert!(daemon.stop().success());
}

#[test]
fn a_pull_takes_freed_objects_from_the_disk_and_not_from_the_source() {
    let node = Node::new();
    let store = node.place.store();
    let daemon = node.daemon();
    node.pull(&store);
    is_on_disk(&daemon);
    let before = objects(&store);
    let mut freed = 0;
    for object in &before {
        if object.len > 100_000 {
            assert!(matches!(
                store.reclaim(object).unwrap(),
                Reclaimed::Freed { .. }
            ));
            freed += object.len;
        }
    }
    assert!(freed > 0);
    let again = node.pull(&store);
    assert_eq!((again.fetched, again.restored), (0, freed));
    assert_eq!(objects(&store), before);
    node.loads_without_reading();
    assert!(daemon.stop().success());
}

#[test]
fn a_damaged_model_on_the_disk_comes_from_its_source() {
    let node = Node::new();
    let store = node.place.store();
    let daemon = node.daemon();
    node.pull(&store);
    is_on_disk(&daemon);
    let before = objects(&store);
    let largest = *before.iter().max_by_key(|object| object.len).unwrap();
    store.reclaim(&largest).unwrap();
    let cold = Store::open(node.disk.path().join("cold/a")).unwrap();
    let path = cold.object_path(&largest);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[0xff; 64], 1000).unwrap();

    let again = node.pull(&store);
    assert_eq!(again.restored, 0);
    assert!(again.fetched >= largest.len, "{again:?}");
    assert_eq!(objects(&store), before);
    daemon.says("it is removed from the cold tier");
    assert!(daemon.metric("tetris_cold_damaged_models_total{store=\"a\"}") >= 1.0);
    // It is kept again.
    eventually("the model on the disk again", || {
        cold.contains(&largest).then_some(())
    });
    assert!(daemon.stop().success());
}

#[test]
fn clients_get_no_model_that_the_disk_does_not_have() {
    let node = Node::new();
    let store = node.place.store();
    let daemon = node.daemon();
    let client = DaemonClient::of_store(&store, std::time::Duration::from_secs(20));
    eventually("the daemon's socket", || client.version().ok());
    for source in ["hf://org/unknown", "", "../../etc", &"x".repeat(600)] {
        let restored = client.restore_model(store.header_descriptor(), source, |_, _| {});
        assert_eq!(restored.unwrap(), None, "{source}");
    }
    assert!(daemon.stop().success());
}

#[test]
fn a_file_that_no_source_promised_is_not_kept() {
    let node = Node::new();
    let store = node.place.store();
    let daemon = node.daemon();
    // A file of this machine is read from its own disk again.
    drop(node.place.load(5_000_000, 1));
    node.pull(&store);
    is_on_disk(&daemon);
    let cold = Store::open(node.disk.path().join("cold/a")).unwrap();
    let kept: u64 = objects(&cold).iter().map(|object| object.len).sum();
    let model = std::fs::metadata(&node.model).unwrap().len();
    assert!(kept < model + 100_000, "{kept} of {model}");
    assert!(daemon.stop().success());
}

#[test]
fn mistakes_in_the_table_name_the_field() {
    let place = Place::new();
    drop(place.store());
    let inside = place.path("store/cold");
    let inside = format!("path = \"{}\", size_bytes = \"1GiB\"", inside.display());
    for (table, field) in [
        ("path = \"cold\", size_bytes = \"1GiB\"", "cold.path"),
        (inside.as_str(), "cold.path"),
        ("path = \"/var/lib/x\", size_bytes = 5", "cold.size_bytes"),
        (
            "path = \"/var/lib/x\", size_bytes = \"1GiB\", free_percent = 99",
            "cold.free_percent",
        ),
        ("path = \"/var/lib/x\"", "size_bytes"),
        (
            "path = \"/var/lib/x\", size_bytes = \"1GiB\", sise = 1",
            "sise",
        ),
    ] {
        let output = command(
            &["check"],
            &place.config(&format!("cold = {{ {table} }}\n")),
        );
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && stderr.contains(field),
            "{table}: {stderr}"
        );
    }
}
