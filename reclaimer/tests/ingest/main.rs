//! Files that clients pass: published, refused, and fought over.

mod configuration;
mod ground;
mod harness;
mod hostile;
mod process;
mod quotas;
mod refusals;
mod served;
mod slow;

#[path = "../shared/settled.rs"]
mod settled;
