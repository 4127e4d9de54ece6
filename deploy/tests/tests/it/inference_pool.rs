//! The sample of the Gateway API Inference Extension: its parts name each other, and the picker.

use serde_json::json;
use tetris_deploy_tests::objects::Objects;

#[test]
fn route_pool_and_picker_belong_together() {
    let objects = Objects::golden("sample-inference-pool");
    let route = objects.one("HTTPRoute", "minilm");
    let backend = &route["spec"]["rules"][0]["backendRefs"][0];
    let pool = objects.one("InferencePool", backend["name"].as_str().unwrap());
    let group = backend["group"].as_str().unwrap();
    assert_eq!(pool["apiVersion"], format!("{group}/v1"));
    assert_eq!(backend["kind"], "InferencePool");
    let picker = &pool["spec"]["endpointPickerRef"];
    let service = objects.one("Service", picker["name"].as_str().unwrap());
    let port = &service["spec"]["ports"][0];
    assert_eq!(port["port"], picker["port"]["number"]);
    // Without it data planes speak HTTP/1 or TLS.
    assert_eq!(port["appProtocol"], "http2");
    // Pods of functions have the label, and servers of instances the port.
    let function = Objects::golden("sample-scaler");
    let function = function.one("InferenceFunction", "minilm");
    let container = &function["spec"]["template"]["spec"]["containers"][0];
    let serves = &container["ports"][0]["containerPort"];
    assert_eq!(&pool["spec"]["targetPorts"], &json!([{"number": serves}]));
    let labels = json!({tetris_scaler::labels::FUNCTION: "minilm"});
    assert_eq!(pool["spec"]["selector"]["matchLabels"], labels);
}
