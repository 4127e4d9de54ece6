//! Figures and settings of the paper (arXiv:2503.06421), and what it does not give.

/// Bandwidth of the first testbed in bytes per second: figure 17's 632 ms for 15.7 GB of Llama3-8B.
/// The link's nominal 32 GB/s cannot be what the paper measured.
pub const A6000_BYTES_PER_SEC: f64 = 24.8e9;
/// Bandwidth of the second testbed, for each device: table 3's 1,366 ms for an eighth of 140 GB.
pub const A100_BYTES_PER_SEC: f64 = 12.8e9;

/// Length of Llama3-8B and Llama2-13B (table 1), in bytes.
pub const LLAMA3_8B_BYTES: f64 = 15.7e9;
pub const LLAMA2_13B_BYTES: f64 = 24.3e9;

/// Warm time to the first token of Llama3-8B at 2,048 and 4,096 tokens in milliseconds: figure 17,
/// where inference dominates.
pub const TTFT_8B_2K_MS: f64 = 571.0;
pub const TTFT_8B_4K_MS: f64 = 927.0;
/// Warm time of Llama2-13B at 2,048 tokens: from figure 1, in which the cold one is 2.74 times as
/// long, with the load of 24.3 GB and cold kernels.
pub const TTFT_13B_2K_MS: f64 = 666.0;
/// Time that a cold start spends on code of kernels, in milliseconds (2.3).
pub const COLD_KERNELS_MS: f64 = 180.0;

/// A model over several devices in figure 18.
pub struct Distributed {
    pub name: &'static str,
    pub bytes: f64,
    pub devices: usize,
    /// Warm time at 4,096 tokens in milliseconds. The paper shows it as a bar without a number.
    /// Assumed: 2 floating-point operations for each parameter and token, at half of an A100's 312
    /// TFLOP/s, and a third more for communication on 8 devices.
    pub ttft_ms: f64,
}

pub const DISTRIBUTED: [Distributed; 3] = [
    Distributed {
        name: "Llama2-13B, 2 devices",
        bytes: 24.3e9,
        devices: 2,
        ttft_ms: 340.0,
    },
    Distributed {
        name: "Llama2-34B, 4 devices",
        bytes: 60e9,
        devices: 4,
        ttft_ms: 447.0,
    },
    Distributed {
        name: "Llama2-70B, 8 devices",
        bytes: 140e9,
        devices: 8,
        ttft_ms: 600.0,
    },
];

/// Table 3: tokens, and times to the first token in milliseconds without and with merged tensors.
pub const TABLE_3: [(u32, f64, f64); 6] = [
    (512, 1366.0, 1363.0),
    (1024, 1370.0, 1364.0),
    (2048, 1371.0, 1366.0),
    (4096, 1541.0, 1381.0),
    (8192, 2203.0, 1539.0),
    (16384, 4084.0, 3406.0),
];
/// Number of tensors of Llama2-70B in table 3, before and after the merge.
pub const TENSORS: f64 = 1200.0;
pub const MERGED: f64 = 300.0;
