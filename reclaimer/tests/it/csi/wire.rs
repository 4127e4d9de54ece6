//! The bytes of messages, by the field numbers of csi.proto and of the kubelet's registration
//! api.proto: tag = number * 8 + type.

use prost::Message;
use tetris_node::csi::wire::*;

const TEXT: u8 = 2;
const NUMBER: u8 = 0;

fn tag(number: u8, kind: u8) -> u8 {
    number * 8 + kind
}

fn text(number: u8, value: &[u8]) -> Vec<u8> {
    [&[tag(number, TEXT), value.len() as u8][..], value].concat()
}

#[test]
fn a_publish_request_of_the_kubelet_is_understood() {
    let mount = [text(1, b"tmpfs"), text(2, b"ro")].concat();
    let capability = [text(2, &mount), text(3, &[tag(1, NUMBER), 3])].concat();
    let bytes = [
        text(1, b"csi-1"),
        // publish_context, staging_target_path and secrets, which are of no use here
        text(2, &[text(1, b"k"), text(2, b"v")].concat()),
        text(3, b"/staging"),
        text(4, b"/target"),
        text(5, &capability),
        vec![tag(6, NUMBER), 1],
        text(7, &[text(1, b"k"), text(2, b"v")].concat()),
        text(8, &[text(1, b"store"), text(2, b"a")].concat()),
    ]
    .concat();
    let expected = NodePublishVolumeRequest {
        volume_id: "csi-1".to_owned(),
        target_path: "/target".to_owned(),
        volume_capability: Some(VolumeCapability {
            access_type: Some(AccessType::Mount(MountVolume {
                fs_type: "tmpfs".to_owned(),
                mount_flags: vec!["ro".to_owned()],
            })),
            access_mode: Some(AccessMode { mode: 3 }),
        }),
        readonly: true,
        volume_context: [("store".to_owned(), "a".to_owned())].into(),
    };
    assert_eq!(
        NodePublishVolumeRequest::decode(&bytes[..]).unwrap(),
        expected
    );
    let block = VolumeCapability::decode(&text(1, b"")[..]).unwrap();
    assert_eq!(block.access_type, Some(AccessType::Block(BlockVolume {})));
    let bytes = [text(1, b"csi-1"), text(2, b"/target")].concat();
    let request = NodeUnpublishVolumeRequest::decode(&bytes[..]).unwrap();
    assert_eq!(
        (&*request.volume_id, &*request.target_path),
        ("csi-1", "/target")
    );
}

#[test]
fn answers_are_as_the_kubelet_reads_them() {
    let info = GetPluginInfoResponse {
        name: "d".to_owned(),
        vendor_version: "1".to_owned(),
    };
    assert_eq!(
        info.encode_to_vec(),
        [text(1, b"d"), text(2, b"1")].concat()
    );
    let ready = ProbeResponse { ready: Some(true) };
    assert_eq!(ready.encode_to_vec(), text(1, &[tag(1, NUMBER), 1]));
    let node_id = "n".to_owned();
    assert_eq!(
        NodeGetInfoResponse { node_id }.encode_to_vec(),
        text(1, b"n")
    );
    let plugin = PluginInfo {
        r#type: "CSIPlugin".to_owned(),
        name: "d".to_owned(),
        endpoint: "/s".to_owned(),
        supported_versions: vec!["1.0.0".to_owned()],
    };
    let expected = [
        text(1, b"CSIPlugin"),
        text(2, b"d"),
        text(3, b"/s"),
        text(4, b"1.0.0"),
    ];
    assert_eq!(plugin.encode_to_vec(), expected.concat());
    let bytes = [vec![tag(1, NUMBER), 1], text(2, b"e")].concat();
    let status = RegistrationStatus::decode(&bytes[..]).unwrap();
    assert!(status.plugin_registered && status.error == "e");
}
