//! Dispatch of a function's requests to its instances (the gateway of Tetris 3.1).
//!
//! Pure and deterministic: no I/O, no clock, no threads, no random numbers. Times are microseconds
//! since any fixed moment, and arguments. A [`Dispatcher`] has the queue and the instances of one
//! function; its owner passes on requests, instances and outcomes, and carries out what
//! [`Dispatcher::start`] and [`Dispatcher::dispatch`] return.
//!
//! - **Queue.** Requests wait in the order of their deadlines: arrival plus the function's SLO. The
//!   queue is bounded, and a request leaves it unserved only when it has waited for its longest time.
//! - **Capacity.** An instance has room for `batch * concurrency` requests, the number that it
//!   executes at once, and for as many more as keep it busy between two requests. So requests wait
//!   where every instance can still take them. Behind a batch that is not full they are held back
//!   while a whole one waits, so that the next is full.
//! - **Choice.** A request joins a batch that waits to be filled, if the result comes within the
//!   deadline. Otherwise it goes to the instance with the least outstanding requests for its
//!   capacity. Where a slow instance alone has room, and the first request would be late there, one
//!   that came later and has the time goes there, and the first waits for a faster one.
//! - **Health.** An instance that fails is ejected for a time, gets one request on probation, and
//!   then its share again. One that is slower than profiled gets less. New ones start slowly.
//! - **Early rejection.** A request is refused at once if it would wait for longer than it may.
//!
//! [`gpu`] gives requests of all functions to GPUs, and [`engines`] decides which engines of one device are awake.
//!
//! **Guarantees.** No request is lost or dispatched twice. None waits while an instance has room for
//! it. None waits while one with a later deadline is dispatched, unless it may go to some instances
//! alone ([`Dispatcher::offer_among`]) and those have no room, or would be late on that instance while
//! a faster one can still serve it in time. No instance has more requests than its room. Property
//! tests check all of them.
//!
//! ```
//! use tetris_scaler_core::Slo;
//! use tetris_scaler_dispatch::{Capacity, Dispatcher, InstanceId, Outcome, RequestId, Rules};
//!
//! let mut function = Dispatcher::new(Rules::new(Slo::try_from_us(200_000)?));
//! let capacity = |batch, concurrency, latency_us| Capacity { batch, concurrency, latency_us, batch_wait_us: 0, rate: None };
//! function.add_instance(0, InstanceId(1), capacity(1, 1, 50_000));
//! function.add_instance(0, InstanceId(2), capacity(4, 2, 80_000));
//!
//! let now_us = 60_000_000;
//! for number in 0..10 {
//!     function.offer(now_us, RequestId(number), None)?;
//! }
//! let mut given = [0, 0];
//! while let Some(dispatch) = function.dispatch(now_us) {
//!     given[dispatch.instance.0 as usize - 1] += 1;
//! }
//! assert_eq!((given, function.load().waiting), ([1, 8], 1)); // all rooms are full, and one waits
//!
//! function.complete(now_us + 50_000, RequestId(0), Outcome::Served);
//! assert!(function.dispatch(now_us + 50_000).is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic
    )
)]

mod capacity;
mod choice;
mod dispatcher;
pub mod engines;
pub mod gpu;
mod health;
mod id;
mod instance;
mod latency;
mod load;
mod outcome;
mod rejection;
mod rules;
mod waiting;

pub use capacity::Capacity;
pub use dispatcher::{Dispatch, Dispatcher};
pub use id::{InstanceId, RequestId};
pub use load::{FunctionLoad, InstanceLoad};
pub use outcome::Outcome;
pub use rejection::Rejection;
pub use rules::{Ejection, Rules};
