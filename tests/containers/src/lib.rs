//! What the tests with containers and the programs inside of the containers have in common.

pub mod model;
pub mod report;
