//! One invocation: kernels on a stream of each device, the first to the last.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tetris_gpu_client::Acquired;
use tetris_gpu_device::host::HostDevice;
use tetris_gpu_device::host::HostQueue;
use tetris_store_layout::{Access, ObjectRef, Store};

use super::node::Node;
use crate::BenchError;
use crate::model::BenchModel;
use crate::timeout::LONG;

/// Delay up to which a kernel begins when the one before it has ended: the machine wakes threads
/// late, and the delays would add up.
const LATE: Duration = Duration::from_millis(1);
/// Bytes at each end of a tensor that its kernel reads.
const ENDS: usize = 64;

/// Parameters of an invocation.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// Time of all kernels with a resident model.
    pub warm: Duration,
    /// Order of the copies, by indexes of tensors. Kernels use the tensors in the order of the file.
    pub order: Vec<u32>,
    /// Wait for the whole model and then for code of kernels, before the first kernel, as without
    /// overlap; `None`: each kernel waits for its tensor on its stream.
    pub sequential: Option<Duration>,
    /// Number of tensors for each wait of a stream.
    pub merged: usize,
    /// Time that each wait costs the stream.
    pub wait_cost: Duration,
}

impl Invocation {
    /// An invocation with overlapped copies in the order of use.
    pub fn overlapped(warm_ms: f64) -> Self {
        Self {
            warm: Duration::from_secs_f64(warm_ms / 1e3),
            order: Vec::new(),
            sequential: None,
            merged: 1,
            wait_cost: Duration::ZERO,
        }
    }
}

/// End of the last kernel of a stream, as planned.
struct Clock(Mutex<Instant>);

impl Clock {
    /// Takes time on the stream.
    fn run(&self, time: Duration) {
        let end = {
            let mut clock = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let begin = if *clock + LATE > now { *clock } else { now };
            *clock = begin + time;
            *clock
        };
        sleep(end.saturating_duration_since(Instant::now()));
    }
}

/// Runs an invocation on all devices of a node. Returns the time from the request to the end of the
/// last kernel.
///
/// # Errors
///
/// [`BenchError::Bug`] if a kernel has read other bytes than its tensor's.
pub fn run(node: &Node<'_>, invocation: &Invocation) -> Result<Duration, BenchError> {
    let ends = Arc::new(ends(node.model(), node.store())?);
    let wrong = Arc::new(AtomicUsize::new(0));
    let begin = Instant::now();
    let mut streams = Vec::new();
    for device in 0..node.devices() {
        let acquired = Arc::new(node.acquire(device, &invocation.order)?);
        streams.push((HostQueue::new()?, acquired));
    }
    if let Some(code) = invocation.sequential {
        for (_, held) in &streams {
            held.wait_all(LONG)?;
        }
        sleep(code);
    }
    let mut arrivals = Vec::new();
    for (stream, held) in &streams {
        let waits = held.arrivals(LONG);
        let begun = Arc::new(Clock(Mutex::new(Instant::now())));
        queue(
            node.model(),
            invocation,
            (stream, held),
            &waits,
            &begun,
            &ends,
            &wrong,
        )?;
        arrivals.push(waits);
    }
    for (stream, _) in &streams {
        stream.synchronize();
    }
    let time = begin.elapsed();
    for waits in &arrivals {
        waits.check(LONG)?;
    }
    match wrong.load(Ordering::Relaxed) {
        0 => Ok(time),
        wrong => Err(BenchError::Bug(format!(
            "{wrong} kernels have read other bytes than their tensors'"
        ))),
    }
}

/// Queues the waits and kernels of a device, without waiting for any.
fn queue(
    model: &BenchModel,
    invocation: &Invocation,
    (stream, held): (&HostQueue, &Arc<Acquired<HostDevice>>),
    waits: &tetris_gpu_client::Arrivals,
    clock: &Arc<Clock>,
    ends: &Arc<Vec<Ends>>,
    wrong: &Arc<AtomicUsize>,
) -> Result<(), BenchError> {
    let total = model.bytes().max(1);
    for (number, tensor) in model.tensors.iter().enumerate() {
        // A merged piece has arrived with its last tensor.
        if number.is_multiple_of(invocation.merged) {
            let last = (number + invocation.merged).min(model.tensors.len());
            for tensor in model.tensors.get(number..last).unwrap_or_default() {
                stream.queue(held.wait_step(&tensor.object.id, waits)?);
            }
            let (clock, cost) = (Arc::clone(clock), invocation.wait_cost);
            if !cost.is_zero() {
                stream.queue(move || clock.run(cost));
            }
        }
        let object = tensor.object;
        let share = object.len as f64 / total as f64;
        let time = invocation.warm.mul_f64(share);
        let (held, clock) = (Arc::clone(held), Arc::clone(clock));
        let (ends, wrong) = (Arc::clone(ends), Arc::clone(wrong));
        stream.queue(move || {
            if ends
                .get(number)
                .is_none_or(|ends| !ends.are_in(&held, &object))
            {
                wrong.fetch_add(1, Ordering::Relaxed);
            }
            clock.run(time);
        });
    }
    Ok(())
}

/// The first and last bytes of a tensor.
struct Ends {
    first: Vec<u8>,
    last: Vec<u8>,
}

impl Ends {
    /// Returns true if the device has these bytes.
    fn are_in(&self, held: &Acquired<HostDevice>, object: &ObjectRef) -> bool {
        let same = |begin: u64, expected: &[u8]| {
            let mut bytes_read = vec![0; expected.len()];
            held.read_part(&object.id, begin, &mut bytes_read).is_ok() && bytes_read == expected
        };
        same(0, &self.first) && same(object.len - self.last.len() as u64, &self.last)
    }
}

fn ends(model: &BenchModel, store: &Store) -> Result<Vec<Ends>, BenchError> {
    let of = |object: &ObjectRef| {
        let mapping = store.map(object, Access::ReadOnly)?;
        let mapping = mapping.ok_or(BenchError::NoObject(object.id))?;
        let bytes: &[u8] = &mapping;
        let size = bytes.len().min(ENDS);
        Ok(Ends {
            first: bytes.get(..size).unwrap_or_default().to_vec(),
            last: bytes.get(bytes.len() - size..).unwrap_or_default().to_vec(),
        })
    };
    model
        .tensors
        .iter()
        .map(|tensor| of(&tensor.object))
        .collect()
}
