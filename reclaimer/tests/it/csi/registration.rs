//! The kubelet finds the driver, and reports the result.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use tempfile::TempDir;
use tetris_node::csi::wire::*;
use tetris_node::csi::{CsiConfig, CsiError};

use crate::csi::fixture::Driver;

fn config() -> (TempDir, CsiConfig) {
    let dir = tempfile::tempdir().unwrap();
    let config = CsiConfig {
        kubelet_dir: dir.path().to_owned(),
        driver: "csi.example.com".to_owned(),
        ..CsiConfig::default()
    };
    (dir, config)
}

fn notify(driver: &Driver, config: &CsiConfig, plugin_registered: bool, error: &str) {
    let status = RegistrationStatus {
        plugin_registered,
        error: error.to_owned(),
    };
    let method = "/pluginregistration.Registration/NotifyRegistrationStatus";
    let _understood: RegistrationStatusResponse = driver
        .call(&config.registration_socket(), method, status)
        .unwrap();
}

#[test]
fn the_kubelet_is_told_where_the_services_are() {
    let (dir, config) = config();
    let driver = Driver::start(&config, Vec::new());
    let registration = dir.path().join("plugins_registry/reg@csi.example.com.sock");
    let info: PluginInfo = driver
        .call(
            &registration,
            "/pluginregistration.Registration/GetInfo",
            InfoRequest {},
        )
        .unwrap();
    assert_eq!(info.r#type, "CSIPlugin");
    assert_eq!(info.name, "csi.example.com");
    let socket = dir.path().join("plugins/csi.example.com/csi.sock");
    assert_eq!(info.endpoint, socket.to_str().unwrap());
    assert_eq!(info.supported_versions, ["1.0.0"]);
    assert!(!*driver.is_registered.borrow());
    notify(&driver, &config, true, "");
    assert!(*driver.is_registered.borrow());
    // No one but root may have something mounted.
    for socket in [&registration, &socket] {
        let mode = fs::symlink_metadata(socket).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    driver.stop().unwrap();
    assert!(!registration.exists() && !socket.exists());
}

#[test]
fn a_refusal_ends_the_service_with_what_the_kubelet_said() {
    let (_dir, config) = config();
    let driver = Driver::start(&config, Vec::new());
    notify(&driver, &config, false, "version 1.0.0 is not supported");
    let error = driver.end().unwrap_err();
    assert!(matches!(error, CsiError::NotRegistered { .. }));
    let expected =
        "the kubelet did not register driver `csi.example.com`: version 1.0.0 is not supported";
    assert_eq!(error.to_string(), expected);
    assert!(!config.registration_socket().exists() && !config.socket().exists());
}

#[test]
fn stale_sockets_are_replaced_and_live_ones_are_not() {
    let (_dir, config) = config();
    for socket in [config.socket(), config.registration_socket()] {
        fs::create_dir_all(socket.parent().unwrap()).unwrap();
        drop(UnixListener::bind(socket).unwrap());
    }
    let driver = Driver::start(&config, Vec::new());
    let second = Driver::start(&config, Vec::new()).end().unwrap_err();
    assert!(matches!(second, CsiError::InUse { .. }), "{second}");
    notify(&driver, &config, true, "");
    driver.stop().unwrap();
    fs::write(config.registration_socket(), "x").unwrap();
    let error = Driver::start(&config, Vec::new()).end().unwrap_err();
    assert!(matches!(error, CsiError::NotASocket { .. }), "{error}");
    assert_eq!(fs::read(config.registration_socket()).unwrap(), b"x");
    assert!(!config.socket().exists());
}

#[test]
fn configurations_are_checked() {
    let refused = |change: &dyn Fn(&mut CsiConfig)| {
        let mut config = CsiConfig::default();
        change(&mut config);
        let mistakes = config.mistakes();
        let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        lines.join("\n")
    };
    assert_eq!(CsiConfig::default().mistakes(), []);
    for name in [
        "",
        "-a",
        "a.",
        "a..b",
        "a-.b",
        "a/b",
        "a b",
        "Csi.Example",
        &"a".repeat(64),
    ] {
        let error = refused(&|config| name.clone_into(&mut config.driver));
        assert!(error.contains("field `csi.driver`"), "{error}");
    }
    let error = refused(&|config| config.kubelet_dir = "kubelet".into());
    assert!(
        error.contains("an absolute path") && error.ends_with("found kubelet"),
        "{error}"
    );
    for dir in ["/var/lib/ku belet", "/var/lib/[kubelet]", "/var/lib/a@b"] {
        let error = refused(&|config| config.kubelet_dir = dir.into());
        assert!(error.contains("letters, digits"), "{error}");
    }
    let longest = CsiConfig {
        driver: "a".repeat(63),
        ..CsiConfig::default()
    };
    assert_eq!(longest.mistakes(), []);
    let error = refused(&|config| config.kubelet_dir = format!("/{}", "k".repeat(80)).into());
    assert!(error.contains("over 107 bytes"), "{error}");
}
