//! Plans of the policies, and their documents.

mod documented;
mod plan;
