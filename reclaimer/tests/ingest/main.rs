//! Files that clients pass: published, refused, and fought over.

mod harness;
mod hostile;
mod refusals;
mod served;
