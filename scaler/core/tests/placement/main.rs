//! Placements: by hand, against enumeration, the published way and a plain reckoning.

mod by_hand;
mod enumeration;
mod properties;
mod reckoning;
mod scenario;
