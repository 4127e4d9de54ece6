//! Derived records without number, whose layout tables have as many sources or objects as a table may have.

use std::os::fd::AsFd as _;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tetris_agent::daemon::{DaemonClient, DaemonError, HeldInStore, sealed_memory};
use tetris_store_layout::{
    Layout, LayoutKey, MAX_LAYOUT_SOURCES, MAX_OBJECTS, ObjectId, ObjectRef, Store, TensorId,
    TrustDomain,
};

use super::Rounds;
use crate::client::{ANSWER, socket};
use crate::line::Tally;

/// Records of each table.
const RECORDS: u32 = 100;

pub(super) fn run(rounds: &Rounds<'_>) -> Result<()> {
    let store = Store::open(&rounds.context.store)?;
    rounds.repeat(Duration::from_millis(100), |round, tally| {
        let daemon = DaemonClient::of_store(&store, ANSWER);
        let Ok(domain) = daemon.trust_domain(store.header_descriptor()) else {
            // The daemon is between two starts.
            tally.count("no-daemon");
            return Ok(());
        };
        let domain = domain.context("this pod has no trust domain: the kernel maps no ids")?;
        let table = if round % 4 == 0 {
            of_objects(round)
        } else {
            of_sources(round)
        };
        let table = table.encode();
        let object = ObjectRef::of(&table);
        match publish(rounds, &table, object)? {
            Ok(published) => {
                record(&store, domain, round, object, tally);
                // Until here the daemon kept the table for this connection.
                published.done();
            }
            Err(reason) => tally.count(reason),
        }
        Ok(())
    })
}

/// A table of sources that no other round has.
fn of_sources(round: u64) -> Layout {
    let source = |number: u64| TensorId::of(&[round, number].map(u64::to_le_bytes).concat());
    Layout {
        sources: (0..MAX_LAYOUT_SOURCES as u64).map(source).collect(),
        ..Layout::default()
    }
}

/// A table of objects that are in no store.
fn of_objects(round: u64) -> Layout {
    let object = |number: u64| ObjectRef {
        id: ObjectId::of(&[round, number].map(u64::to_le_bytes).concat()),
        len: 4096,
        crc: number as u32,
    };
    Layout {
        objects: (0..MAX_OBJECTS as u64).map(object).collect(),
        ..Layout::default()
    }
}

/// Has a table published. Returns a word for any other outcome.
fn publish(
    rounds: &Rounds<'_>,
    table: &[u8],
    object: ObjectRef,
) -> Result<Result<HeldInStore<ObjectRef>, String>> {
    let read_at = |at: u64, to: &mut [u8]| {
        let from = table.get(at as usize..).unwrap_or_default();
        for (to, from) in to.iter_mut().zip(from) {
            *to = *from;
        }
    };
    let memory = sealed_memory(table.len() as u64, &read_at, 1)?;
    let daemon = DaemonClient::new(socket(&rounds.context.store), ANSWER);
    let published = daemon.publish_memory(memory.as_fd(), object);
    Ok(published.map_err(|error| match error {
        DaemonError::Refused(refusal) => format!("table-refused-{}", refusal.reason.0),
        error if error.is_absent() => "no-daemon".to_owned(),
        DaemonError::TooOld { .. } => "no-daemon".to_owned(),
        _ => "no-answer".to_owned(),
    }))
}

/// Records the table by many keys.
fn record(store: &Store, domain: TrustDomain, round: u64, object: ObjectRef, tally: &mut Tally) {
    for number in 0..RECORDS {
        let key = LayoutKey::new(format!("pack {round}"), number);
        let is_recorded = key.derived_key().is_ok_and(|key| {
            let key = key.in_domain(domain);
            let daemon = DaemonClient::of_store(store, ANSWER);
            let recorded = daemon.record_derived(store.header_descriptor(), &key, object);
            recorded.is_ok()
        });
        tally.count(if is_recorded {
            "recorded"
        } else {
            "not-recorded"
        });
    }
}
