//! Heap that a parser takes for an input, and the bound that it keeps. For fuzz targets and
//! tests.
//!
//! The allocator counts by thread, so that other threads of a test do not disturb. A bound is of the
//! most bytes held at a time, with the result: this is what one client makes a process hold.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

#[global_allocator]
static HEAP: Counting = Counting;

thread_local! {
    /// Bytes that this thread allocated less those that it freed.
    static HELD: Cell<isize> = const { Cell::new(0) };
    /// Maximum of [`HELD`] since the last measurement began.
    static MOST: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, counted.
struct Counting;

fn count(bytes: isize) {
    let live = HELD.get().wrapping_add(bytes);
    HELD.set(live);
    MOST.set(MOST.get().max(live));
}

#[allow(
    unsafe_code,
    reason = "an allocator is unsafe; it only passes arguments on"
)]
// SAFETY: each method passes its arguments to the system's allocator as they are, and returns its
// result. Counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(layout.size().cast_signed().wrapping_neg());
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.cast_signed().wrapping_sub(layout.size().cast_signed()));
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Most bytes of heap for an input.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// Bytes for any input: messages of errors, tables of fixed size.
    pub fixed: usize,
    /// Bytes for each byte of the input.
    pub per_byte: usize,
}

impl Bound {
    /// Runs `parse`, for an input of `bytes`, and returns its result.
    ///
    /// # Panics
    ///
    /// If it held more at a time than the bound allows.
    pub fn hold<T>(self, bytes: usize, parse: impl FnOnce() -> T) -> T {
        let (result, most) = measured(parse);
        let allowed = self
            .per_byte
            .saturating_mul(bytes)
            .saturating_add(self.fixed);
        assert!(
            most <= allowed,
            "{most} bytes of heap for an input of {bytes}, expected at most {allowed}: {self:?}"
        );
        result
    }
}

/// Bytes that this thread holds more than at its start; less where another thread made what it freed.
pub fn held() -> isize {
    HELD.get()
}

/// Runs `work`, and returns its result and the most bytes that it held at a time.
///
/// # Panics
///
/// If this program has another allocator, which counts nothing.
pub fn measured<T>(work: impl FnOnce() -> T) -> (T, usize) {
    const PROBE: usize = 64;
    let before = HELD.get();
    let probe = black_box(Box::new([0u8; PROBE]));
    assert_eq!(
        HELD.get().wrapping_sub(before),
        PROBE.cast_signed(),
        "the allocator does not count"
    );
    drop(probe);
    MOST.set(before);
    let result = work();
    let most = MOST.get().wrapping_sub(before);
    (result, usize::try_from(most).unwrap_or(0))
}
