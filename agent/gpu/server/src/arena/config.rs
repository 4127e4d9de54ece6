//! Size parameters of an arena.

use thiserror::Error;

/// Size parameters of an arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArenaConfig {
    granule_bytes: u64,
    chunk_bytes: u64,
    align_bytes: u64,
    waste_percent: u64,
    whole_chunks: bool,
}

/// A size that contradicts a rule or another size.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("expected {expected}, found {found}; choose another size")]
pub struct ArenaConfigError {
    expected: &'static str,
    found: u64,
}

impl Default for ArenaConfig {
    /// 256 MiB chunks of 2 MiB granules: a model of 10 GB has about 40 descriptors. Objects lie at
    /// multiples of 512 bytes, like tensors from PyTorch's allocator; `cudaMalloc` aligns to 256
    /// bytes. The arena fills holes first once they exceed an eighth of the live bytes.
    fn default() -> Self {
        Self {
            granule_bytes: 2 << 20,
            chunk_bytes: 256 << 20,
            align_bytes: 512,
            waste_percent: 12,
            whole_chunks: false,
        }
    }
}

impl ArenaConfig {
    /// Checks the sizes and returns a configuration.
    ///
    /// `align_bytes` and `granule_bytes` are powers of two, and the alignment is at most a granule.
    /// `chunk_bytes` is a multiple of the granule. `waste_percent`, relative to the live bytes, is
    /// at most 100.
    ///
    /// # Errors
    ///
    /// [`ArenaConfigError`] if a size breaks one of these rules.
    pub fn try_new(
        granule_bytes: u64,
        chunk_bytes: u64,
        align_bytes: u64,
        waste_percent: u64,
    ) -> Result<Self, ArenaConfigError> {
        let config = Self {
            granule_bytes,
            chunk_bytes,
            align_bytes,
            waste_percent,
            whole_chunks: false,
        };
        config.check().map(|()| config)
    }

    fn check(&self) -> Result<(), ArenaConfigError> {
        let (granule, chunk, align) = (self.granule_bytes, self.chunk_bytes, self.align_bytes);
        let power = granule.is_power_of_two() && granule <= 1 << 40;
        let aligned = align.is_power_of_two() && align <= granule;
        let whole = chunk > 0 && power && chunk.is_multiple_of(granule);
        let share = self.waste_percent <= 100;
        let rules = [
            (
                power,
                "a granule that is a power of two, at most 1 TiB",
                granule,
            ),
            (
                aligned,
                "an alignment that is a power of two, at most a granule",
                align,
            ),
            (whole, "a chunk that is a multiple of the granule", chunk),
            (share, "waste of at most 100 percent", self.waste_percent),
        ];
        let broken = rules.into_iter().find(|(fine, ..)| !fine);
        broken.map_or(Ok(()), |(_, expected, found)| {
            Err(ArenaConfigError { expected, found })
        })
    }

    /// Returns a configuration whose chunks are [`Self::chunk_bytes`] long, so that one fits for
    /// another (A6). They waste more: at least half of the live bytes may be wasted.
    #[must_use]
    pub fn with_whole_chunks(self) -> Self {
        Self {
            whole_chunks: true,
            waste_percent: self.waste_percent.max(50),
            ..self
        }
    }

    /// Returns a configuration whose chunks are as long as their content.
    #[must_use]
    pub(crate) fn with_exact_chunks(self) -> Self {
        Self {
            whole_chunks: false,
            ..self
        }
    }

    /// Unit of a chunk's length, in bytes.
    pub fn granule_bytes(&self) -> u64 {
        self.granule_bytes
    }

    /// Length up to which the arena fills a chunk, in bytes.
    pub fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    /// Alignment of every offset, in bytes.
    pub fn align_bytes(&self) -> u64 {
        self.align_bytes
    }

    /// Waste above which the arena fills holes before it grows, in percent of the live bytes.
    pub fn waste_percent(&self) -> u64 {
        self.waste_percent
    }

    /// True if chunks have their full length.
    pub(super) fn whole_chunks(&self) -> bool {
        self.whole_chunks
    }

    /// Length of an object of `len` bytes after alignment; `None` on overflow.
    pub(super) fn aligned(&self, len: u64) -> Option<u64> {
        len.checked_next_multiple_of(self.align_bytes)
    }

    /// Number of bytes that may be wasted beside `live_bytes`; at least one chunk.
    pub fn waste_limit(&self, live_bytes: u64) -> u64 {
        let share = live_bytes / 100 * self.waste_percent;
        share.max(self.chunk_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_do_not_go_together_are_refused() {
        assert!(ArenaConfig::try_new(2 << 20, 256 << 20, 512, 12).is_ok());
        for (granule, chunk, align, waste) in [
            (3, 9, 1, 0),
            (0, 0, 0, 0),
            (4096, 4096 * 3 + 1, 512, 12),
            (4096, 0, 512, 12),
            (4096, 8192, 8192, 12),
            (4096, 8192, 512, 101),
        ] {
            assert!(ArenaConfig::try_new(granule, chunk, align, waste).is_err());
        }
    }
}
