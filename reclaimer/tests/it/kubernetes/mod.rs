//! Declarations of pods, by a watch of an API server that the tests play.

mod annotation;
mod changes;
mod client;
mod failures;
mod malformed;
mod namespaces;
mod options;
mod outages;
mod requests;
mod server;
mod watched;
