//! The tmpfs of the stores: what is decided about it, and what comes of it.

mod adopting;
mod configuration;
mod deciding;
mod mountinfo;
mod mounting;
mod removing;
