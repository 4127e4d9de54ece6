//! Decisions about an observed path.

use tetris_node::mount::{
    Action, Changes, HugePages, MountConfig, MountEntry, ObservedPath, Refusal, TmpfsSize, decide,
};

const MIB: u64 = 1 << 20;

fn config() -> MountConfig {
    MountConfig {
        path: "/run/tetris".into(),
        size_bytes: 64 * MIB,
        inodes: 1000,
        huge: HugePages::WithinSize,
        noswap: true,
        selinux_context: None,
        user: 0,
    }
}

fn entry(line: &str) -> MountEntry {
    MountEntry::parse(line.as_bytes()).unwrap()
}

fn room() -> TmpfsSize {
    TmpfsSize {
        block: 4096,
        bytes: 64 * MIB,
        bytes_used: 10 * MIB,
        inodes: 1000,
        inodes_used: 100,
    }
}

/// As [`config`] makes it.
const AS_CONFIGURED: &str = "9 1 0:39 / /run/tetris rw,nosuid,nodev,noexec shared:1 - tmpfs tetris rw,size=65536k,nr_inodes=1000,huge=within_size,noswap";

fn mounted(line: &str, room: TmpfsSize) -> ObservedPath {
    let entry = entry(line);
    ObservedPath::Mounted {
        entry: Box::new(entry),
        room,
    }
}

fn action(found: &ObservedPath, config: &MountConfig) -> Result<Action, Refusal> {
    decide(found, config, false).map(|decision| decision.action)
}

#[test]
fn nothing_there_is_mounted_and_what_is_there_is_adopted() {
    assert_eq!(
        action(&ObservedPath::Missing, &config()),
        Ok(Action::Create)
    );
    let empty = ObservedPath::Directory { empty: true };
    assert_eq!(action(&empty, &config()), Ok(Action::Create));
    let adopted = mounted(AS_CONFIGURED, room());
    let decision = decide(&adopted, &config(), false).unwrap();
    assert_eq!(decision.action, Action::Adopt);
    assert_eq!(decision.notes, []);
}

#[test]
fn a_size_is_rounded_up_to_pages_before_it_is_compared() {
    let mut odd = config();
    odd.size_bytes = 64 * MIB - 4095;
    let adopted = mounted(AS_CONFIGURED, room());
    assert_eq!(action(&adopted, &odd), Ok(Action::Adopt));
    odd.size_bytes = 64 * MIB + 1;
    let changes = Changes {
        size_bytes: Some(64 * MIB + 4096),
        ..Changes::default()
    };
    assert_eq!(action(&adopted, &odd), Ok(Action::Remount(changes)));
    odd.size_bytes = u64::MAX;
    assert!(matches!(action(&adopted, &odd), Ok(Action::Remount(_))));
}

#[test]
fn it_grows_and_shrinks_down_to_what_is_used_and_no_further() {
    let adopted = mounted(AS_CONFIGURED, room());
    let mut wanted = config();
    wanted.size_bytes = 10 * MIB;
    wanted.inodes = 100;
    let changes = Changes {
        size_bytes: Some(10 * MIB),
        inodes: Some(100),
        huge: None,
    };
    assert_eq!(action(&adopted, &wanted), Ok(Action::Remount(changes)));
    wanted.size_bytes -= 4096;
    let error = action(&adopted, &wanted).unwrap_err().to_string();
    let expected = "10485760 bytes are in use, so it cannot shrink from 67108864 to 10481664; free some, or set at least 10485760";
    assert_eq!(error, expected);
    wanted = config();
    wanted.inodes = 99;
    let error = action(&adopted, &wanted).unwrap_err();
    assert!(
        matches!(error, Refusal::TooFull { unit: "inodes", .. }),
        "{error}"
    );
}

#[test]
fn huge_pages_change_in_place() {
    let never = AS_CONFIGURED.replace("huge=within_size,", "");
    let changes = Changes {
        huge: Some(HugePages::WithinSize),
        ..Changes::default()
    };
    let adopted = mounted(&never, room());
    assert_eq!(action(&adopted, &config()), Ok(Action::Remount(changes)));
    let mut wanted = config();
    wanted.huge = HugePages::Never;
    assert_eq!(action(&adopted, &wanted), Ok(Action::Adopt));
}

#[test]
fn what_cannot_be_changed_is_said_and_no_obstacle() {
    let bare = "9 1 0:39 / /run/tetris rw - tmpfs x rw,huge=within_size";
    let unlimited = TmpfsSize {
        inodes: 0,
        inodes_used: 0,
        ..room()
    };
    let mut wanted = config();
    wanted.selinux_context = Some("system_u:object_r:container_file_t:s0".to_owned());
    let decision = decide(&mounted(bare, unlimited), &wanted, true).unwrap();
    assert_eq!(decision.action, Action::Adopt);
    let options: Vec<_> = decision.notes.iter().map(|note| note.option).collect();
    let expected = [
        "noswap",
        "nr_inodes",
        "nodev",
        "nosuid",
        "noexec",
        "context",
    ];
    assert_eq!(options, expected);
    let context = decision.notes.last().unwrap().to_string();
    let expected = "`context`: is none, expected system_u:object_r:container_file_t:s0, and cannot be changed while mounted";
    assert_eq!(context, expected);
    // Without SELinux, no one minds.
    let decision = decide(&mounted(bare, unlimited), &wanted, false).unwrap();
    assert!(decision.notes.iter().all(|note| note.option != "context"));
    let labeled = format!("{AS_CONFIGURED},context=\"system_u:object_r:container_file_t:s0\"");
    let decision = decide(&mounted(&labeled, room()), &wanted, true).unwrap();
    assert_eq!(decision.notes, []);
}

#[test]
fn what_is_not_ours_is_refused_with_what_to_do() {
    let cases = [
        (
            ObservedPath::NotADirectory {
                what: "a symbolic link",
            },
            "it is a symbolic link, expected a directory or nothing",
        ),
        (
            ObservedPath::Directory { empty: false },
            "would hide its contents",
        ),
        (
            mounted("9 1 8:1 / /run/tetris rw - ext4 /dev/sda1 rw", room()),
            "a file system of type ext4 is mounted there, expected a whole tmpfs",
        ),
        (
            mounted("9 1 0:39 /a /run/tetris rw - tmpfs tetris rw", room()),
            "directory `/a` of a tmpfs is mounted there",
        ),
        (
            mounted(&AS_CONFIGURED.replace("rw,nosuid", "ro,nosuid"), room()),
            "a read-only tmpfs is mounted there",
        ),
        (
            mounted(&AS_CONFIGURED.replace("tetris rw", "tetris ro"), room()),
            "a read-only tmpfs is mounted there",
        ),
        (
            mounted(AS_CONFIGURED, TmpfsSize { bytes: 0, ..room() }),
            "has no size limit",
        ),
    ];
    for (found, expected) in cases {
        let error = action(&found, &config()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains("set another `mount.path`"), "{error}");
    }
}
