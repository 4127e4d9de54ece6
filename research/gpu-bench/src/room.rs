//! Check of free memory before a run.

use std::path::Path;

use rustix::fs::statvfs;

use crate::BenchError;
use crate::machine::meminfo;
use crate::measure::Needs;
use crate::units::bytes;

/// Host memory in bytes that the kernel and other programs need besides.
const SPARE_BYTES: u64 = 64 << 20;

const LESS: &str = "choose a smaller --bytes, or a smaller measure with --only";
const OTHER_PLACE: &str = "choose a smaller --bytes or another --store-dir";

/// Checks that a model of `model_bytes` fits into `folder`, and that host and device memory suffice
/// for the measures. On the simulated device both come from host memory.
///
/// # Errors
///
/// [`BenchError::Room`] with the kind of memory that does not suffice.
pub(crate) fn check(
    folder: &Path,
    model_bytes: u64,
    needs: Needs,
    device_free_bytes: Option<u64>,
) -> Result<(), BenchError> {
    let files = model_bytes + needs.file_bytes;
    let stat = statvfs(folder).map_err(BenchError::io("look at", folder))?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let place = format!("free space in `{}`", folder.display());
    expect(&place, files + files / 64, free, OTHER_PLACE)?;
    let mut host = files + needs.host_bytes + SPARE_BYTES;
    match device_free_bytes {
        Some(free) => expect("free device memory", needs.device_bytes, free, LESS)?,
        None => host += needs.device_bytes,
    }
    let free = meminfo("MemAvailable").unwrap_or(u64::MAX);
    expect("available host memory", host, free, LESS)
}

fn expect(what: &str, needed: u64, found: u64, next: &'static str) -> Result<(), BenchError> {
    if found >= needed {
        return Ok(());
    }
    Err(BenchError::Room {
        what: what.to_owned(),
        needed: bytes(needed as f64),
        found: bytes(found as f64),
        next,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let folder = Path::new("/dev/shm");
        let refusal =
            |model, needs, device| check(folder, model, needs, device).unwrap_err().to_string();
        let none = Needs::default();
        assert!(check(folder, 1, none, None).is_ok());
        assert!(refusal(1 << 60, none, None).contains("`/dev/shm`"));
        let device = Needs {
            device_bytes: 11,
            ..none
        };
        assert!(check(folder, 1, device, Some(11)).is_ok());
        assert!(refusal(1, device, Some(10)).contains("device memory"));
        let device = Needs {
            device_bytes: 1 << 60,
            ..none
        };
        assert!(refusal(1, device, None).contains("host memory"));
    }
}
