//! The scaler over its real sockets, against clusters, daemons and a Prometheus that the tests simulate.

mod command;
mod fuzz_corpus;
mod gateways;
#[path = "../../../fuzz/heap.rs"]
mod heap;
#[path = "../../../fuzz/checks/inventory_page.rs"]
mod inventory_page;
#[path = "../../../fuzz/seeds/inventory_page.rs"]
mod inventory_page_seeds;
mod keda;
#[path = "../../../fuzz/checks/keda.rs"]
mod keda_check;
#[path = "../../../fuzz/seeds/keda.rs"]
mod keda_seeds;
#[path = "../../../fuzz/checks/loads_page.rs"]
mod loads_page;
#[path = "../../../fuzz/seeds/loads_page.rs"]
mod loads_page_seeds;
mod operator;
mod plan;
#[path = "../../../fuzz/checks/prometheus_answer.rs"]
mod prometheus_answer;
#[path = "../../../fuzz/seeds/prometheus_answer.rs"]
mod prometheus_answer_seeds;
#[path = "../../../fuzz/replay.rs"]
mod replay;
mod served;
mod snapshot;
mod whole;
