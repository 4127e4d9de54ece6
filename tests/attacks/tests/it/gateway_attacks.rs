//! Attacks on the gateway's program in the memory limit with which it ships. While one is made, another client's
//! requests are all answered; after it, the memory is back.

use std::time::Duration;

use crate::attacker::{Attacker, Priority, tell};
use crate::gateway::{Gateway, GatewayVictim};

/// Requests of the victim while an attack is in force.
const REQUESTS: usize = 200;

/// Least number of rounds of an attack, of a second each.
const ROUNDS: u64 = 15;

/// Makes an attack until the gateway has ended connections of these kinds.
fn ends(attack: &str, kinds: [&str; 2]) {
    let Some(mut gateway) = Gateway::start() else {
        return;
    };
    let memory = gateway.watch();
    let mut victim = GatewayVictim::start(gateway.address);
    let mut attacker = Attacker::of_gateway(gateway.address, attack, Priority::Normal);
    let ended = kinds.map(|kind| format!("{kind}-ended"));
    let has_ended = |attacker: &Attacker, kind: &String| {
        attacker.counts.get(kind).is_some_and(|number| *number > 0)
    };
    while attacker.look() < ROUNDS || !ended.iter().all(|kind| has_ended(&attacker, kind)) {
        attacker.rounds(1);
        gateway.require_running();
        victim.look();
    }
    victim.requests(REQUESTS);
    let (rounds, counts) = attacker.stop();
    gateway.require_running();
    let most = memory.stop();
    let took = victim.stop();
    let longest: &Duration = took.iter().max().unwrap();
    tell(&format!(
        "{attack}: {rounds} rounds: {counts:?}; at most {most} bytes; {} requests of the victim, the longest {longest:?}",
        took.len()
    ));
    gateway.memory_returns();
}

#[test]
fn open_heads_end_no_gateway() {
    ends("heads", ["many-fields", "allowed-fields"]);
}

#[test]
fn slow_and_waiting_uploads_keep_no_other_client_out() {
    ends("uploads", ["slow-body", "waiting-body"]);
}

#[test]
fn clients_that_do_not_read_hold_no_instance() {
    ends("windows", ["closed-window", "unread"]);
}
