//! Inference times side by side: one instance per method, all alive, by turns.
//!
//! Turns distribute disturbances evenly over all methods; the ratio to `private` is computed within
//! a round.

use super::{Bench, unavailable};
use crate::data::InferenceSamples;
use crate::error::Result;
use crate::methods::Method;
use crate::process::handle::Worker;
use crate::system::memory;
use crate::system::store::StorePlace;
use tetris_test_support::stats::{Summary, median};

/// Methods whose memory differs during a pass. The other store methods map the same objects;
/// merging takes time and is measured in its own group.
const COMPARED: [Method; 4] = [
    Method::Private,
    Method::PageCache,
    Method::OwnFile,
    Method::Tetris,
];

struct Contestant {
    // In the order of dropping: the store goes last.
    worker: Worker,
    samples: InferenceSamples,
    _store: Option<StorePlace>,
}

/// Measures passes of the requested methods that are available. A method that fails here has failed
/// in its group too, and is left out.
pub fn compare(bench: &mut Bench<'_>) -> Result<Vec<InferenceSamples>> {
    let needed = bench.workload.file_bytes_of(0) * COMPARED.len() as u64;
    if needed > memory::available()? / 2 {
        return Ok(Vec::new());
    }
    let mut contestants = Vec::new();
    for method in COMPARED {
        if bench.settings.methods.contains(&method) && unavailable(bench.launcher, method).is_none()
        {
            contestants.push(enter(bench, method)?);
        }
    }
    for round in 0..bench.settings.passes as usize {
        for turn in 0..contestants.len() {
            let index = (round + turn) % contestants.len();
            let contestant = &mut contestants[index];
            let (pass_ns, _) = contestant.worker.pass(1)?;
            contestant.samples.pass_ns.extend(pass_ns);
        }
    }
    let samples = contestants
        .into_iter()
        .map(|contestant| contestant.samples)
        .collect();
    Ok(summarize(samples))
}

fn enter(bench: &mut Bench<'_>, method: Method) -> Result<Contestant> {
    bench.files_for(method, 1)?;
    let store = bench.store_for(method)?;
    let files = bench.copies.files(bench.workload, method, 0);
    let mut worker = bench.launcher.start(method.loader())?;
    worker.load(
        method.loader(),
        &files,
        store.as_ref().map(StorePlace::for_workers),
    )?;
    let samples = InferenceSamples {
        method,
        pass_ns: Vec::new(),
        summary: None,
        ratio_to_private: None,
    };
    Ok(Contestant {
        worker,
        samples,
        _store: store,
    })
}

fn summarize(mut samples: Vec<InferenceSamples>) -> Vec<InferenceSamples> {
    let floats = |samples: &InferenceSamples| -> Vec<f64> {
        samples.pass_ns.iter().map(|&time| time as f64).collect()
    };
    let private = samples
        .iter()
        .find(|samples| samples.method == Method::Private)
        .map(floats);
    for samples in &mut samples {
        let values = floats(samples);
        samples.summary = Summary::of(&values);
        samples.ratio_to_private = private.as_ref().and_then(|private| {
            median(
                &values
                    .iter()
                    .zip(private)
                    .map(|(values, private)| values / private)
                    .collect::<Vec<_>>(),
            )
        });
    }
    samples
}
