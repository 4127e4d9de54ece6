//! Namespaces against each other on one node: one does its worst, another comes when the node is
//! full. A pod has the volume alone: a read-only mount, and the socket in it.

use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tetris_agent::{Agent, LoadOptions, Model, Recognized};
use tetris_loader::PrivateCause;

use crate::processes::node::{MIB, Node};
use tetris_test_support::settled::settle;

/// Longest wait of a namespace that arrives for its first model.
const ARRIVAL: Duration = Duration::from_secs(5);
/// The node of these tests is 64 MiB; a sixteenth of it is guaranteed to a namespace.
const GUARANTEED: u64 = 4 * MIB;

/// A pod of a namespace.
struct Pod {
    agent: Agent,
    models: PathBuf,
}

impl Pod {
    fn start(node: &Node, namespace: &str) -> Self {
        let target = node.host.target(namespace);
        node.publish(&target, namespace).unwrap();
        let models = node.host.kubelet().parent().unwrap().join("models");
        fs::create_dir_all(&models).unwrap();
        Self {
            agent: Agent::open_store(&target).unwrap(),
            models: models.join(namespace),
        }
    }

    fn file(&self, number: u64, len: u64) -> PathBuf {
        let path = self.models.with_extension(number.to_string());
        let mut bytes = header(len);
        bytes.extend((0..len).map(|at| (at % 251) as u8 ^ (number % 256) as u8));
        // Files of one length differ, however many there are.
        let end = bytes.len() - 8;
        bytes[end..].copy_from_slice(&number.to_le_bytes());
        fs::write(&path, bytes).unwrap();
        settle(&path);
        path
    }

    /// Loads its own model, however small.
    fn load(&self, number: u64, len: u64) -> Model {
        let path = self.file(number, len);
        let model = self.load_file(&path);
        let bytes = fs::read(&path).unwrap();
        let weights = model.tensor("w").unwrap();
        assert!(weights.bytes() == &bytes[bytes.len() - len as usize..]);
        fs::remove_file(path).unwrap();
        model
    }

    fn load_file(&self, path: &Path) -> Model {
        let options = LoadOptions::default().with_min_shared_bytes(0);
        self.agent.load_with(path, &options).unwrap()
    }

    /// A model whose bytes are a hole, but for the last.
    fn sparse(&self, number: u64, len: u64) -> Model {
        let path = self.models.with_extension(format!("sparse-{number}"));
        let mut file = File::create(&path).unwrap();
        file.write_all(&header(len)).unwrap();
        file.seek(SeekFrom::Current(len.cast_signed() - 8)).unwrap();
        file.write_all(&number.to_le_bytes()).unwrap();
        drop(file);
        settle(&path);
        let model = self.load_file(&path);
        fs::remove_file(path).unwrap();
        model
    }
}

fn header(len: u64) -> Vec<u8> {
    let header = format!(r#"{{"w":{{"dtype":"U8","shape":[{len}],"data_offsets":[0,{len}]}}}}"#);
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes
}

fn is_brokered(model: &Model) -> bool {
    model.report().recognized == [Recognized::Brokered]
}

/// Asserts that a model is private because of a limit or another's guarantee, with a remedy.
fn require_refusal(model: &Model) {
    let report = model.report();
    let cause = report.private_cause.unwrap();
    assert!(
        matches!(cause, PrivateCause::OverLimit | PrivateCause::Kept { .. }),
        "{report:?}"
    );
    let remedy = cause.remedy(tetris_loader::Words::CommandLine, Path::new("/s"));
    assert!(remedy.contains("[policy."), "{remedy}");
}

/// A namespace comes, and gets a model of almost all that it is guaranteed.
fn arrive(node: &Node, namespace: &str, len: u64) -> (Pod, Model) {
    let begun = Instant::now();
    let pod = Pod::start(node, namespace);
    let model = pod.load(1, len);
    let took = begun.elapsed();
    assert!(is_brokered(&model), "{namespace}: {:?}", model.report());
    assert!(took < ARRIVAL, "{namespace}: {took:?}");
    (pod, model)
}

/// A node whose mount has these options besides.
fn node(mount: &str) -> Option<Node> {
    let mut node = Node::new()?;
    node.configure(mount);
    for name in ["volumes", "cluster", "broker"] {
        node.start(name);
    }
    node.serves();
    for namespace in ["red", "green"] {
        node.api.make(namespace);
    }
    Some(node)
}

/// Bytes of all files of a store, and their number.
fn stored(node: &Node, namespace: &str) -> (u64, u64) {
    let (mut bytes, mut files) = (0, 0);
    for folder in ["objects-v1", "manifests-v1", "identities-v1", "paths-v1"] {
        let folder = node.host.target(namespace).join(folder);
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            bytes += entry.metadata().unwrap().len();
            files += 1;
        }
    }
    (bytes, files)
}

