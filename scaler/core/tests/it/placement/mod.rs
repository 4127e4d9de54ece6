//! Tests of placements: by hand, against enumeration, the published algorithm and an independent
//! calculation.

mod by_hand;
mod enumeration;
mod gpus;
mod properties;
mod reckoning;
mod scenario;
