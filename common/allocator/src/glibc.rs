//! Functions of glibc.
#![expect(unsafe_code, reason = "functions of the C library")]

/// Length from which a block is a mapping, which goes back to the system when it is freed, in bytes.
const LARGE: i32 = 1 << 20;
/// Longest free end of a kept arena, in bytes.
const KEPT: i32 = 128 << 10;
/// Number of arenas. Threads of daemons allocate little at the same time.
const ARENAS: i32 = 2;

const M_TRIM_THRESHOLD: i32 = -1;
const M_MMAP_THRESHOLD: i32 = -3;
const M_ARENA_MAX: i32 = -8;

unsafe extern "C" {
    fn malloc_trim(pad: usize) -> i32;
    fn mallopt(parameter: i32, value: i32) -> i32;
}

pub(crate) fn trim() {
    // SAFETY: the declaration is that of malloc_trim(3), which takes any number, keeps all allocations as they are, and
    // may be called by any thread at any time.
    let _released = unsafe { malloc_trim(0) };
}

pub(crate) fn set_thresholds() {
    let parameters = [
        (M_TRIM_THRESHOLD, KEPT),
        (M_MMAP_THRESHOLD, LARGE),
        (M_ARENA_MAX, ARENAS),
    ];
    for (parameter, value) in parameters {
        // SAFETY: the declaration and the parameters are those of mallopt(3). They only choose where blocks come from
        // and when they go back; no allocation changes.
        let _set = unsafe { mallopt(parameter, value) };
    }
}
