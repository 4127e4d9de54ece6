//! Memory that the C library's allocator keeps.

/// Length from which a block is its own mapping, which goes back to the system when it is freed.
#[cfg(target_env = "gnu")]
const LARGE: i32 = 1 << 20;
/// Longest free end of an arena that is kept.
#[cfg(target_env = "gnu")]
const KEPT: i32 = 128 << 10;
/// Number of arenas. Threads of daemons allocate little at the same time.
#[cfg(target_env = "gnu")]
const ARENAS: i32 = 2;

/// Keeps glibc from raising both thresholds with the largest block that was freed: each of its arenas, eight for a
/// processor, would keep a free end as long as that, which `malloc_trim` leaves in all of them but the first.
///
/// Call it before other threads start.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "a function of the C library")]
pub fn keep_little() {
    const M_TRIM_THRESHOLD: i32 = -1;
    const M_MMAP_THRESHOLD: i32 = -3;
    const M_ARENA_MAX: i32 = -8;
    unsafe extern "C" {
        fn mallopt(parameter: i32, value: i32) -> i32;
    }
    let parameters = [
        (M_TRIM_THRESHOLD, KEPT),
        (M_MMAP_THRESHOLD, LARGE),
        (M_ARENA_MAX, ARENAS),
    ];
    for (parameter, value) in parameters {
        // SAFETY: the declaration and the parameters are those of mallopt(3). They only choose where blocks come from
        // and when they go back; no allocation changes.
        let _it_is_set = unsafe { mallopt(parameter, value) };
    }
}

/// Other allocators have their own ways.
#[cfg(not(target_env = "gnu"))]
pub const fn keep_little() {}
