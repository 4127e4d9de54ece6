//! Lines of `/proc/self/mountinfo`.

use std::path::Path;

use proptest::prelude::*;
use tetris_node::mount::MountEntry;

#[test]
fn a_line_is_read() {
    let line =
        b"36 35 98:0 /mnt1 /mnt2 ro,noatime shared:7 master:1 - ext3 /dev/root rw,errors=continue";
    let entry = MountEntry::parse(line).unwrap();
    assert_eq!(entry.id, 36);
    assert_eq!(entry.root, Path::new("/mnt1"));
    assert_eq!(entry.mount_point, Path::new("/mnt2"));
    assert!(entry.is_read_only() && entry.has("noatime") && !entry.has("rw"));
    assert!(entry.shared);
    assert_eq!(entry.fs_type, "ext3");
    assert_eq!(entry.super_option("errors"), Some("continue"));
    assert_eq!(entry.super_option("rw"), Some(""));
    assert_eq!(entry.super_option("ro"), None);
}

#[test]
fn spaces_in_paths_are_written_in_octal_and_contexts_in_quotation_marks() {
    let line = br#"1 0 0:39 / /with\040space\134and\011tab rw,nodev - tmpfs tetris rw,context="system_u:object_r:t:s0:c1,c2",size=16k"#;
    let entry = MountEntry::parse(line).unwrap();
    assert_eq!(entry.mount_point, Path::new("/with space\\and\ttab"));
    assert!(!entry.shared);
    let context = entry.super_option("context");
    assert_eq!(context, Some("\"system_u:object_r:t:s0:c1,c2\""));
    assert_eq!(entry.super_option("size"), Some("16k"));
}

#[test]
fn every_mount_of_this_machine_is_read() {
    let text = std::fs::read("/proc/self/mountinfo").unwrap();
    let lines = text
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    for line in lines {
        let shown = String::from_utf8_lossy(line).into_owned();
        let entry = MountEntry::parse(line).unwrap_or_else(|| panic!("{shown}"));
        assert!(entry.mount_point.is_absolute(), "{shown}");
        assert!(entry.has("ro") || entry.has("rw"), "{shown}");
    }
}

proptest! {
    #[test]
    fn whatever_the_line_is_nothing_breaks(line in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _entry = MountEntry::parse(&line);
    }
}

#[test]
fn a_line_without_its_end_is_no_entry() {
    let whole = "36 35 98:0 / /mnt2 rw,noatime master:1 - tmpfs tetris ";
    for cut in 0..=whole.len() {
        let parsed = MountEntry::parse(&whole.as_bytes()[..cut]);
        assert_eq!(parsed, None, "{cut}");
    }
    assert!(MountEntry::parse(format!("{whole}rw").as_bytes()).is_some());
}
