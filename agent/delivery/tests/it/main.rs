//! Pulls from a web server and from folders, and what can go wrong on the way.

mod archives;
mod faults;
mod folder;
mod model_folder;
mod resume;
mod sidecar;
mod web;
mod world;
