//! Tests of the extender's answers.

use serde_json::{Value, json};

use crate::extender::cluster::{args, ask, for_bert, labels};
use crate::snapshot::NAMESPACE;

const ALL: [&str; 7] = [
    "cold",
    "warm",
    "half",
    "busy",
    "full",
    "silent",
    "unheard-of",
];

fn scores(answer: &Value) -> Vec<(&str, i64)> {
    let list = answer.as_array().unwrap().iter();
    list.map(|answer| {
        (
            answer["Host"].as_str().unwrap(),
            answer["Score"].as_i64().unwrap(),
        )
    })
    .collect()
}

#[tokio::test]
async fn scores_go_by_tensors_and_room() {
    let answer = ask("/prioritize", for_bert(&ALL)).await;
    // Nine tenths for tensors, one for free resources.
    let expected = [
        ("cold", 1),
        ("warm", 10),
        ("half", 6),
        ("busy", 9),
        ("full", 1),
        ("silent", 1),
        ("unheard-of", 0),
    ];
    assert_eq!(scores(&answer), expected);
    assert_eq!(answer[0], json!({"Host": "cold", "Score": 1}));
}

#[tokio::test]
async fn a_pod_may_name_a_profile_and_the_label_goes_first() {
    let names = json!(["warm", "cold"]);
    let metadata = json!({"namespace": NAMESPACE, "annotations": {"tetris.dev/profile": "bert"}});
    let answer = ask("/prioritize", args(&metadata, &Value::Null, &names)).await;
    assert_eq!(scores(&answer), [("warm", 10), ("cold", 1)]);
    let metadata = json!({"namespace": NAMESPACE, "labels": {"tetris.dev/function": "other"},
        "annotations": {"tetris.dev/profile": "bert"}});
    let answer = ask("/prioritize", args(&metadata, &Value::Null, &names)).await;
    assert_eq!(scores(&answer), [("warm", 0), ("cold", 0)]);
}

#[tokio::test]
async fn other_pods_go_anywhere_with_score_zero() {
    for metadata in [
        json!({"namespace": NAMESPACE}),
        json!({"namespace": NAMESPACE, "labels": null, "annotations": null}),
        labels("unknown"),
        json!({"namespace": "elsewhere", "labels": {"tetris.dev/function": "bert"}}),
    ] {
        let body = args(&metadata, &Value::Null, &json!(ALL));
        let answer = ask("/prioritize", body.clone()).await;
        assert!(
            scores(&answer).iter().all(|(_, score)| *score == 0),
            "{metadata}"
        );
        let answer = ask("/filter", body).await;
        assert_eq!(answer["NodeNames"], json!(ALL), "{metadata}");
    }
}

#[tokio::test]
async fn nodes_without_room_fail_and_unknown_ones_pass() {
    let answer = ask("/filter", for_bert(&ALL)).await;
    let expected = json!({
        "Nodes": null,
        "NodeNames": ["cold", "warm", "half", "busy", "silent", "unheard-of"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"full": "the tensor store lacks 300 MiB for function bert: 400 MiB of its \
            model's 400 MiB are missing, and 100 MiB are free"},
        "Error": "",
    });
    assert_eq!(answer, expected);
}

#[tokio::test]
async fn nodes_in_full_go_back_as_they_came() {
    let item = |name: &str| {
        json!({"metadata": {"name": name, "uid": "u", "labels": {"zone": "z"}},
          "spec": {"podCIDR": "10.0.0.0/24"},
          "status": {"allocatable": {"cpu": "8"}, "images": [{"names": ["a"], "sizeBytes": 12_345_678_901_u64}],
            "nodeInfo": {"kubeletVersion": "v1.36.0"}, "unknown": 1.50}})
    };
    let list = json!({"metadata": {}, "items": [item("full"), item("warm"), item("silent")]});
    let body = args(&labels("bert"), &list, &Value::Null);
    let answer = ask("/filter", body.clone()).await;
    let passed = json!({"metadata": {}, "items": [item("warm"), item("silent")]});
    assert_eq!(answer["Nodes"], passed);
    assert_eq!(answer["NodeNames"], Value::Null);
    assert!(answer["FailedAndUnresolvableNodes"]["full"].is_string());
    let answer = ask("/prioritize", body).await;
    assert_eq!(scores(&answer), [("full", 1), ("warm", 10), ("silent", 1)]);
}

#[tokio::test]
async fn fields_may_be_in_lower_case() {
    let body = r#"{"pod":{"metadata":{"namespace":"serving","labels":{"tetris.dev/function":"bert"}}},
        "nodes":null,"nodenames":["warm"]}"#;
    let answer = ask("/prioritize", body.to_owned()).await;
    assert_eq!(scores(&answer), [("warm", 10)]);
}
