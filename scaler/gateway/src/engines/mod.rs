//! Groups of engines that sleep: many models in one device's memory, behind one endpoint.
//!
//! The decisions are those of [`tetris_scaler_dispatch::engines`]. This part carries them out, by the paths that vLLM has in
//! development mode: `POST /sleep?level=N`, `POST /wake_up` and `GET /is_sleeping`.
//!
//! - `engine`: an engine with its models
//! - `client`: requests of the gateway's own to engines
//! - `shared`: the group behind its lock, and orders under way
//! - `follow`, `timer`: tasks that ask engines for their states, and that act by time
//! - `grant`, `cut`: a request that waits, the right to send it, and its end when its engine must sleep
//! - `group`, `member`: a group of the file, and a function of it
//! - `page`: the states of all groups, as JSON
//!
//! **Guarantees.** Without a waiting request no engine wakes, so a restart of the gateway moves nothing. A failed
//! engine ends its own requests, and the group goes on with the rest of the memory. Clients cannot reach
//! the paths above: no function of a group serves them.

mod client;
mod cut;
mod engine;
mod follow;
mod grant;
mod group;
mod member;
mod metrics;
mod page;
mod settings;
mod shared;
mod timer;

pub(crate) use cut::Cut;
pub(crate) use engine::EngineSettings;
pub(crate) use grant::EngineGrant;
pub(crate) use group::SleepingGroup;
pub(crate) use member::EngineMember;
pub(crate) use metrics::EngineMetrics;
pub(crate) use page::EnginesPage;
pub(crate) use settings::{GroupSettings, SleepLevel};
