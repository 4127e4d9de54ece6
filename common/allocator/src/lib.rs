//! Memory that the C library's allocator keeps. Allocators other than glibc's give pages back by themselves.

#[cfg(target_env = "gnu")]
mod glibc;

/// Gives free pages back to the system, which may take milliseconds. glibc keeps them otherwise, wherever a page in
/// use lies above them.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    glibc::trim();
}

/// Keeps glibc from raising its thresholds with the largest block that was freed: each of its arenas, eight for a
/// processor, would keep a free end as long as that, which [`give_back`] leaves in all of them but the first.
///
/// Call it before other threads start.
pub fn keep_little() {
    #[cfg(target_env = "gnu")]
    glibc::set_thresholds();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_stays_valid() {
        keep_little();
        let kept = vec![7_u8; 3 << 20];
        drop(vec![1_u8; 5 << 20]);
        give_back();
        assert!(kept.iter().all(|byte| *byte == 7));
    }
}
