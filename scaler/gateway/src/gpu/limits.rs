//! Limits on the facts that executors report: an executor is not trusted with the gateway's memory.

/// Longest name of a node, switch, device or model, and longest identity of a content, in bytes. Kubernetes allows 253 for a
/// node.
pub(super) const NAME: usize = 256;
/// Longest identity of a part, in bytes: a digest of 256 bits in hexadecimal takes 64.
pub(super) const PART_NAME: usize = 96;
/// Largest number of models of an executor.
pub(super) const MODELS: usize = 4_096;
/// Largest number of links of an executor's device. The largest domains of NVLink have 72 devices.
pub(super) const LINKS: usize = 256;
/// Largest number of parts of a model: the limit of the node's mirror for the objects of a model.
pub(super) const PARTS_OF_MODEL: usize = 16_384;
/// Largest number of parts on a page, and of those in the record of a device's memory: 400 models of 300 tensors each.
pub(super) const PARTS: usize = 131_072;
/// Largest number of parts of all models of a pool. One takes 16 bytes in the pool.
pub(super) const PARTS_OF_POOL: usize = 1_048_576;
/// Largest size of a memory or part in bytes: 256 TiB. Sums of a page's sizes stay far from the end of 64 bits.
pub(super) const SIZE: u64 = 1 << 48;

/// Longest run of bytes without a space or a sign of JSON's structure: a name of which each byte is escaped.
pub(super) const RUN: usize = NAME * 6;
/// Greatest depth of lists and objects on a page, whose own is 6.
pub(super) const DEPTH: usize = 32;

/// Largest page without the parts of models, in bytes: fields of the device, and the longest text of each entry.
pub(super) const PAGE: usize = (64 << 10) + LINKS * (NAME + 64) + MODELS * (2 * NAME + 128);
/// Largest page with them.
pub(super) const PAGE_WITH_PARTS: usize = PAGE + PARTS * (PART_NAME + 40);
/// Largest answer to an order, in bytes.
pub(super) const ORDER: usize = 64 << 10;
