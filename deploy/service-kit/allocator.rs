//! The C library's allocator.

/// Gives free pages back to the system. glibc keeps them otherwise, wherever a page in use lies above them.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "a function of the C library")]
pub fn give_back() {
    unsafe extern "C" {
        fn malloc_trim(pad: usize) -> i32;
    }
    // SAFETY: the declaration is that of malloc_trim(3), which takes any number, keeps all allocations as they are, and
    // may be called by any thread at any time.
    let _anything = unsafe { malloc_trim(0) };
}

/// Other allocators give pages back by themselves.
#[cfg(not(target_env = "gnu"))]
pub const fn give_back() {}
