//! There is one value for the size of the stores: the memory limit of the container `broker`.

use serde_json::Value;
use tetris_deploy_tests::files;
use tetris_deploy_tests::kustomize::INSTALLS;
use tetris_deploy_tests::objects::Objects;

use crate::daemon::Daemon;

const DAEMON: &str = "base/node/daemon-set.yaml";
const ENGINES: &str = "base/scaler/engines.yaml";

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
        let broker = Daemon::of(&objects).process("broker");
        assert_eq!(
            broker.container["resources"]["requests"]["memory"],
            Value::Null,
            "{name}"
        );
        let file = broker.file(&objects);
        // The cold tier's is of a disk.
        let of_memory = file.split("[cold]").next().unwrap();
        assert!(!of_memory.contains("size_bytes"), "{name}");
        assert!(!file.contains("memory_limit_bytes"), "{name}");
    }
    for path in files::below("overlays").iter().chain(&files::below("base")) {
        let text = files::read(path);
        let limits = text.matches("memory: ").count();
        let most = match path.as_ref() {
            // Each other process has its own small limit.
            DAEMON => 4,
            // An engine, and the container that copies the profiler.
            ENGINES => 3,
            _ => 1,
        };
        assert!(limits <= most, "{path} has {limits} amounts of memory");
    }
}
