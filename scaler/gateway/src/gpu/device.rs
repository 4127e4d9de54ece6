//! Device of an executor, as its last page reported it.

use super::status::LinkStatus;

/// Facts about its device that an executor's last page reported.
#[derive(Debug)]
pub(super) struct Device {
    pub uuid: Box<str>,
    /// Names of its node and switch.
    pub places: [String; 2],
    pub bytes_per_s: Option<u64>,
    /// Other devices, with bytes per second.
    pub links: Vec<(Box<str>, u64)>,
}

impl Device {
    pub(super) fn has_links(&self, found: &[LinkStatus<'_>]) -> bool {
        let reported = found.iter().map(|link| (&*link.to, link.bytes_per_second));
        let links = self.links.iter().map(|(to, speed)| (&**to, *speed));
        links.eq(reported)
    }
}
