//! Finding the API server.

use std::process::Command;

use tetris_node::kubernetes::{ClientError, client};

const KUBECONFIG: &str = r#"{
  "apiVersion": "v1", "kind": "Config", "current-context": "c",
  "clusters": [{"name": "k", "cluster": {"server": "https://127.0.0.1:1"}}],
  "users": [{"name": "u", "user": {"token": "t"}}],
  "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}]
}"#;

#[tokio::test]
async fn a_kubeconfig_makes_a_client_without_a_request() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    std::fs::write(&path, KUBECONFIG).unwrap();
    assert!(client(Some(&path)).await.is_ok());
}

#[tokio::test]
async fn a_kubeconfig_that_is_not_usable_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let broken = dir.path().join("broken");
    std::fs::write(&broken, "clusters: 7").unwrap();
    for path in [missing, broken] {
        let error = client(Some(&path)).await.err().unwrap();
        assert!(matches!(error, ClientError::Kubeconfig { .. }));
        assert!(
            error.to_string().contains(path.to_str().unwrap()),
            "{error}"
        );
    }
}

/// The environment decides, and tests must not change their own: so this test runs itself in
/// another one.
#[test]
fn where_there_is_no_cluster_the_error_says_what_to_do() {
    const CHILD: &str = "TETRIS_TEST_NO_CLUSTER";
    if std::env::var_os(CHILD).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let error = runtime.unwrap().block_on(client(None)).err().unwrap();
        assert!(matches!(error, ClientError::NoCluster { .. }));
        assert!(error.to_string().contains("set KUBECONFIG"), "{error}");
        return;
    }
    let name = "kubernetes::client::where_there_is_no_cluster_the_error_says_what_to_do";
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env(CHILD, "1")
        .env("KUBECONFIG", "/nowhere/config")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
}
