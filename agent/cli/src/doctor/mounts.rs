//! Types of file systems, by the table of mounts (proc_pid_mountinfo(5)).

/// Type of the file system with this device, by major and minor number.
pub(super) fn kind_of_device(table: &[u8], device: (u64, u64)) -> Option<String> {
    let lines = table.split(|byte| *byte == b'\n');
    let mut mounts = lines.filter_map(parse_line);
    mounts
        .find(|mount| mount.device == device)
        .map(|mount| mount.kind)
}

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mounted {
    device: (u64, u64),
    kind: String,
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`.
fn parse_line(line: &[u8]) -> Option<Mounted> {
    let text = String::from_utf8_lossy(line);
    let (head, tail) = text.split_once(" - ")?;
    let (major, minor) = head.split(' ').nth(2)?.split_once(':')?;
    Some(Mounted {
        device: (major.parse().ok()?, minor.parse().ok()?),
        kind: tail.split(' ').next()?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TABLE: &[u8] = b"\
22 1 0:21 / / rw,relatime shared:1 - overlay overlay rw,lowerdir=/a
30 22 0:42 / /run/tetris/store ro,nosuid - tmpfs tetris rw,size=8g,huge=within_size
31 22 259:1 / /mnt/\xff rw - nfs4 server:/x ro
";

    #[test]
    fn file_systems_are_found_by_their_device() {
        assert_eq!(kind_of_device(TABLE, (0, 21)).as_deref(), Some("overlay"));
        assert_eq!(kind_of_device(TABLE, (259, 1)).as_deref(), Some("nfs4"));
        assert_eq!(kind_of_device(TABLE, (9, 9)), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_read_without_panic(bytes: Vec<u8>, text in "[0-9: /-]{0,60}") {
            let _kind = kind_of_device(&bytes, (0, 0));
            let _kind = kind_of_device(text.as_bytes(), (0, 0));
        }
    }
}
