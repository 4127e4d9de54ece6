//! Checks of passed memory: a memory file of plain pages whose bytes can no longer change.

use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{SealFlags, fcntl_get_seals};
use tetris_store_layout::ObjectRef;
use tetris_wire::daemon::{IngestReason, IngestRefusal};

use super::refusal;

/// File systems of memory files (statfs(2), linux/magic.h).
const TMPFS: u32 = 0x0102_1994;
const HUGETLBFS: u32 = 0x9584_58f6;
/// Bytes of a block of `st_blocks`.
const BLOCK: u64 = 512;

/// Looks at passed memory. Nothing of it is read.
pub(super) fn check(
    file: impl AsFd,
    metadata: &std::fs::Metadata,
    magic: u32,
) -> Result<(), IngestRefusal> {
    let not_memory = |found: String| {
        let text = format!("expected a memory file (memfd_create) of plain pages, found {found}");
        Err(refusal(IngestReason::NOT_MEMORY, text))
    };
    match magic {
        TMPFS => {}
        HUGETLBFS => {
            return not_memory("one of huge pages; make it without MFD_HUGETLB".to_owned());
        }
        other => return not_memory(format!("a file on a file system of type {other:#x}")),
    }
    let Ok(seals) = fcntl_get_seals(file) else {
        return not_memory("a file that takes no seals".to_owned());
    };
    let wanted = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    if !seals.contains(wanted) {
        let text = format!(
            "expected memory with the seals F_SEAL_SHRINK, F_SEAL_GROW and F_SEAL_WRITE, found {}; add them with fcntl(F_ADD_SEALS) when all bytes are written and no writable mapping is left",
            names(seals)
        );
        return Err(refusal(IngestReason::NOT_SEALED, text));
    }
    let len = metadata.len();
    if len == 0 {
        let text = "the memory has no bytes: there is nothing to share";
        return Err(refusal(IngestReason::EMPTY, text));
    }
    let taken = metadata.blocks().saturating_mul(BLOCK);
    if taken < len {
        let text = format!(
            "expected {len} bytes that were all written, found pages for {taken}; write zeros, too"
        );
        return Err(refusal(IngestReason::SPARSE, text));
    }
    Ok(())
}

/// Checks that memory has the length of the object that it is to become.
pub(super) fn check_length(
    metadata: &std::fs::Metadata,
    object: &ObjectRef,
) -> Result<(), IngestRefusal> {
    let len = metadata.len();
    if len != object.len {
        let text = format!(
            "expected memory of {} bytes, as the message says, found {len}",
            object.len
        );
        return Err(refusal(IngestReason::CHANGED, text));
    }
    Ok(())
}

fn names(seals: SealFlags) -> String {
    let known = [
        (SealFlags::SEAL, "F_SEAL_SEAL"),
        (SealFlags::SHRINK, "F_SEAL_SHRINK"),
        (SealFlags::GROW, "F_SEAL_GROW"),
        (SealFlags::WRITE, "F_SEAL_WRITE"),
        (SealFlags::FUTURE_WRITE, "F_SEAL_FUTURE_WRITE"),
    ];
    let set = known.into_iter().filter(|(seal, _)| seals.contains(*seal));
    let set: Vec<_> = set.map(|(_, name)| name).collect();
    if set.is_empty() {
        "none".to_owned()
    } else {
        set.join(", ")
    }
}
