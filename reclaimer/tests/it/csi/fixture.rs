//! A kubelet's directory, a tmpfs with stores, and the driver between them.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use nix::mount::MsFlags;
use tetris_node::config::ConfigFile;
use tetris_node::csi::wire::*;
use tetris_node::csi::{CsiConfig, CsiError, Keeper, PerNamespace, Removal, Stores, serve_csi};
use tetris_node::engine::{Leave, Reclaimer};
use tetris_node::kubernetes::{KnownNamespaces, watch_namespaces};
use tetris_node::models::{KeptModels, ModelQuestion, ModelState, MountAnswer, MountOrder};
use tetris_node::mount::{StoreDirectory, StoreGround};
use tetris_node::report::VolumeStatus;
use tetris_node::store::StoreConfig;
use tetris_node::store::remove_directory;
use tetris_store_layout::{CreateOptions, Store};
use tokio::net::UnixStream;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use tetris_test_support::api::{Api, POD_UID};
use tetris_test_support::mounts::{self, Place};

/// Longer than anything here takes, however busy the machine is.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// A host: directories of the kubelet and of the stores, below shared mounts.
pub struct Host {
    dir: Place,
}

impl Host {
    /// In a mount namespace of this thread; `None` for who is not root.
    pub fn new() -> Option<Self> {
        mounts::enter().then(|| {
            let dir = Place::default();
            let host = Self { dir };
            for place in [host.kubelet(), host.tmpfs()] {
                mounts::tmpfs(&place, "size=16m");
                mounts::propagation(&place, MsFlags::MS_SHARED);
            }
            host
        })
    }

    pub fn kubelet(&self) -> PathBuf {
        self.dir.path().join("kubelet")
    }

    pub fn tmpfs(&self) -> PathBuf {
        self.dir.path().join("tetris")
    }

    /// A store for these namespaces.
    pub fn store(&self, name: &str, namespaces: &[&str]) -> StoreConfig {
        let path = self.tmpfs().join(name);
        Store::create(&path, &CreateOptions::default()).unwrap();
        StoreConfig {
            name: name.to_owned(),
            path,
            namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
            own: false,
        }
    }

    /// The directory of a pod's volume, as the kubelet makes it: without the last part.
    pub fn target(&self, pod: &str) -> PathBuf {
        let volumes = "volumes/kubernetes.io~csi/tetris";
        let dir = self.kubelet().join("pods").join(pod).join(volumes);
        std::fs::create_dir_all(&dir).unwrap();
        dir.join("mount")
    }

    pub fn config(&self) -> CsiConfig {
        CsiConfig {
            kubelet_dir: self.kubelet(),
            ..CsiConfig::default()
        }
    }

    /// The same with stores for up to four namespaces.
    pub fn per_namespace(&self) -> CsiConfig {
        CsiConfig {
            per_namespace: Some(PerNamespace {
                name: "{namespace}".to_owned(),
                path: self.tmpfs().join("{namespace}"),
                namespaces: Vec::new(),
                limit: 4,
            }),
            ..self.config()
        }
    }
}

/// Looks after stores as the daemon does, and notes which were announced.
struct Daemon {
    told: Arc<Mutex<Vec<StoreConfig>>>,
    reclaimer: Mutex<Reclaimer>,
    models: KeptModels,
    runtime: Handle,
}

#[tonic::async_trait]
impl Keeper for Daemon {
    async fn look_after(&self, store: &StoreConfig, _: &StoreDirectory) {
        self.told.lock().unwrap().push(store.clone());
        self.reclaimer.lock().unwrap().add_store(store.clone());
    }

    async fn remove(&self, store: &StoreConfig) -> Removal {
        let mut reclaimer = self.reclaimer.lock().unwrap();
        // It finds stores by itself.
        reclaimer.add_store(store.clone());
        match reclaimer.leave(store).unwrap() {
            Leave::InUse => Removal::InUse,
            Leave::Left => {
                remove_directory(&store.path).unwrap();
                Removal::Removed
            }
        }
    }

    async fn model(&self, question: &ModelQuestion) -> Result<ModelState, String> {
        Ok(self.models.state(&question.key().unwrap()))
    }

