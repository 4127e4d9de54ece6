//! The experiments.

use std::path::Path;
use std::time::Duration;

use super::invocation::{Invocation, run};
use super::node::{Models, Node};
use super::report::{Row, TidalReport};
use super::{SCALE, paper};
use crate::BenchError;
use crate::stats::median;

/// Bytes or bytes per second at the scale of the runs.
fn scaled(full: f64) -> u64 {
    (full / SCALE as f64) as u64
}

/// No limit of a prefix.
const ALL: u64 = u64::MAX;

/// A node with a kept prefix, and the median time of invocations on it.
struct Bench<'a> {
    node: Node<'a>,
    rounds: usize,
}

impl<'a> Bench<'a> {
    fn new(
        models: &'a Models,
        devices: usize,
        bytes_per_sec: f64,
        rounds: usize,
    ) -> Result<Self, BenchError> {
        let node = Node::new(models, devices, scaled(bytes_per_sec))?;
        Ok(Self { node, rounds })
    }

    /// Keeps a prefix of about this length in bytes, regardless of the time to the first token.
    fn keep(&self, bytes: u64) -> Result<(), BenchError> {
        // Without a prefix the template ends.
        self.node.keep(Duration::from_micros(1), bytes).map(|_| ())
    }

    /// Median time to the first token in milliseconds. Before each invocation, other bytes take the
    /// room beside the prefix, unless the model is warm.
    fn ttft_ms(&self, invocation: &Invocation, warm: bool) -> Result<f64, BenchError> {
        let mut samples = Vec::new();
        for _ in 0..self.rounds {
            if !warm {
                self.node.push_out()?;
            }
            samples.push(run(&self.node, invocation)?.as_secs_f64() * 1e3);
        }
        Ok(median(&samples).unwrap_or(0.0))
    }
}

/// Runs all experiments.
pub fn all(directory: &Path, rounds: usize) -> Result<TidalReport, BenchError> {
    let mut report = TidalReport::default();
    let small = Models::new(directory, scaled(paper::LLAMA3_8B_BYTES))?;
    figure_17(&small, rounds, &mut report)?;
    equation_1(&small, rounds, &mut report)?;
    drop(small);
    let middle = Models::new(directory, scaled(paper::LLAMA2_13B_BYTES))?;
    figure_20(&middle, rounds, &mut report)?;
    drop(middle);
    for model in &paper::DISTRIBUTED {
        figure_18(directory, model, rounds, &mut report)?;
    }
    table_3(directory, rounds, &mut report)?;
    Ok(report)
}

fn figure_17(models: &Models, rounds: usize, report: &mut TidalReport) -> Result<(), BenchError> {
    let bench = Bench::new(models, 1, paper::A6000_BYTES_PER_SEC, rounds)?;
    let short = Invocation::overlapped(paper::TTFT_8B_2K_MS);
    let long = Invocation::overlapped(paper::TTFT_8B_4K_MS);
    let cold = bench.ttft_ms(&short, false)?;
    let longer = bench.ttft_ms(&long, false)?;
    let sequential = Invocation {
        sequential: Some(Duration::from_secs_f64(paper::COLD_KERNELS_MS / 1e3)),
        ..short.clone()
    };
    let pinned = bench.ttft_ms(&sequential, false)?;
    bench.keep(scaled(4e9))?;
    let prefix = bench.ttft_ms(&short, false)?;
    let figure = "figure 17, Llama3-8B";
    report.add(Row::near(
        figure,
        "2k tokens, no prefix, ms",
        632.0,
        cold,
        0.1,
    ));
    report.add(Row::near(
        figure,
        "2k tokens, prefix of 4 GB, ms",
        571.0,
        prefix,
        0.1,
    ));
    report.add(Row::near(
        figure,
        "4k tokens, no prefix, ms",
        927.0,
        longer,
        0.1,
    ));
    report.add(Row::at_least(
        "figure 13",
        "pinned PyTorch over no prefix (mean of all models in the paper)",
        1.96,
        pinned / cold,
        1.9,
    ));
    Ok(())
}

/// Compares the prefix of equation (1) with the shortest one that hides the copy.
fn equation_1(models: &Models, rounds: usize, report: &mut TidalReport) -> Result<(), BenchError> {
    let total = models.model.bytes();
    for (name, bandwidth, warm_ms) in [
        ("24.8 GB/s, 400 ms", paper::A6000_BYTES_PER_SEC, 400.0),
        ("24.8 GB/s, 200 ms", paper::A6000_BYTES_PER_SEC, 200.0),
        ("12.8 GB/s, 571 ms", paper::A100_BYTES_PER_SEC, 571.0),
    ] {
        let bench = Bench::new(models, 1, bandwidth, rounds)?;
        let invocation = Invocation::overlapped(warm_ms);
        let ttft = Duration::from_secs_f64(warm_ms / 1e3);
        let predicted = bench.node.keep(ttft, ALL)?.prefix_bytes;
        let with_predicted = bench.ttft_ms(&invocation, false)?;
        // The shortest prefix with a time within 2 % of a warm one, by halving.
        let (mut short, mut enough) = (0, total);
        while enough - short > total / 50 {
            let middle = u64::midpoint(short, enough);
            bench.keep(middle)?;
            if bench.ttft_ms(&invocation, false)? <= warm_ms * 1.02 {
                enough = middle;
            } else {
                short = middle;
            }
        }
        let share = |bytes: u64| bytes as f64 / total as f64;
        let figure = "equation (1)";
        report.add(Row::near(
            figure,
            &format!("{name}: prefix as a share of the model; shortest that suffices beside the prediction"),
            share(enough),
            share(predicted),
            0.1,
        ));
        report.add(Row::near(
            figure,
            &format!("{name}: time with the predicted prefix beside the warm time, ms"),
            warm_ms,
            with_predicted,
            0.1,
        ));
    }
    Ok(())
}