#[test]
fn a_namespace_that_holds_all_it_can_leaves_others_their_guarantees() {
    let Some(node) = node("") else { return };
    let hostile = Pod::start(&node, "blue");
    let (victim, _kept) = arrive(&node, "red", 2 * MIB);
    let mut models = Vec::new();
    // Every model stays mapped. The last one is larger than all that can be left.
    for number in 0..30 {
        models.push(hostile.load(number, 3 * MIB));
    }
    let brokered = models.iter().filter(|model| is_brokered(model)).count() as u64;
    assert!(brokered >= 5, "{brokered}: {}", node.processes.logs());
    require_refusal(models.last().unwrap());
    let (bytes, _) = stored(&node, "blue");
    assert!(bytes <= 64 * MIB * 60 / 100, "{bytes}");
    // Its files that say they are long get no room either, however little of them there is.
    let sparse = hostile.sparse(1, 30 * MIB);
    require_refusal(&sparse);
    let (_arrived, first) = arrive(&node, "green", GUARANTEED - 512 * 1024);
    // The one that was there gets the rest of its share.
    let second = victim.load(2, GUARANTEED - 2 * MIB - 512 * 1024);
    assert!(is_brokered(&second), "{:?}", second.report());
    drop((first, models));
    assert!(
        !node.processes.logs().contains(" ERROR "),
        "{}",
        node.processes.logs()
    );
    node.processes.stop_all();
}

#[test]
fn a_flood_of_sparse_files_takes_nothing_that_others_are_guaranteed() {
    let Some(node) = node("") else { return };
    let hostile = Pod::start(&node, "blue");
    let (_victim, kept) = arrive(&node, "red", 3 * MIB);
    drop(kept);
    for number in 0..12 {
        drop(hostile.sparse(number, 20 * MIB));
        let (bytes, _) = stored(&node, "blue");
        assert!(bytes <= 64 * MIB * 60 / 100, "{bytes}");
    }
    // Not mapped, but within the guarantee: it is still there, and costs no reading.
    let (bytes, _) = stored(&node, "red");
    assert!(bytes >= 3 * MIB, "{bytes}");
    arrive(&node, "green", GUARANTEED - 512 * 1024);
    node.processes.stop_all();
}

#[test]
fn a_flood_of_tiny_files_takes_the_inodes_of_no_other() {
    // A sixteenth of 640 is 40 inodes for each namespace, of which a store without content has 16.
    let Some(node) = node("inodes = 640") else {
        return;
    };
    let hostile = Pod::start(&node, "blue");
    let (victim, _held) = arrive(&node, "red", 64 * 1024);
    let mut models = Vec::new();
    loop {
        models.push(hostile.load(models.len() as u64, 4096));
        if !is_brokered(models.last().unwrap()) {
            break;
        }
        assert!(models.len() < 400, "it has no end");
    }
    require_refusal(models.last().unwrap());
    let (_, files) = stored(&node, "blue");
    assert!(files > 100 && files < 640 * 60 / 100, "{files}");
    // It stays so: no one else is hurt by the next attempts.
    for number in 1000..1010 {
        assert!(!is_brokered(&hostile.load(number, 4096)));
    }
    arrive(&node, "green", 64 * 1024);
    let model = victim.load(2, 64 * 1024);
    assert!(is_brokered(&model), "{:?}", model.report());
    // Once they are not mapped, its own old files go for its new ones.
    drop(models);
    let model = hostile.load(2000, 4096);
    assert!(is_brokered(&model), "{:?}", model.report());
    node.processes.stop_all();
}