    fn mount_model(&self, order: &MountOrder, device: BorrowedFd<'_>) -> io::Result<MountAnswer> {
        let device = device.try_clone_to_owned()?;
        let key = order.model.key().unwrap();
        let mounted = self
            .runtime
            .block_on(self.models.mount(&key, order.mount, device));
        Ok(match mounted {
            Ok(()) => MountAnswer::Taken,
            Err(refused) => MountAnswer::Refused {
                reason: refused.to_string(),
            },
        })
    }
}

/// A reclaimer whose configured store does not exist.
fn reclaimer() -> Reclaimer {
    let nowhere = StoreConfig {
        name: "nowhere".to_owned(),
        path: "/nowhere".into(),
        namespaces: Vec::new(),
        own: false,
    };
    let file = ConfigFile {
        stores: vec![nowhere],
        ..ConfigFile::default()
    };
    Reclaimer::new(file.check().unwrap(), false, 0)
}

/// A driver that serves.
pub struct Driver {
    runtime: Runtime,
    stop: Option<oneshot::Sender<()>>,
    pub served: JoinHandle<Result<(), CsiError>>,
    config: CsiConfig,
    /// Stores of made namespaces.
    pub told: Arc<Mutex<Vec<StoreConfig>>>,
    /// Models that pods keep.
    pub models: KeptModels,
    pub is_registered: watch::Receiver<bool>,
    /// The volumes that pods have, as the driver counts them.
    pub volumes: watch::Receiver<Option<VolumeStatus>>,
}

impl Driver {
    /// Starts one in this thread's namespace, and waits until it listens.
    pub fn start(config: &CsiConfig, stores: Vec<StoreConfig>) -> Self {
        Self::start_with(config, stores, &Api::new())
    }

    /// The same in the cluster of this API server.
    pub fn start_with(config: &CsiConfig, stores: Vec<StoreConfig>, api: &Api) -> Self {
        let told = Arc::new(Mutex::new(Vec::new()));
        let runtime = Runtime::new().unwrap();
        let models = KeptModels::default();
        let daemon = Daemon {
            told: Arc::clone(&told),
            reclaimer: Mutex::new(reclaimer()),
            models: models.clone(),
            runtime: runtime.handle().clone(),
        };
        let rule = config.per_namespace.as_ref();
        let ground = StoreGround {
            root: rule.map(|rule| rule.parent().to_owned()),
            user: std::fs::metadata(config.kubelet_dir.with_file_name("tetris"))
                .map_or(0, |dir| dir.uid()),
        };
        let stores = Stores::new(stores, ground, daemon);
        let entered = runtime.enter();
        let (sender, living) = watch::channel(None);
        // Without a network.
        let client = kube::Client::new(api.router(), "default");
        let namespaces = KnownNamespaces::new(client.clone(), living);
        let watched = watch_namespaces(client, sender, |_| {}, std::future::pending());
        runtime.spawn(watched);
        drop(entered);
        let (registered, is_registered) = watch::channel(false);
        let (counted, volumes) = watch::channel(None);
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = serve_csi(
            config.clone(),
            "node-1".to_owned(),
            stores,
            Arc::new(namespaces),
            registered,
            counted,
            async {
                let _stopped = stopped.await;
            },
        );
        let served = runtime.spawn(serving);
        let deadline = std::time::Instant::now() + PATIENCE;
        let socket = config.registration_socket();
        while !served.is_finished() && std::os::unix::net::UnixStream::connect(&socket).is_err() {
            assert!(std::time::Instant::now() < deadline, "it never listens");
            std::thread::sleep(Duration::from_millis(5));
        }
        Self {
            runtime,
            stop: Some(stop),
            served,
            config: config.clone(),
            told,
            models,
            is_registered,
            volumes,
        }
    }

