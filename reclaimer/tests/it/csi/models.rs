//! Volumes of models: pods that wait, one file system for all of them, and pods that keep models badly.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tetris_agent::daemon::{DaemonClient, KeeperNews, ModelKeeper};
use tetris_agent::{Agent, LoadOptions};
use tetris_delivery::{Destination, PullOptions, SourceName, pull};
use tetris_folder::{ModelFolder, ShownFolder};
use tetris_node::csi::wire::NodePublishVolumeRequest;
use tetris_node::csi::{CsiConfig, PodTrust};
use tetris_node::ingest::{Broker, IngestOptions};
use tetris_node::models::ModelState;
use tetris_node::socket::{Limits, Socket};
use tetris_store_layout::{SOCKET_USER, Store};
use tetris_test_support::api::{Api, uid_of};
use tetris_test_support::models::write_model;
use tetris_wire::daemon::{ModelReport, ModelStage};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tonic::Code;

use crate::csi::calls::mounts;
use crate::csi::fixture::{Driver, Host, PATIENCE, call, request};
use crate::ingest::harness::{eventually, no_room};

const MODEL: &str = "llama";

/// A node with the store of a namespace, whose daemon answers there, and a model in a folder.
struct Node {
    host: Host,
    driver: Driver,
    source: tempfile::TempDir,
    _stop: oneshot::Sender<()>,
}

impl Node {
    /// `None` where pods have no trust domains, which is said.
    fn new() -> Option<Self> {
        Self::with(PodTrust::ServiceAccount)
    }

    fn with(trust_domain: PodTrust) -> Option<Self> {
        let host = Host::new()?;
        let config = CsiConfig {
            trust_domain,
            ..host.per_namespace()
        };
        let driver = Driver::start_with(&config, Vec::new(), &Api::new());
        let volumes = driver.volumes.borrow().clone().unwrap();
        if let Some(reason) = volumes.plain_because {
            let _ = writeln!(std::io::stderr(), "SKIPPED: {reason}");
            return None;
        }
        // The pod that will keep the model.
        driver
            .publish(request(&host.target("keeper"), "blue"))
            .unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        serve(&host, &driver, stopped);
        let source = tempfile::tempdir().unwrap();
        write_model(&source.path().join("model.safetensors"), 1, None);
        fs::write(source.path().join("config.json"), b"{}").unwrap();
        Some(Self {
            host,
            driver,
            source,
            _stop: stop,
        })
    }

    fn target(&self, pod: &str) -> PathBuf {
        self.host.target(pod)
    }

    /// The kubelet's request for a volume of the model.
    fn wish(&self, pod: &str, account: &str) -> NodePublishVolumeRequest {
        let mut request = request(&self.target(pod), "blue");
        let context = &mut request.volume_context;
        context.insert("content".to_owned(), "model".to_owned());
        context.insert("model".to_owned(), MODEL.to_owned());
        let key = "csi.storage.k8s.io/serviceAccount.name";
        context.insert(key.to_owned(), account.to_owned());
        request
    }

    /// Pulls the model as a pod, and keeps it.
    fn keep(&self) -> Kept {
        let agent = Agent::open_store(self.target("keeper")).unwrap();
        let source: SourceName = self.source.path().to_str().unwrap().parse().unwrap();
        let publisher = agent.node_publisher(&LoadOptions::default()).unwrap();
        let destination = Destination::through(&publisher);
        pull(&source, destination, &PullOptions::default()).unwrap();
        let (store, domains) = (agent.store().unwrap(), publisher.domains());
        let folder = ModelFolder::open(&source.stored_name(), &domains, store, 1).unwrap();
        let folder = Arc::new(ShownFolder::new(folder).unwrap());
        let mut keeper = keeper(&agent);
        let (ended, mount_ended) = channel();
        let thread = std::thread::spawn(move || {
            let mut mount = 0;
            while let Ok(passed) = keeper.report(report(ModelStage::Present, mount)) {
                let Some(KeeperNews::Mount(passed)) = passed else {
                    continue;
                };
                mount = passed.mount;
                let (folder, ended, agent) = (Arc::clone(&folder), ended.clone(), agent.clone());
                std::thread::spawn(move || {
                    let open =
                        Box::new(move |object: &_| agent.store()?.object_file(object).ok()?);
                    let served = folder.serve(passed.device, 2, open);
                    let _gone = ended.send(served.is_ok());
                });
            }
        });
        Kept {
            thread,
            mount_ended,
        }
    }

    fn publish_soon(&self, request: NodePublishVolumeRequest) -> Result<(), tonic::Status> {
        let socket = self.host.per_namespace().socket();
        let method = "/csi.v1.Node/NodePublishVolume";
        let called =
            call::<_, tetris_node::csi::wire::NodePublishVolumeResponse>(socket, method, request);
        let limit = Duration::from_millis(800);
        let done = self
            .driver
            .runtime()
            .block_on(async { timeout(limit, called).await });
        done.unwrap_or_else(|_| Err(tonic::Status::deadline_exceeded("it waits")))
            .map(drop)
    }
}

/// A pod that keeps the model.
struct Kept {
    thread: JoinHandle<()>,
    /// True for each mount that ended well.
    mount_ended: Receiver<bool>,
}