fn figure_18(
    directory: &Path,
    model: &paper::Distributed,
    rounds: usize,
    report: &mut TidalReport,
) -> Result<(), BenchError> {
    let bytes_per_device = model.bytes / model.devices as f64;
    let models = Models::new(directory, scaled(bytes_per_device))?;
    let bench = Bench::new(&models, model.devices, paper::A100_BYTES_PER_SEC, rounds)?;
    let invocation = Invocation::overlapped(model.ttft_ms);
    let sequential = Invocation {
        sequential: Some(Duration::from_secs_f64(paper::COLD_KERNELS_MS / 1e3)),
        ..invocation.clone()
    };
    let pinned = bench.ttft_ms(&sequential, false)?;
    let figure = format!("figure 18, {}", model.name);
    let mut add = |what: &str, (low, high), time: f64| {
        report.add(Row::between(&figure, what, low, high, pinned / time));
    };
    add(
        "pinned PyTorch over no prefix",
        (1.76, 2.01),
        bench.ttft_ms(&invocation, false)?,
    );
    bench.keep(scaled(4e9))?;
    add(
        "over 4 GB on each device",
        (2.33, 2.66),
        bench.ttft_ms(&invocation, false)?,
    );
    bench.keep(scaled(8e9))?;
    add(
        "over 8 GB on each device",
        (3.15, 4.24),
        bench.ttft_ms(&invocation, false)?,
    );
    bench.keep(ALL)?;
    add(
        "over the whole model",
        (3.19, 5.16),
        bench.ttft_ms(&invocation, true)?,
    );
    Ok(())
}

fn figure_20(models: &Models, rounds: usize, report: &mut TidalReport) -> Result<(), BenchError> {
    let bench = Bench::new(models, 1, paper::A6000_BYTES_PER_SEC, rounds)?;
    let traced = Invocation::overlapped(paper::TTFT_13B_2K_MS);
    let count = models.model.tensors.len() as u32;
    let reverse = Invocation {
        order: (0..count).rev().collect(),
        ..traced.clone()
    };
    // The first layer's weight is that of the last one, which is initialized at the end.
    let default = Invocation {
        order: (1..count).chain([0]).collect(),
        ..traced.clone()
    };
    let traced_ttft = bench.ttft_ms(&traced, false)?;
    let figure = "figure 20a, loading order";
    let reverse = bench.ttft_ms(&reverse, false)? / traced_ttft;
    let default = bench.ttft_ms(&default, false)? / traced_ttft;
    report.add(Row::at_least(
        figure,
        "reverse over traced",
        1.55,
        reverse,
        1.5,
    ));
    report.add(Row::at_least(
        figure,
        "order of initialization over traced",
        1.54,
        default,
        1.5,
    ));
    Ok(())
}

/// Table 3. The paper reveals nothing of the mechanism; a cost of each wait of the stream gives its
/// shape: hidden while the copy is longer, and constant where the inference is.
fn table_3(directory: &Path, rounds: usize, report: &mut TidalReport) -> Result<(), BenchError> {
    let models = Models::new(directory, scaled(140e9 / 8.0))?;
    let bench = Bench::new(&models, 1, paper::A100_BYTES_PER_SEC, rounds)?;
    let tensors = models.model.tensors.len() as f64;
    // The difference at 16,384 tokens, over the waits that a merge saves there and here.
    let saved = tensors * (1.0 - paper::MERGED / paper::TENSORS);
    let cost = Duration::from_secs_f64((4084.0 - 3406.0) / 1e3 / saved);
    let merged = (paper::TENSORS / paper::MERGED) as usize;
    for (tokens, without, with) in paper::TABLE_3 {
        // Warm times: at 16,384 tokens as measured there, and in proportion below.
        let kernels = 3406.0 - cost.as_secs_f64() * 1e3 * tensors / merged as f64;
        let invocation = Invocation {
            wait_cost: cost,
            ..Invocation::overlapped(kernels * f64::from(tokens) / 16384.0)
        };
        let ttft = bench.ttft_ms(&invocation, false)?;
        let together = Invocation {
            merged,
            ..invocation
        };
        let together = bench.ttft_ms(&together, false)?;
        let figure = format!("table 3, {tokens} tokens");
        report.add(Row::near(&figure, "no merge, ms", without, ttft, 0.1));
        report.add(Row::near(&figure, "merged, ms", with, together, 0.1));
    }
    Ok(())
}
