//! The messages of the services that the kubelet calls, as far as this driver needs them: `csi.v1`
//! of the Container Storage Interface (<https://github.com/container-storage-interface/spec>) and
//! `pluginregistration` of the kubelet. Fields that are not here are skipped when they come, as in
//! every protobuf message.

use std::collections::HashMap;

/// Asks for the driver's name.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetPluginInfoRequest {}

/// The driver's name.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetPluginInfoResponse {
    /// The driver's name, as in the CSIDriver object.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The program's version.
    #[prost(string, tag = "2")]
    pub vendor_version: String,
}

/// Asks for further capabilities of the driver.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetPluginCapabilitiesRequest {}

/// Further capabilities of the driver: none, there is no controller.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetPluginCapabilitiesResponse {}

/// Asks whether the driver can serve.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ProbeRequest {}

/// Readiness of the driver.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ProbeResponse {
    /// `google.protobuf.BoolValue`.
    #[prost(message, optional, tag = "1")]
    pub ready: Option<bool>,
}

/// Asks for a volume in a pod's directory.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodePublishVolumeRequest {
    /// The volume, of the kubelet's making.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// Mount point.
    #[prost(string, tag = "4")]
    pub target_path: String,
    /// Intended use.
    #[prost(message, optional, tag = "5")]
    pub volume_capability: Option<VolumeCapability>,
    /// True if no process is going to write to it.
    #[prost(bool, tag = "6")]
    pub readonly: bool,
    /// The attributes of the volume, and the pod's name and namespace.
    #[prost(map = "string, string", tag = "8")]
    pub volume_context: HashMap<String, String>,
}

/// It is there.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodePublishVolumeResponse {}

/// Intended use of a volume.
#[derive(Clone, PartialEq, prost::Message)]
pub struct VolumeCapability {
    /// As a device or as a directory.
    #[prost(oneof = "AccessType", tags = "1, 2")]
    pub access_type: Option<AccessType>,
    /// By whom.
    #[prost(message, optional, tag = "3")]
    pub access_mode: Option<AccessMode>,
}

/// As a device or as a directory.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum AccessType {
    /// As a device.
    #[prost(message, tag = "1")]
    Block(BlockVolume),
    /// As a directory.
    #[prost(message, tag = "2")]
    Mount(MountVolume),
}

/// As a device.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct BlockVolume {}

/// As a directory.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MountVolume {
    /// Its type of file system; empty where it does not matter.
    #[prost(string, tag = "1")]
    pub fs_type: String,
    /// Options of the mount.
    #[prost(string, repeated, tag = "2")]
    pub mount_flags: Vec<String>,
}

/// By whom a volume is used.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AccessMode {
    /// 0 unknown, 1 to 7 for readers and writers on one or many nodes.
    #[prost(int32, tag = "1")]
    pub mode: i32,
}

/// Takes a volume away.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeUnpublishVolumeRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// Mount point.
    #[prost(string, tag = "2")]
    pub target_path: String,
}

/// It is gone.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeUnpublishVolumeResponse {}

/// Asks for further capabilities of the node service.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeGetCapabilitiesRequest {}

/// Further capabilities of the node service: none.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeGetCapabilitiesResponse {}

/// Asks for the node's name.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeGetInfoRequest {}

/// The node's name.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeGetInfoResponse {
    /// The node's name.
    #[prost(string, tag = "1")]
    pub node_id: String,
}

/// Asks for the plugin of a registration socket.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct InfoRequest {}

/// Description of a plugin on a registration socket.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PluginInfo {
    /// `CSIPlugin`.
    #[prost(string, tag = "1")]
    pub r#type: String,
    /// The driver's name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// The socket of its services.
    #[prost(string, tag = "3")]
    pub endpoint: String,
    /// Versions of the interface.
    #[prost(string, repeated, tag = "4")]
    pub supported_versions: Vec<String>,
}

/// Result of a registration.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RegistrationStatus {
    /// True if the driver is registered.
    #[prost(bool, tag = "1")]
    pub plugin_registered: bool,
    /// The kubelet's error.
    #[prost(string, tag = "2")]
    pub error: String,
}

/// Understood.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RegistrationStatusResponse {}
