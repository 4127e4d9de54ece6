//! Connections that say nothing, or half of a message, of several users.

use std::time::Duration;

use anyhow::Result;
use nix::unistd::{Uid, setresuid};
use tetris_wire::daemon::Message;

use super::Rounds;
use crate::client::{Raw, greeting};
use crate::rights::Rights;

/// Users as which root of a container connects: any that it likes.
const USERS: std::ops::Range<u32> = 4001..4005;
/// Connections of each user.
const CONNECTIONS: usize = 300;

pub(super) fn run(rounds: &Rounds<'_>) -> Result<()> {
    let half = Message::Hello { pid: 1 }.encode();
    rounds.repeat(Duration::from_secs(2), |_, tally| {
        let mut connections = Vec::new();
        let users: Vec<_> = match rounds.context.rights {
            Rights::ContainerRoot => USERS.map(Some).collect(),
            Rights::User(_) | Rights::Kept => vec![None],
        };
        for user in users {
            // The user of a connection is the one that makes it.
            become_for_now(user)?;
            for number in 0..CONNECTIONS {
                let Ok(raw) = Raw::connect(&rounds.context.store) else {
                    tally.count("not-connected");
                    continue;
                };
                match number % 3 {
                    0 => {}
                    1 => raw.send(&greeting(), &[]),
                    _ => raw.send(half.get(..3).unwrap_or_default(), &[]),
                }
                tally.count("connected");
                connections.push(raw);
            }
            become_for_now(None)?;
        }
        Ok(connections)
    })
}

/// Takes the effective user `user`, or the real one.
fn become_for_now(user: Option<u32>) -> Result<()> {
    let user = user.map_or_else(nix::unistd::getuid, Uid::from_raw);
    let keep = Uid::from_raw(u32::MAX);
    Ok(setresuid(keep, user, keep)?)
}
