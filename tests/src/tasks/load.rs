//! Loading one model under some circumstances.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tetris_agent::store_location::StoreLocation;
use tetris_agent::{Agent, LoadOptions, LoadReport};

use super::{answer, limit};
use crate::model::fingerprint;
use crate::process::{ready_and_wait, wait_for_parent};
use crate::task::{LoadTask, Loaded};

pub(super) fn run(task: &LoadTask) -> anyhow::Result<()> {
    let signals = Arc::new(AtomicUsize::new(0));
    if task.signals {
        let counter = Arc::clone(&signals);
        signal_hook::flag::register_usize(SIGUSR1, counter, 1)?;
    }
    let agent = match &task.store {
        Some(store) => Agent::at(&StoreLocation::named(store)),
        None => Agent::without_store(),
    };
    let options = LoadOptions::default().with_threads(task.threads.and_then(NonZeroUsize::new));
    ready_and_wait()?;
    let limits = limit::set(&task.limits)?;
    let mut holder = Holder::default();
    let loaded = if task.whole {
        load_file(&agent, task, &options, &mut holder)
    } else {
        load(&agent, task, &options, &mut holder)
    };
    drop(limits);
    let mut loaded = loaded?;
    loaded.signals = signals.load(Ordering::Relaxed) as u64;
    answer(&loaded)?;
    wait_for_parent()
}

const SIGUSR1: i32 = nix::sys::signal::Signal::SIGUSR1 as i32;

/// Keeps what was loaded until the parent has seen the answer.
#[derive(Default)]
#[expect(dead_code, reason = "held for the references")]
enum Holder {
    #[default]
    Nothing,
    Model(tetris_agent::Model),
    File(tetris_agent::SharedFile),
}

fn load(
    agent: &Agent,
    task: &LoadTask,
    options: &LoadOptions,
    holder: &mut Holder,
) -> anyhow::Result<Loaded> {
    match agent.load_with(&task.model, options) {
        Err(error) => Ok(failed(&error)),
        Ok(model) => {
            let loaded = Loaded {
                fingerprint: fingerprint(&model)?,
                tensors: model.tensors().len() as u64,
                ..reported(model.report())
            };
            *holder = Holder::Model(model);
            Ok(loaded)
        }
    }
}

fn load_file(
    agent: &Agent,
    task: &LoadTask,
    options: &LoadOptions,
    holder: &mut Holder,
) -> anyhow::Result<Loaded> {
    match agent.share_file(&task.model, options) {
        Err(error) => Ok(failed(&error)),
        Ok(file) => {
            let content = std::fs::read(file.path())?;
            let loaded = Loaded {
                fingerprint: blake3::hash(&content).to_string(),
                is_shared: file.is_shared(),
                ..reported(file.report())
            };
            *holder = Holder::File(file);
            Ok(loaded)
        }
    }
}

fn failed(error: &tetris_agent::LoadError) -> Loaded {
    Loaded {
        error: Some(error.to_string()),
        ..Loaded::default()
    }
}

fn reported(report: &LoadReport) -> Loaded {
    let names = report.recognized.iter().map(|way| way.name().to_owned());
    Loaded {
        recognized: names.collect(),
        bytes_shared: report.bytes_shared,
        bytes_new: report.bytes_new,
        bytes_private: report.bytes_private,
        bytes_read: report.bytes_read,
        private_reason: report.private_reason.clone(),
        ..Loaded::default()
    }
}
