//! Bytes that are no protocol, beginnings of what is, and messages with bytes changed.

use std::io::Read as _;
use std::time::Duration;

use anyhow::Result;
use tetris_agent::ManifestKind;
use tetris_wire::daemon::{Message, PROTOCOL};

use super::Rounds;
use crate::client::{Raw, greeting};
use crate::model;

const MESSAGES: u64 = 200;

pub(super) fn run(rounds: &Rounds<'_>) -> Result<()> {
    rounds.repeat(Duration::from_millis(500), |round, tally| {
        for number in 0..MESSAGES {
            let Ok(mut raw) = Raw::connect(&rounds.context.store) else {
                tally.count("not-connected");
                continue;
            };
            raw.send(&malformed(round * MESSAGES + number), &[]);
            // An unfinished message is left so for a moment, and the client goes.
            raw.0.set_read_timeout(Some(Duration::from_millis(1)))?;
            let _answer = raw.0.read(&mut [0; 64]);
            tally.count("sent");
        }
        Ok(())
    })
}

fn malformed(number: u64) -> Vec<u8> {
    let noise = model::bytes(number, 4096);
    let ingest = Message::Ingest {
        kind: ManifestKind::File,
    };
    let (bytes, inodes) = (u64::MAX, u32::MAX);
    let room = Message::MakeRoom { bytes, inodes }.encode();
    let messages = [greeting(), room, ingest.encode()].concat();
    let noise_at = |at: usize| noise.get(at).copied().unwrap_or_default();
    match number % 6 {
        0 => noise,
        1 => PROTOCOL.preamble().iter().take(7).copied().collect(),
        2 => [greeting().as_slice(), &u32::MAX.to_le_bytes(), &[3]].concat(),
        3 => [greeting(), noise].concat(),
        4 => {
            let cut = usize::from(noise_at(0)) % messages.len();
            messages.into_iter().take(cut).collect()
        }
        _ => {
            // Bytes after the preamble are changed, one in eight.
            let changed = messages.iter().enumerate().map(|(at, byte)| {
                let change = at >= 12 && noise_at(at).is_multiple_of(8);
                if change { noise_at(at + 1000) } else { *byte }
            });
            changed.collect()
        }
    }
}
