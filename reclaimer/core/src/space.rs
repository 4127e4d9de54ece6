//! Memory and inodes, which are limited and guaranteed alike.

/// Memory and inodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Space {
    /// Memory in bytes.
    pub bytes: u64,
    /// Number of inodes.
    pub inodes: u64,
}

impl Space {
    /// More than there can be.
    pub const ENDLESS: Self = Self {
        bytes: u64::MAX,
        inodes: u64::MAX,
    };

    /// Memory without inodes.
    pub const fn of_bytes(bytes: u64) -> Self {
        Self { bytes, inodes: 0 }
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            inodes: self.inodes.saturating_add(other.inodes),
        }
    }

    /// The part beyond `other`.
    #[must_use]
    pub fn beyond(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(other.bytes),
            inodes: self.inodes.saturating_sub(other.inodes),
        }
    }

    /// The lesser of each number.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.min(other.bytes),
            inodes: self.inodes.min(other.inodes),
        }
    }

    /// The greater of each number.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.max(other.bytes),
            inodes: self.inodes.max(other.inodes),
        }
    }

    /// Returns true if both numbers are 0.
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

/// `percent` of `whole`.
pub(crate) fn part_of(whole: u64, percent: u32) -> u64 {
    scaled(whole, percent.into(), 100)
}

/// `value` times `part` by `whole`; 0 if `whole` is.
pub(crate) fn scaled(value: u64, part: u64, whole: u64) -> u64 {
    let product = u128::from(value) * u128::from(part);
    let scaled = product.checked_div(u128::from(whole)).unwrap_or(0);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
