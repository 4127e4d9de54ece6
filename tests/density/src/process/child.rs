//! The worker's side: answers requests until the input ends.

use std::fs;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::time::Instant;

use super::protocol::{LoadTimes, Reply, Request};
use crate::compute::{self, Pass};
use crate::error::{Error, Result};
use crate::methods::{self, Loaded, Loader};

/// Answers requests from `input` on `output` until the input ends.
pub fn serve(input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut model: Option<Box<dyn Loaded>> = None;
    send(&mut output, &Reply::Ready)?;
    for line in input.lines() {
        let reply = match serde_json::from_str(&line?) {
            Ok(request) => answer(request, &mut model).unwrap_or_else(|error| Reply::Failed {
                reason: error.chain(),
            }),
            Err(error) => Reply::Failed {
                reason: format!("not a request: {error}"),
            },
        };
        send(&mut output, &reply)?;
    }
    Ok(())
}

fn send(output: &mut impl Write, reply: &Reply) -> io::Result<()> {
    let mut line = serde_json::to_string(reply)?;
    line.push('\n');
    output.write_all(line.as_bytes())?;
    output.flush()
}

fn answer(request: Request, model: &mut Option<Box<dyn Loaded>>) -> Result<Reply> {
    match request {
        Request::Join { procs } => {
            fs::write(&procs, process::id().to_string())
                .map_err(Error::io("join the cgroup of", &procs))?;
            Ok(Reply::Done)
        }
        Request::Load {
            loader,
            files,
            store,
        } => {
            *model = None;
            let (loaded, times) = load(loader, &files, store.as_deref())?;
            *model = Some(loaded);
            Ok(Reply::Loaded(times))
        }
        Request::Pass { count } => {
            let Some(model) = model else {
                return Err(Error::Usage(
                    "a pass was requested before a model was loaded".into(),
                ));
            };
            let mut pass_ns = Vec::with_capacity(count as usize);
            let mut checksum = 0;
            for _ in 0..count {
                let begin = Instant::now();
                checksum = pass(model.as_ref());
                pass_ns.push(nanoseconds(begin));
            }
            Ok(Reply::Passed {
                pass_ns,
                checksum: format!("{checksum:016x}"),
            })
        }
    }
}

fn load(
    loader: Loader,
    files: &[PathBuf],
    store: Option<&Path>,
) -> Result<(Box<dyn Loaded>, LoadTimes)> {
    let begin = Instant::now();
    let model = methods::load(loader, files, store)?;
    let attach_ns = nanoseconds(begin);

    let touch_begin = Instant::now();
    let (mut tensors, mut tensor_bytes) = (0, 0);
    model.for_each(&mut |tensor| {
        tensors += 1;
        tensor_bytes += tensor.bytes.len() as u64;
        compute::touch(tensor.bytes);
    });
    let touch_ns = nanoseconds(touch_begin);

    let checksum = pass(model.as_ref());
    let times = LoadTimes {
        attach_ns,
        touch_ns,
        first_result_ns: nanoseconds(begin),
        checksum: format!("{checksum:016x}"),
        tensors,
        tensor_bytes,
        store: model.store_use(),
    };
    Ok((model, times))
}

fn pass(model: &dyn Loaded) -> u64 {
    let mut pass = Pass::default();
    model.for_each(&mut |tensor| pass.add(tensor));
    pass.checksum()
}

fn nanoseconds(begin: Instant) -> u64 {
    u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
