//! The place of a device in the tree of PCI bridges.

use std::path::Path;

/// Folder of the kernel with an entry for each PCI device.
const DEVICES: &str = "/sys/bus/pci/devices";

/// Returns the PCI address of the bridge whose bandwidth a device shares with others: the upstream
/// port of its switch. `None` for a device that has a root port for itself, and where the kernel
/// does not tell, as in some virtual machines. `address` is the device's own.
pub fn switch_of(address: &str) -> Option<String> {
    let entry = Path::new(DEVICES).join(address.to_ascii_lowercase());
    above(&entry.canonicalize().ok()?)
}

/// The bridge two levels above a device, of its path in `/sys/devices`. One level above is a port
/// per link: of the root complex, or the downstream one of a switch.
fn above(path: &Path) -> Option<String> {
    let names = path.iter().filter_map(|name| name.to_str());
    let bridges: Vec<_> = names.filter(|name| is_address(name)).collect();
    let at = bridges.len().checked_sub(3)?;
    bridges.get(at).map(|name| (*name).to_owned())
}

/// Returns true for a domain, bus, device and function, e.g. `0000:3b:00.0`.
fn is_address(name: &str) -> bool {
    let parts: Vec<_> = name.split([':', '.']).collect();
    let hexadecimal = |part: &&str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    parts.len() == 4 && parts.iter().all(hexadecimal) && name.contains('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_behind_a_switch_share_its_upstream_port() {
        let of = |path: &str| above(Path::new(path));
        let root = "/sys/devices/pci0000:00/0000:00:01.0";
        let first = of(&format!("{root}/0000:01:00.0/0000:02:08.0/0000:03:00.0"));
        let other = of(&format!("{root}/0000:01:00.0/0000:02:0c.0/0000:04:00.0"));
        assert_eq!(first.as_deref(), Some("0000:01:00.0"));
        assert_eq!(first, other);
        assert_eq!(of(&format!("{root}/0000:01:00.0")), None);
        assert_eq!(of("/sys/devices/virtual/net/lo"), None);
        let above = of("/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0");
        assert_eq!(above.as_deref(), Some("0000:00:01.0"));
    }

    #[test]
    fn a_device_that_is_not_there_has_no_switch() {
        assert_eq!(switch_of("ffff:ff:1f.7"), None);
        assert_eq!(switch_of("../../../etc"), None);
    }
}