/// Answers as the daemon on the socket of the namespace's store.
fn serve(host: &Host, driver: &Driver, stopped: oneshot::Receiver<()>) {
    let name = format!("blue.{}", uid_of("blue", 1));
    let root = host.tmpfs().join(&name);
    let socket = {
        let _inside = driver.runtime().enter();
        Socket::bind(&root, name)
            .unwrap()
            .with_broker(Broker::new(IngestOptions::default(), no_room()))
            .with_models(driver.models.clone())
            .for_readers(true)
    };
    let user = Some(SOCKET_USER);
    std::os::unix::fs::lchown(root.join("daemon"), user, user).unwrap();
    let (asks, _nobody) = mpsc::channel(1);
    let stopped = async {
        let _stopped = stopped.await;
    };
    let serving = socket.serve(asks, Limits::default(), |_| {}, stopped);
    driver.runtime().spawn(serving);
}

fn keeper(agent: &Agent) -> ModelKeeper {
    let store = agent.store().unwrap();
    let client = DaemonClient::of_store(store, PATIENCE);
    client
        .keep_model(store.header_descriptor(), MODEL, 0)
        .unwrap()
}

fn report(stage: ModelStage, mount: u64) -> ModelReport {
    ModelReport {
        stage,
        done: 1,
        total: 4,
        bytes_per_second: 1,
        mount,
        problem: String::new(),
    }
}

fn device(path: &Path) -> u64 {
    fs::metadata(path).unwrap().dev()
}

#[test]
fn a_pod_waits_for_its_model_and_all_pods_share_one_file_system() {
    let Some(node) = Node::new() else { return };
    let (first, second) = (node.target("first"), node.target("second"));
    let wish = node.wish("first", "default");
    let socket = node.host.per_namespace().socket();
    let method = "/csi.v1.Node/NodePublishVolume";
    let waiting = node.driver.runtime().spawn(call::<
        _,
        tetris_node::csi::wire::NodePublishVolumeResponse,
    >(socket, method, wish.clone()));
    std::thread::sleep(Duration::from_millis(300));
    assert!(!waiting.is_finished() && mounts(&first).is_empty());
    let kept = node.keep();
    node.driver.runtime().block_on(waiting).unwrap().unwrap();
    node.driver.publish(wish).unwrap();
    node.driver.publish(node.wish("second", "default")).unwrap();
    for (target, name) in [(&first, "model.safetensors"), (&second, "config.json")] {
        let shown = fs::read(target.join(name)).unwrap();
        assert_eq!(shown, fs::read(node.source.path().join(name)).unwrap());
        let [mount] = &*mounts(target) else {
            panic!("{:?}", mounts(target))
        };
        assert!(mount.contains(" ro,nosuid,nodev,noexec"), "{mount}");
        assert!(mount.contains("fuse.tetris-model"), "{mount}");
        let refused = fs::write(target.join("new"), "x").unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    }
    assert_eq!(device(&first), device(&second));
    // It ends with the last pod that has it.
    node.driver.unpublish(&first).unwrap();
    assert!(!first.exists() && second.join("config.json").exists());
    kept.mount_ended.try_recv().unwrap_err();
    node.driver.unpublish(&second).unwrap();
    assert_eq!(kept.mount_ended.recv_timeout(PATIENCE), Ok(true));
    // The next pod gets a new one.
    node.driver.publish(node.wish("first", "default")).unwrap();
    assert_eq!(fs::read(first.join("config.json")).unwrap(), b"{}");
    node.driver.unpublish(&first).unwrap();
    assert_eq!(kept.mount_ended.recv_timeout(PATIENCE), Ok(true));
}

#[test]
fn pods_of_other_service_accounts_get_nothing() {
    let Some(node) = Node::new() else { return };
    let kept = node.keep();
    let refused = node.publish_soon(node.wish("other", "batch")).unwrap_err();
    assert_eq!(refused.code(), Code::DeadlineExceeded);
    assert!(mounts(&node.target("other")).is_empty());
    assert!(!kept.thread.is_finished());
}

#[test]
fn a_pod_that_takes_no_mount_keeps_its_own_pods_waiting_and_no_others() {
    let Some(node) = Node::new() else { return };
    let agent = Agent::open_store(node.target("keeper")).unwrap();
    let mut keeper = keeper(&agent);
    // It has the model by its word, and never asks for the mounts.
    let silent = std::thread::spawn(move || {
        drop(keeper.report(report(ModelStage::Present, 0)));
        std::thread::sleep(Duration::from_secs(4));
        drop(keeper);
    });
    let store = agent.store().unwrap();
    let domain = DaemonClient::of_store(store, PATIENCE).trust_domain(store.header_descriptor());
    let key = tetris_node::models::ModelKey {
        store: format!("blue.{}", uid_of("blue", 1)),
        domain: domain.unwrap().unwrap(),
        name: MODEL.to_owned(),
    };
    eventually("the model is said to be there", || {
        matches!(node.driver.models.state(&key), ModelState::Present { .. })
    });
    // The first takes the descriptor and answers no one; the others are not kept from their stores meanwhile.
    for pod in ["first", "second"] {
        drop(node.publish_soon(node.wish(pod, "default")));
    }
    node.driver
        .publish(request(&node.target("store"), "blue"))
        .unwrap();
    Store::open(node.target("store")).unwrap();
    silent.join().unwrap();
    for pod in ["first", "second"] {
        node.driver.unpublish(&node.target(pod)).unwrap();
    }
    eventually("the model is gone", || {
        node.driver.models.state(&key) == ModelState::Absent
    });
}

#[test]
fn pods_without_a_trust_domain_are_told_why_they_get_no_model() {
    let Some(node) = Node::with(PodTrust::Off) else {
        return;
    };
    let refused = node.driver.publish(node.wish("first", "default"));
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    let expected = "a pod gets no model here: `csi.trust_domain` is `off`";
    assert_eq!(refused.message(), expected);
}
