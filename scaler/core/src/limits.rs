//! Ranges of the fields of configurations and of their needs on GPUs.

/// Maximum CPU of one instance, in millicores: 10,000 cores.
pub const MAX_CPU_MILLIS: u64 = 10_000_000;
/// Maximum private memory, and maximum shared memory, of one instance, in bytes: 1 PiB.
pub const MAX_MEMORY_BYTES: u64 = 1 << 50;
/// Maximum batch size, and maximum number of concurrent threads.
pub const MAX_BATCH: u32 = 4_096;
/// Maximum measured rate of one instance, in thousandths of a request per second: a million requests
/// per second.
pub const MAX_RATE_MILLIS: u64 = 1_000_000_000;
