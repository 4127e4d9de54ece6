//! There is one value for the size of the stores: the memory limit of the daemon's container.

use serde_json::Value;
use tetris_deploy_tests::files;
use tetris_deploy_tests::kustomize::INSTALLS;
use tetris_deploy_tests::objects::Objects;

use crate::daemon::Daemon;

#[test]
fn the_tmpfs_is_the_memory_limit_less_the_reserve() {
    for name in INSTALLS {
        let objects = Objects::golden(name);
        let daemon = Daemon::of(&objects);
        let config = daemon.config(&objects);
        let reserve = config.file.mount.as_ref().expect(name).reserve_bytes;
        let size = config.tables.mount.expect(name).size_bytes;
        assert_eq!(size + reserve, daemon.memory_limit(), "{name}");
    }
}

/// The scheduler reserves the limit, which stands in for a request that is missing.
#[test]
fn nothing_else_says_a_size() {
    for name in INSTALLS {
        let objects = Objects::golden(name);
        let daemon = Daemon::of(&objects);
        assert_eq!(
            daemon.container["resources"]["requests"]["memory"],
            Value::Null,
            "{name}"
        );
        assert!(!daemon.file(&objects).contains("size_bytes"), "{name}");
        assert!(
            !daemon.file(&objects).contains("memory_limit_bytes"),
            "{name}"
        );
    }
    for path in files::below("overlays").iter().chain(&files::below("base")) {
        let text = files::read(path);
        let limits = text.matches("memory: ").count();
        assert!(limits <= 1, "{path} has {limits} amounts of memory");
    }
}
