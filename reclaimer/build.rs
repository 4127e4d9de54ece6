//! Makes the servers of the services that the kubelet calls, from their names alone: no protocol
//! compiler is needed. The messages are in `src/csi/wire.rs`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    services::build();
}

mod services {
    use tonic_build::manual::{Builder, Method, Service};

    const MESSAGES: &str = "crate::csi::wire";

    pub fn build() {
        let identity = [
            ("get_plugin_info", "GetPluginInfo"),
            ("get_plugin_capabilities", "GetPluginCapabilities"),
            ("probe", "Probe"),
        ];
        let node = [
            ("node_publish_volume", "NodePublishVolume"),
            ("node_unpublish_volume", "NodeUnpublishVolume"),
            ("node_get_capabilities", "NodeGetCapabilities"),
            ("node_get_info", "NodeGetInfo"),
        ];
        let services = [
            service("csi.v1", "Identity", &identity.map(as_in_csi)),
            service("csi.v1", "Node", &node.map(as_in_csi)),
            service(
                "pluginregistration",
                "Registration",
                &[
                    (
                        "get_info",
                        "GetInfo",
                        "InfoRequest".into(),
                        "PluginInfo".into(),
                    ),
                    (
                        "notify_registration_status",
                        "NotifyRegistrationStatus",
                        "RegistrationStatus".into(),
                        "RegistrationStatusResponse".into(),
                    ),
                ],
            ),
        ];
        Builder::new().build_client(false).compile(&services);
    }

    /// Name in Rust, name of the call, request and response.
    type Call<'a> = (&'a str, &'a str, String, String);

    /// All messages of CSI are called after the call.
    fn as_in_csi<'a>((name, route): (&'a str, &'a str)) -> Call<'a> {
        (
            name,
            route,
            format!("{route}Request"),
            format!("{route}Response"),
        )
    }

    fn service(package: &str, name: &str, calls: &[Call<'_>]) -> Service {
        let mut service = Service::builder().name(name).package(package);
        for (name, route, request, response) in calls {
            service = service.method(
                Method::builder()
                    .name(*name)
                    .route_name(*route)
                    .input_type(format!("{MESSAGES}::{request}"))
                    .output_type(format!("{MESSAGES}::{response}"))
                    .codec_path("tonic_prost::ProstCodec")
                    .build(),
            );
        }
        service.build()
    }
}
