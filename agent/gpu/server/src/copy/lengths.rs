//! Lengths of registrations.

/// Maximum length of a registration. The driver holds its locks while it registers: at 0.1 s for
/// each GB, other calls wait at most 7 ms.
const MOST_BYTES: u64 = 64 << 20;

/// Minimum length of a registered object, in bytes. The staging ring copies smaller ones as fast as
/// the driver would register them.
pub const LEAST_REGISTERED_BYTES: u64 = 1 << 20;

/// Lengths of a registrar's registrations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lengths {
    /// Length of each piece of an object but the last, in bytes.
    pub piece_bytes: u64,
    /// Minimum length of an object, in bytes.
    pub least_bytes: u64,
}

impl Lengths {
    /// Cuts objects at multiples of `group_bytes`, so that no piece of a group lies in two
    /// registrations. Where such cuts are not at pages, the executor splits the copies.
    pub fn for_groups(group_bytes: u64) -> Self {
        let groups = MOST_BYTES / group_bytes.max(1) * group_bytes;
        let at_pages = groups > 0 && groups.is_multiple_of(rustix::param::page_size() as u64);
        Self {
            piece_bytes: if at_pages { groups } else { MOST_BYTES },
            least_bytes: LEAST_REGISTERED_BYTES,
        }
    }

    /// Offset and length of each piece of an object of `len` bytes.
    pub fn pieces(self, len: u64) -> impl Iterator<Item = (u64, u64)> {
        let step = self.piece_bytes.max(1);
        let count = if len < self.least_bytes {
            0
        } else {
            len.div_ceil(step)
        };
        (0..count).map(move |number| {
            let from = number * step;
            (from, step.min(len - from))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_large_object_is_cut_at_groups() {
        let lengths = Lengths::for_groups(24 * MIB);
        let pieces: Vec<_> = lengths.pieces(100 * MIB + 1).collect();
        let expected = [(0, 48 * MIB), (48 * MIB, 48 * MIB), (96 * MIB, 4 * MIB + 1)];
        assert_eq!(pieces, expected);
    }

    #[test]
    fn a_small_object_has_no_piece() {
        let lengths = Lengths::for_groups(2 * MIB);
        assert_eq!(lengths.pieces(MIB - 1).count(), 0);
        assert_eq!(lengths.pieces(MIB).collect::<Vec<_>>(), [(0, MIB)]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        /// Pieces cover the object, begin at pages, and have at most 64 MiB. A group that does not
        /// exceed that lies in one piece if its length is a multiple of a page.
        #[test]
        fn pieces_cover_an_object_and_no_group_lies_in_two(pages in 1u64..40_000, odd in 0u64..2, len in MIB..1 << 34) {
            let group = pages * 4096 + odd;
            let lengths = Lengths::for_groups(group);
            let mut end = 0;
            for (from, bytes) in lengths.pieces(len) {
                prop_assert_eq!(from, end);
                prop_assert!(bytes > 0 && bytes <= 64 * MIB);
                prop_assert!(from.is_multiple_of(4096));
                prop_assert!(odd == 1 || group > 64 * MIB || from.is_multiple_of(group));
                end = from + bytes;
            }
            prop_assert_eq!(end, len);
        }
    }
}
