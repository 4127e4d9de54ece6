//! Messages between the processes: nothing is lost on the way.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tetris_node::csi::{NamespaceError, PodName, PodPlace};
use tetris_node::keep_warm::{Declaration, Freshness, Pod, WarmSet};
use tetris_node::process::Process;
use tetris_node::processes::messages::{
    Asked, Declarations, NamespaceGone, PlaceOfPod, PodDeclarations,
};
use tetris_node::report::VolumeStatus;
use tetris_node::report::process_report::{ProcessReport, SandboxReport, Usage, VolumesReport};

fn pod(name: &str) -> Pod {
    Pod {
        namespace: "blue".to_owned(),
        name: name.to_owned(),
        uid: format!("uid of {name}"),
    }
}

fn models(texts: &[&str]) -> BTreeSet<Declaration> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn moment() -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(1_790_000_000_123)
}

#[test]
fn declarations_arrive_with_their_freshness_and_the_moment_of_the_break() {
    let digest = "ab".repeat(32);
    let sha256 = format!("sha256:{digest}");
    let manifest = format!("manifest:{digest}");
    let pods = [
        (pod("a"), models(&["bert", &sha256])),
        (pod("b"), models(&[&manifest])),
    ];
    for freshness in [
        Freshness::NoCluster,
        Freshness::Unknown,
        Freshness::Current,
        Freshness::Stale { since: moment() },
    ] {
        let set = WarmSet {
            freshness,
            pods: pods.clone().into(),
        };
        let sent = serde_json::to_vec(&Declarations::from(&set)).unwrap();
        let received: Declarations = serde_json::from_slice(&sent).unwrap();
        assert_eq!(WarmSet::try_from(received).unwrap(), set);
    }
}

#[test]
fn declarations_are_texts_as_in_annotations() {
    let set = WarmSet {
        freshness: Freshness::Stale { since: moment() },
        pods: [(pod("a"), models(&["bert"]))].into(),
    };
    let sent = serde_json::to_value(Declarations::from(&set)).unwrap();
    let expected = json!({
        "freshness": {"state": "stale", "since_ms": 1_790_000_000_123_u64},
        "pods": [{"namespace": "blue", "name": "a", "uid": "uid of a", "models": ["bert"]}],
    });
    assert_eq!(sent, expected);
}

#[test]
fn a_declaration_that_no_pod_can_have_made_is_refused_and_named() {
    let set = WarmSet {
        freshness: Freshness::Current,
        pods: [(pod("a"), models(&["bert"]))].into(),
    };
    let mut message = Declarations::from(&set);
    message.pods.push(PodDeclarations {
        pod: pod("b"),
        models: vec!["sha256:ab".to_owned()],
    });
    let refused = WarmSet::try_from(message).unwrap_err().to_string();
    assert!(refused.starts_with("pod `blue/b`: sha256:"), "{refused}");
}

fn report() -> ProcessReport {
    ProcessReport {
        process: Process::Volumes,
        version: "1.2.3".to_owned(),
        started_ms: 7,
        errors: [("csi".to_owned(), 3)].into(),
        usage: Usage {
            cpu_ms: 1,
            resident_bytes: 2,
            open_files: 3,
            threads: 4,
        },
        volumes: Some(VolumesReport {
            registered: false,
            waiting_for: Some("the kubelet".to_owned()),
            counts: VolumeStatus {
                idmapped: 5,
                plain: 6,
                plain_because: None,
            },
        }),
        sandbox: SandboxReport {
            seccomp: true,
            seccomp_because: None,
            landlock: Some(6),
            landlock_because: None,
            capabilities: "0000000000000000".to_owned(),
            uid: 9460,
        },
    }
}

#[test]
fn a_report_arrives_whole() {
    let sent = serde_json::to_vec(&report()).unwrap();
    let received: ProcessReport = serde_json::from_slice(&sent).unwrap();
    assert_eq!(received, report());
}

#[test]
fn a_report_of_another_version_is_read_as_far_as_it_is_known() {
    let mut sent = serde_json::to_value(report()).unwrap();
    sent["usage"]["swap_bytes"] = json!(1);
    sent["later"] = json!({"a": [1]});
    sent["sandbox"].as_object_mut().unwrap().remove("landlock");
    sent.as_object_mut().unwrap().remove("volumes");
    let received: ProcessReport = serde_json::from_value(sent).unwrap();
    assert_eq!(received.usage, report().usage);
    assert_eq!((received.volumes, received.sandbox.landlock), (None, None));
}

/// The same after it was sent.
fn sent<T: serde::Serialize + serde::de::DeserializeOwned>(asked: Asked<T>) -> (Value, Asked<T>) {
    let text = serde_json::to_value(asked).unwrap();
    (text.clone(), serde_json::from_value(text).unwrap())
}

#[test]
fn an_answer_about_a_pod_is_its_place() {
    let place = PodPlace {
        namespace_uid: "x".to_owned(),
        host_users: false,
    };
    let (text, received) = sent(Asked::<PlaceOfPod>::of(Ok(place.clone())));
    assert_eq!(text, json!({"namespace_uid": "x", "host_users": false}));
    assert_eq!(received.answered().map(PodPlace::from), Ok(place));
    let (text, received) = sent(Asked::<NamespaceGone>::of(Ok(true)));
    assert_eq!(text, json!({"gone": true}));
    assert_eq!(received.answered(), Ok(NamespaceGone { gone: true }));
}

#[test]
fn errors_about_namespaces_keep_their_kinds() {
    let text = str::to_owned;
    let asked = PodName {
        namespace: text("blue"),
        name: text("a"),
        uid: text("1"),
    };
    for error in [
        NamespaceError::Unknown {
            what: text("namespace `blue`"),
            problem: text("no answer within 10 s"),
            next_step: "see the daemon's log".into(),
        },
        NamespaceError::NotFound {
            what: text("pod `blue/a`"),
        },
        NamespaceError::OtherPod {
            pod: asked,
            found: text("2"),
        },
        NamespaceError::NotAUuid {
            namespace: text("blue"),
            found: text("?"),
        },
    ] {
        let (_, received) = sent(Asked::<PlaceOfPod>::of(Err::<PodPlace, _>(error.clone())));
        assert_eq!(received.answered(), Err(error));
    }
}
