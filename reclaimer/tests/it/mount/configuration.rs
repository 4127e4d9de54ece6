//! The tables `mount` and `csi` of a configuration.

use std::path::Path;

use tetris_node::config::ConfigFile;
use tetris_node::mount::{HugePages, INODE_BYTES};

const REST: &str = "node = \"node-1\"\nkubernetes.enabled = true\n[[stores]]\nname = \"a\"\npath = \"/run/tetris/a\"\n";
const MOUNT: &str = "[mount]\npath = \"/run/tetris\"\nsize_bytes = 1073741824\n";

fn checked(text: &str) -> Result<ConfigFile, String> {
    let file = ConfigFile::parse(text, Path::new("/etc/node.toml"));
    let file = file.map_err(|error| error.to_string())?;
    file.check()
        .map(|config| config.file)
        .map_err(|error| error.to_string())
}

#[test]
fn without_the_tables_nothing_is_mounted_or_served() {
    let file = checked(REST).unwrap();
    assert_eq!((file.mount, file.csi), (None, None));
}

#[test]
fn little_has_to_be_said() {
    let file = checked(&format!("{REST}{MOUNT}[csi]\n")).unwrap();
    let mount = file.mount.unwrap();
    assert_eq!(
        (mount.inodes, mount.huge, mount.noswap),
        (None, HugePages::WithinSize, true)
    );
    let csi = file.csi.unwrap();
    assert_eq!(csi.driver, "csi.tetris.dev");
    let socket = csi.registration_socket();
    assert_eq!(
        socket,
        Path::new("/var/lib/kubelet/plugins_registry/reg@csi.tetris.dev.sock")
    );
}

#[test]
fn the_size_can_be_a_share_of_the_ram() {
    let text = format!("{REST}[mount]\npath = \"/run/tetris\"\nsize_percent = 50\n");
    let size_bytes = |text: &str| {
        let file = ConfigFile::parse(text, Path::new("/etc/node.toml")).unwrap();
        file.check().unwrap().tables.mount.unwrap().size_bytes
    };
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total = meminfo.lines().find(|line| line.starts_with("MemTotal"));
    let total: u64 = total
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    let half = size_bytes(&text);
    assert!(
        half.abs_diff(total * 1024 / 2) < 4 << 20,
        "{half} of {total} KiB"
    );
    assert_eq!(half % (2 << 20), 0);
    // A memory limit bounds it as well.
    let limited = format!("{text}memory_limit_bytes = 536870912\nreserve_bytes = 1048576\n");
    let file = ConfigFile::parse(&limited, Path::new("/etc/node.toml")).unwrap();
    let error = file.check().unwrap_err().to_string();
    assert!(error.contains("at most 535822336"), "{error}");
}

/// The kernel's memory of files is charged to the daemon beside a full tmpfs, so the reserve has to
/// bear all that there can be.
#[test]
fn the_number_of_inodes_follows_from_the_reserve() {
    let mounted = |text: &str| {
        let text = format!("{REST}{MOUNT}{text}");
        let file = ConfigFile::parse(&text, Path::new("/etc/node.toml")).unwrap();
        file.check()
            .map(|config| config.tables.mount.unwrap().inodes)
    };
    assert_eq!(mounted("").unwrap(), (512 << 20) / 2 / INODE_BYTES);
    assert_eq!(mounted("reserve_bytes = \"1GiB\"").unwrap(), 568_719);
    assert_eq!(mounted("reserve_bytes = 0").unwrap(), 64);
    assert_eq!(mounted("inodes = 1048576").unwrap(), 1 << 20);
    let limited = "memory_limit_bytes = \"4GiB\"\n";
    let most = mounted(&format!("{limited}inodes = 568719")).unwrap();
    assert!(most * INODE_BYTES <= 512 << 20);
    let error = mounted(&format!("{limited}inodes = 1048576")).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("`mount.inodes`: expected at most 568719, for which `mount.reserve_bytes`"),
        "{error}"
    );
}

