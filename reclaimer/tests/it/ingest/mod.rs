//! Files that clients pass: published, refused, and fought over.

mod assembled;
mod charged;
mod configuration;
mod derived;
pub mod ground;
pub mod harness;
mod headers;
mod hostile;
mod layout;
mod memory;
mod mistaken;
mod process;
mod pulled;
mod quotas;
mod records;
mod refusals;
mod served;
mod slow;
mod swapped;