    /// Calls a method of a service as the kubelet does, by its name.
    pub fn call<Q, R>(&self, socket: &Path, method: &'static str, message: Q) -> Result<R, Status>
    where
        Q: prost::Message + Send + Sync + 'static,
        R: prost::Message + Default + Send + Sync + 'static,
    {
        self.runtime
            .block_on(call(socket.to_owned(), method, message))
    }

    pub fn csi<Q, R>(&self, method: &'static str, message: Q) -> Result<R, Status>
    where
        Q: prost::Message + Send + Sync + 'static,
        R: prost::Message + Default + Send + Sync + 'static,
    {
        self.call(&self.config.socket(), method, message)
    }

    pub fn publish(&self, request: NodePublishVolumeRequest) -> Result<(), Status> {
        self.csi::<_, NodePublishVolumeResponse>("/csi.v1.Node/NodePublishVolume", request)
            .map(drop)
    }

    pub fn unpublish(&self, target: &Path) -> Result<(), Status> {
        self.unpublish_volume("csi-1", &target.display().to_string())
    }

    pub fn unpublish_volume(&self, volume_id: &str, target_path: &str) -> Result<(), Status> {
        let request = NodeUnpublishVolumeRequest {
            volume_id: volume_id.to_owned(),
            target_path: target_path.to_owned(),
        };
        self.csi::<_, NodeUnpublishVolumeResponse>("/csi.v1.Node/NodeUnpublishVolume", request)
            .map(drop)
    }

    /// The runtime that it is served on.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Many at once.
    pub fn publish_all(&self, requests: Vec<NodePublishVolumeRequest>) -> Vec<Result<(), Status>> {
        let socket = self.config.socket();
        self.runtime.block_on(async {
            let calls: Vec<_> = requests
                .into_iter()
                .map(|request| {
                    let method = "/csi.v1.Node/NodePublishVolume";
                    tokio::spawn(call::<_, NodePublishVolumeResponse>(
                        socket.clone(),
                        method,
                        request,
                    ))
                })
                .collect();
            let mut answers = Vec::new();
            for call in calls {
                answers.push(call.await.unwrap().map(drop));
            }
            answers
        })
    }

    /// Stops it, as SIGTERM does.
    pub fn stop(mut self) -> Result<(), CsiError> {
        drop(self.stop.take());
        self.end()
    }

    /// Waits for its end.
    pub fn end(self) -> Result<(), CsiError> {
        let Self {
            runtime,
            served,
            stop: _kept,
            ..
        } = self;
        runtime.block_on(async {
            tokio::time::timeout(PATIENCE, served)
                .await
                .unwrap()
                .unwrap()
        })
    }

    /// Ends it without order, and leaves behind what SIGKILL does: sockets on which no one listens.
    pub fn kill(self) {
        let Self {
            runtime,
            stop,
            served,
            config,
            ..
        } = self;
        served.abort();
        let ended = runtime.block_on(async { tokio::time::timeout(PATIENCE, served).await });
        assert!(ended.unwrap().unwrap_err().is_cancelled());
        drop(stop);
        for socket in [config.socket(), config.registration_socket()] {
            drop(std::os::unix::net::UnixListener::bind(socket).unwrap());
        }
    }
}

/// Calls a method of the server that listens at `socket`.
pub fn call_at<Q, R>(socket: PathBuf, method: &'static str, message: Q) -> Result<R, Status>
where
    Q: prost::Message + Send + Sync + 'static,
    R: prost::Message + Default + Send + Sync + 'static,
{
    Runtime::new()
        .unwrap()
        .block_on(call(socket, method, message))
}

pub async fn call<Q, R>(socket: PathBuf, method: &'static str, message: Q) -> Result<R, Status>
where
    Q: prost::Message + Send + Sync + 'static,
    R: prost::Message + Default + Send + Sync + 'static,
{
    let mut client = tonic::client::Grpc::new(channel(socket).await);
    client.ready().await.unwrap();
    let codec = ProstCodec::<Q, R>::default();
    let path = PathAndQuery::from_static(method);
    let answer = client.unary(Request::new(message), path, codec).await?;
    Ok(answer.into_inner())
}

async fn channel(socket: PathBuf) -> Channel {
    let connect = tower::service_fn(move |_: Uri| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_static("http://localhost");
    endpoint.connect_with_connector(connect).await.unwrap()
}

/// The kubelet's request for a pod of `namespace` at `target`.
pub fn request(target: &Path, namespace: &str) -> NodePublishVolumeRequest {
    let context = [
        ("csi.storage.k8s.io/ephemeral", "true"),
        ("csi.storage.k8s.io/pod.name", "server-0"),
        ("csi.storage.k8s.io/pod.namespace", namespace),
        ("csi.storage.k8s.io/pod.uid", POD_UID),
        ("csi.storage.k8s.io/serviceAccount.name", "default"),
    ];
    NodePublishVolumeRequest {
        volume_id: format!("csi-{}", "0".repeat(64)),
        target_path: target.display().to_string(),
        volume_capability: Some(VolumeCapability {
            access_type: Some(AccessType::Mount(MountVolume::default())),
            access_mode: Some(AccessMode { mode: 1 }),
        }),
        readonly: true,
        volume_context: context
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
    }
}