#[test]
fn everything_can_be_said() {
    let text = format!(
        r#"{REST}{MOUNT}
        inodes = 1000
        huge = "never"
        noswap = false
        selinux_context = "system_u:object_r:container_file_t:s0"
        [csi]
        driver = "csi.example.com"
        kubelet_dir = "/data/kubelet"
        [csi.per_namespace]
        name = "ns-{{namespace}}"
        path = "/run/tetris/ns-{{namespace}}"
        namespaces = ["blue"]
        limit = 8
        "#
    );
    let file = checked(&text).unwrap();
    assert_eq!(
        file.csi
            .as_ref()
            .unwrap()
            .per_namespace
            .as_ref()
            .unwrap()
            .limit,
        8
    );
    let printed = file.to_toml().unwrap();
    assert_eq!(checked(&printed).unwrap(), file, "{printed}");
}

#[test]
fn errors_name_the_field_what_is_expected_and_what_was_found() {
    let with_path = |path: &str| format!("{MOUNT}[csi.per_namespace]\npath = \"{path}\"\n");
    for (tables, expected) in [
        (
            "[mount]\npath = \"run\"\nsize_bytes = 1073741824".to_owned(),
            "`mount.path`: expected an absolute path other than `/`, found run",
        ),
        (
            "[mount]\npath = \"/\"\nsize_bytes = 1073741824".to_owned(),
            "`mount.path`",
        ),
        (
            "[mount]\npath = \"/run/t\"\nsize_bytes = 1".to_owned(),
            "`mount.size_bytes`: expected at least 1048576, found 1",
        ),
        (
            "[mount]\npath = \"/run/t\"".to_owned(),
            "`mount.size_bytes`: expected a size, here or as `mount.size_percent`",
        ),
        (
            format!("{MOUNT}size_percent = 50"),
            "`mount.size_percent`: expected nothing beside `mount.size_bytes`, found 50",
        ),
        (
            "[mount]\npath = \"/run/t\"\nsize_percent = 101".to_owned(),
            "`mount.size_percent`: expected 1 to 100, found 101",
        ),
        (
            format!("{MOUNT}inodes = 1"),
            "`mount.inodes`: expected at least 64",
        ),
        (format!("{MOUNT}huge = \"always\""), "field `mount.huge`"),
        (
            format!("{MOUNT}selinux_context = \"t\""),
            "`mount.selinux_context`: expected user:role:type:level",
        ),
        (format!("{MOUNT}size = 1"), "unknown field `size`"),
        ("[csi]\ndrivre = \"a\"".to_owned(), "unknown field `drivre`"),
        (
            with_path("/run/tetris/a"),
            "`csi.per_namespace.path`: expected an absolute path with `{namespace}` once",
        ),
        (with_path("/run/{namespace}/a"), "in its last part"),
        (
            with_path("/run/other/{namespace}"),
            "expected a directory directly in `/run/tetris`, found /run/other/{namespace}",
        ),
        (
            format!("{}name = \"a\"", with_path("/run/tetris/{namespace}")),
            "`csi.per_namespace.name`",
        ),
        (
            format!(
                "{}namespaces = [\"a/b\"]",
                with_path("/run/tetris/{namespace}")
            ),
            "`csi.per_namespace.namespaces[0]`",
        ),
        (
            format!("{}limit = 0", with_path("/run/tetris/{namespace}")),
            "`csi.per_namespace.limit`: expected 1 to 4096",
        ),
    ] {
        let error = checked(&format!("{REST}{tables}\n")).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let error = checked(&format!(
        "{}[csi]\n",
        REST.replace("node = \"node-1\"\nkubernetes.enabled = true\n", "")
    ))
    .unwrap_err();
    assert!(error.contains("since there is a table `csi`"), "{error}");
    let alone = REST.replace("enabled = true", "enabled = false");
    let error = checked(&format!("{alone}{}", with_path("/run/tetris/{namespace}"))).unwrap_err();
    let expected = "`csi.per_namespace`: expected `kubernetes.enabled = true`";
    assert!(error.contains(expected), "{error}");
}
