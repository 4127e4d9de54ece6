//! Checks of requests, without a mount.

use std::path::Path;

use tetris_node::csi::wire::*;
use tetris_node::csi::{Publish, VolumeContent, VolumeError};
use tonic::Code;

use crate::csi::fixture::request;

const KUBELET: &str = "/var/lib/kubelet";

fn check(change: impl FnOnce(&mut NodePublishVolumeRequest)) -> Result<Publish, VolumeError> {
    let target = Path::new(KUBELET).join("pods/1a2b/volumes/kubernetes.io~csi/w/mount");
    let mut request = request(&target, "blue");
    change(&mut request);
    Publish::new(request, Path::new(KUBELET))
}

fn refused(expected: &str, change: impl FnOnce(&mut NodePublishVolumeRequest)) {
    let error = check(change).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    assert!(error.to_string().contains(expected), "{error}");
}

fn with(request: &mut NodePublishVolumeRequest, key: &str, value: &str) {
    request
        .volume_context
        .insert(key.to_owned(), value.to_owned());
}

fn mount_of(request: &mut NodePublishVolumeRequest) -> &mut MountVolume {
    match &mut request.volume_capability.as_mut().unwrap().access_type {
        Some(AccessType::Mount(mount)) => mount,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_the_kubelet_sends_for_an_inline_volume_is_accepted() {
    let wish = check(|request| with(request, "store", "shared")).unwrap();
    assert_eq!(wish.namespace, "blue");
    assert_eq!(wish.store.as_deref(), Some("shared"));
    assert_eq!((&*wish.pod, &*wish.pod_uid), ("server-0", "1a2b"));
    assert_eq!(
        wish.target,
        Path::new("pods/1a2b/volumes/kubernetes.io~csi/w/mount")
    );
    // Attributes that later kubelets add, and every access mode.
    check(|request| with(request, "csi.storage.k8s.io/something.new", "x")).unwrap();
    for mode in 1..=7 {
        let mode = AccessMode { mode };
        check(|r| r.volume_capability.as_mut().unwrap().access_mode = Some(mode)).unwrap();
    }
    check(|request| mount_of(request).fs_type = "tmpfs".to_owned()).unwrap();
    check(|request| mount_of(request).mount_flags = vec!["ro".to_owned()]).unwrap();
}

#[test]
fn a_volume_has_a_store_the_python_package_or_a_model() {
    let content = |value: Option<&str>| {
        let wish = check(|request| {
            if let Some(value) = value {
                with(request, "content", value);
            }
        });
        wish.unwrap().content
    };
    assert_eq!(content(None), VolumeContent::Store);
    assert_eq!(content(Some("store")), VolumeContent::Store);
    assert_eq!(content(Some("python")), VolumeContent::Python);
    let model = |content: Option<&str>, name: Option<&str>| {
        check(|request| {
            for (key, value) in [("content", content), ("model", name)] {
                if let Some(value) = value {
                    with(request, key, value);
                }
            }
        })
    };
    let named = VolumeContent::Model("llama-3.1".to_owned());
    assert_eq!(
        model(Some("model"), Some("llama-3.1")).unwrap().content,
        named
    );
    for (content, name, expected) in [
        (Some("model"), None, "`volume_context.model` is missing"),
        (
            Some("model"),
            Some("../x"),
            "`model`: expected the name of a Model, found \"../x\"",
        ),
        (
            None,
            Some("llama"),
            "`model`: expected none without `content: model`",
        ),
        (
            Some("python"),
            Some("llama"),
            "`model`: expected none without",
        ),
    ] {
        let error = model(content, name).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    for unknown in ["Python", "", "Model"] {
        let expected =
            format!("`content`: expected `store`, `python` or `model`, found {unknown:?}");
        refused(&expected, |request| with(request, "content", unknown));
    }
    refused(
        "`store`: expected none beside `content: python`",
        |request| {
            with(request, "content", "python");
            with(request, "store", "shared");
        },
    );
}

#[test]
fn what_is_missing_is_named() {
    refused("`volume_id` is missing", |request| {
        request.volume_id.clear();
    });
    refused("`target_path` is missing", |request| {
        request.target_path.clear();
    });
    refused("`volume_capability` is missing", |request| {
        request.volume_capability = None;
    });
    refused("`volume_capability.access_type` is missing", |request| {
        request.volume_capability.as_mut().unwrap().access_type = None;
    });
    for mode in [None, Some(AccessMode { mode: 0 })] {
        refused("`volume_capability.access_mode` is missing", |request| {
            request.volume_capability.as_mut().unwrap().access_mode = mode;
        });
    }
    for key in ["pod.name", "pod.uid"] {
        refused(&format!("{key}` is missing"), |request| {
            let key = format!("csi.storage.k8s.io/{key}");
            request.volume_context.remove(&key);
        });
    }
    refused("pod.namespace` is missing", |request| {
        request
            .volume_context
            .remove("csi.storage.k8s.io/pod.namespace");
    });
    refused(
        "expected `true`: this driver has inline volumes alone",
        |request| {
            request
                .volume_context
                .remove("csi.storage.k8s.io/ephemeral");
        },
    );
}

#[test]
fn what_cannot_be_done_is_refused_with_what_to_do() {
    refused("expected a volume of type mount, found block", |request| {
        let block = Some(AccessType::Block(BlockVolume {}));
        request.volume_capability.as_mut().unwrap().access_type = block;
    });
    refused("expected 1 to 7, found 8", |request| {
        let mode = Some(AccessMode { mode: 8 });
        request.volume_capability.as_mut().unwrap().access_mode = mode;
    });
    refused("fs_type`: expected none, or tmpfs, found ext4", |request| {
        mount_of(request).fs_type = "ext4".to_owned();
    });
    refused(
        "mount_flags`: expected none, or ro, found exec",
        |request| {
            mount_of(request).mount_flags = vec!["ro".to_owned(), "exec".to_owned()];
        },
    );
    refused(
        "set `readOnly: true` in the pod's `csi` volume",
        |request| request.readonly = false,
    );
    refused(
        "unknown volume attributes `Store`, `size`; this driver knows `store`, `content` and `model`",
        |request| {
            with(request, "size", "1Gi");
            with(request, "Store", "a");
        },
    );
    refused(
        "`volume_id`: expected at most 128 bytes, found 129",
        |request| {
            request.volume_id = "x".repeat(129);
        },
    );
    check(|request| request.volume_id = "x".repeat(128)).unwrap();
    refused("expected `true`", |request| {
        with(request, "csi.storage.k8s.io/ephemeral", "false");
    });
}

#[test]
fn targets_that_lead_out_of_the_kubelets_directory_are_refused() {
    for target in [
        "pods/mount",
        "/etc",
        "/var/lib/kubelet",
        "/var/lib/kubelet/",
        "/var/lib/kubelet/..",
        "/var/lib/kubelet/../../../etc",
        "/var/lib/kubelet/pods/../../x",
        "/var/lib/kubelet/pods/a/..",
        "/var/lib/kubeletx/pods",
        "/var/lib/kubelet/pods/a\0b",
    ] {
        refused("below `/var/lib/kubelet` without `..`", |request| {
            request.target_path = target.to_owned();
        });
    }
    refused("below `/var/lib/kubelet`", |request| {
        request.target_path = format!("{KUBELET}/{}", "a/".repeat(3000));
    });
}

#[test]
fn names_that_are_no_namespaces_do_not_become_paths() {
    for name in [
        "",
        "..",
        "a/b",
        "A",
        "-a",
        "a-",
        "a.b",
        "a b",
        "\u{e4}",
        &"a".repeat(64),
    ] {
        refused("expected the name of a namespace", |request| {
            with(request, "csi.storage.k8s.io/pod.namespace", name);
        });
    }
}
