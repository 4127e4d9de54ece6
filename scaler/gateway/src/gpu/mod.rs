//! Pools of GPUs: requests of many functions wait in one queue, and are bound to a GPU when they are
//! dispatched.
//!
//! The decisions are those of [`tetris_scaler_dispatch::gpu`]. This part carries them out and informs
//! that library what has happened.
//!
//! - [`status`], `text`: the page of an executor, a server bound to one GPU
//! - `limits`: limits on the facts that executors report
//! - `client`: requests of the gateway's own to executors
//! - `executor`: an executor
//! - `state`, `learn`, `shared`: the scheduler, the facts that pages tell it, and its lock
//! - `device`: the device of an executor
//! - `models`, `contents`, `places`: the names and contents that executors report, as numbers
//! - `timer`, `follow`: the pool's tasks, for refusals by time and for pages
//! - `grant`: a request that waits, and the right to send it
//! - `pool`, `member`: the pool, and a function of it
//!
//! **Flow.** A request is queued, and refused if the queue is full or no GPU can have it in time. When
//! the policy gives it to a GPU, the executor is asked to unload the evicted models and to load the
//! request's own; it takes both orders at once. Then the request itself is sent, which waits there
//! for the bytes. An executor that refuses the orders or cannot be reached has not got the request:
//! another GPU can have it.
//!
//! **Guarantees.** An executor cannot make the gateway hold more than its limits allow: a page above a limit is refused, and the
//! executor gets no requests. Names that no executor reports are forgotten, and an executor that leaves the configuration is, too.

mod client;
mod contents;
mod device;
mod executor;
mod follow;
mod grant;
mod learn;
mod limits;
mod member;
mod models;
mod page_error;
mod places;
mod pool;
mod report;
mod shared;
mod state;
pub mod status;
mod text;
mod timer;

pub(crate) use client::PageMemory;
pub(crate) use executor::{ExecutorAddresses, OrdersAddress};
pub(crate) use grant::GpuGrant;
pub(crate) use member::{Member, MemberRules};
pub use page_error::PageError;
pub(crate) use pool::GpuPool;
pub use report::PoolReport;
