//! Common code of the tests with containers and the programs inside of the containers.

pub mod model;
pub mod report;
