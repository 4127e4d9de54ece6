//! Calls of a kubelet.

use std::path::PathBuf;

use hyper_util::rt::TokioIo;
use tetris_node::csi::CsiConfig;
use tetris_node::csi::wire::*;
use tokio::net::UnixStream;
use tokio::runtime::Builder;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Endpoint, Uri};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::host::Pod;
use tetris_test_support::api::POD_UID;

pub fn register(config: &CsiConfig) {
    let status = RegistrationStatus {
        plugin_registered: true,
        error: String::new(),
    };
    let method = "/pluginregistration.Registration/NotifyRegistrationStatus";
    let socket = config.registration_socket();
    call::<_, RegistrationStatusResponse>(socket, method, status).unwrap();
}

pub fn publish(config: &CsiConfig, pod: &Pod) -> Result<(), Status> {
    let context = [
        ("csi.storage.k8s.io/ephemeral", "true"),
        ("csi.storage.k8s.io/pod.name", &pod.name),
        ("csi.storage.k8s.io/pod.namespace", &pod.namespace),
        ("csi.storage.k8s.io/pod.uid", POD_UID),
        ("csi.storage.k8s.io/serviceAccount.name", &pod.account),
    ];
    let request = NodePublishVolumeRequest {
        volume_id: format!("csi-{}", pod.name),
        target_path: pod.volume.display().to_string(),
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
    call::<_, NodePublishVolumeResponse>(config.socket(), method, request).map(drop)
}

pub fn unpublish(config: &CsiConfig, pod: &Pod) -> Result<(), Status> {
    let request = NodeUnpublishVolumeRequest {
        volume_id: format!("csi-{}", pod.name),
        target_path: pod.volume.display().to_string(),
    };
    let method = "/csi.v1.Node/NodeUnpublishVolume";
    call::<_, NodeUnpublishVolumeResponse>(config.socket(), method, request).map(drop)
}

/// Calls a method of the server that listens at `socket`.
fn call<Q, R>(socket: PathBuf, method: &'static str, message: Q) -> Result<R, Status>
where
    Q: prost::Message + Send + Sync + 'static,
    R: prost::Message + Default + Send + Sync + 'static,
{
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let connect = tower::service_fn(move |_: Uri| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        let endpoint = Endpoint::from_static("http://localhost").timeout(super::PATIENCE);
        let channel = endpoint.connect_with_connector(connect).await;
        let channel = channel.map_err(|error| Status::unavailable(error.to_string()))?;
        let mut client = tonic::client::Grpc::new(channel);
        client
            .ready()
            .await
            .map_err(|error| Status::unavailable(error.to_string()))?;
        let codec = ProstCodec::<Q, R>::default();
        let path = PathAndQuery::from_static(method);
        let answer = client.unary(Request::new(message), path, codec).await?;
        Ok(answer.into_inner())
    })
}
