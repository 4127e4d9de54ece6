//! The kubelet's side of the CSI socket, and the API server behind it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use hyper_util::rt::TokioIo;
use tetris_node::csi::wire::*;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Endpoint, Uri};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use tetris_test_support::api::{Api, POD_UID};

pub struct Kubelet {
    runtime: Runtime,
    socket: PathBuf,
    /// Address of the API server, for the daemon.
    pub api: SocketAddr,
}

impl Kubelet {
    pub fn new(socket: PathBuf) -> Self {
        let runtime = Runtime::new().unwrap();
        let api = runtime.block_on(Api::new().serve());
        Self {
            runtime,
            socket,
            api,
        }
    }

    /// Returns true if the driver answers.
    pub fn probe(&self) -> bool {
        let answer: Result<ProbeResponse, _> = self.call("/csi.v1.Identity/Probe", ProbeRequest {});
        answer.is_ok_and(|answer| answer.ready != Some(false))
    }

    /// Has the driver mount the store of `namespace` at `target`, as the node's container sees it.
    pub fn publish(&self, target: &Path, namespace: &str) {
        let context = [
            ("csi.storage.k8s.io/ephemeral", "true"),
            ("csi.storage.k8s.io/pod.name", "server-0"),
            ("csi.storage.k8s.io/pod.namespace", namespace),
            ("csi.storage.k8s.io/pod.uid", POD_UID),
            ("csi.storage.k8s.io/serviceAccount.name", "default"),
        ];
        let request = NodePublishVolumeRequest {
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
        };
        let method = "/csi.v1.Node/NodePublishVolume";
        self.call::<_, NodePublishVolumeResponse>(method, request)
            .unwrap();
    }

    /// Has it taken away.
    pub fn unpublish(&self, target: &Path) {
        let request = NodeUnpublishVolumeRequest {
            volume_id: format!("csi-{}", "0".repeat(64)),
            target_path: target.display().to_string(),
        };
        let method = "/csi.v1.Node/NodeUnpublishVolume";
        self.call::<_, NodeUnpublishVolumeResponse>(method, request)
            .unwrap();
    }

    fn call<Q, R>(&self, method: &'static str, message: Q) -> Result<R, Status>
    where
        Q: prost::Message + Send + Sync + 'static,
        R: prost::Message + Default + Send + Sync + 'static,
    {
        self.runtime.block_on(async {
            let socket = self.socket.clone();
            let connect = tower::service_fn(move |_: Uri| {
                let socket = socket.clone();
                async move { UnixStream::connect(socket).await.map(TokioIo::new) }
            });
            let endpoint = Endpoint::from_static("http://localhost");
            let channel = endpoint.connect_with_connector(connect).await;
            let channel = channel.map_err(|error| Status::unavailable(error.to_string()))?;
            let mut client = tonic::client::Grpc::new(channel);
            let ready = client.ready().await;
            ready.map_err(|error| Status::unavailable(error.to_string()))?;
            let codec = ProstCodec::<Q, R>::default();
            let path = PathAndQuery::from_static(method);
            let answer = client.unary(Request::new(message), path, codec).await?;
            Ok(answer.into_inner())
        })
    }
}
