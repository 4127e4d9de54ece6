//! What the daemon shows of itself: metrics, pages, logs, and the dashboard and alerts over them.

mod conditional;
mod dashboard;
mod endpoints;
mod exposition;
mod fixtures;
mod large;
mod logs;
mod promql;
mod scrape;
mod socket;
