//! Leases on all files of the attacker's store, so that a plain open of one waits for 45 s.
//!
//! A lease needs the user id of the file's owner. Root of a container can take it where the volume is a plain mount, and
//! no one has it where the volume is idmapped.

use std::time::Duration;

use anyhow::Result;

use super::Rounds;
use super::python::Python;

/// Walks the store, and takes every lease that it does not have. Prints the number of leases, of files that it could
/// not open, and of refused leases after each walk.
const PROGRAM: &str = include_str!("leases.py");

pub(super) fn run(rounds: &Rounds<'_>) -> Result<()> {
    let mut program = Python::start(PROGRAM, [&rounds.context.store])?;
    rounds.repeat(Duration::from_millis(200), |_, tally| {
        let line = program.line()?;
        for (name, number) in ["held", "not-opened", "refused"]
            .iter()
            .zip(line.split(' '))
        {
            tally.add(*name, number.parse()?);
        }
        Ok(())
    })
}
