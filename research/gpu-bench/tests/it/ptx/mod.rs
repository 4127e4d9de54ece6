//! The kernels in PTX: NVIDIA's assembler accepts them, and they compute the right products.
//!
//! `PTXAS` names the assembler; the default is `ptxas` in `PATH` (PyPI's `nvidia-cuda-nvcc-cu12`
//! has one).

#![allow(
    clippy::print_stdout,
    reason = "tests print the reason for a skip, and their findings"
)]

mod machine;

use std::path::PathBuf;
use std::process::Command;

use proptest::prelude::*;
use tetris_gpu_bench::compute::Element;
use tetris_gpu_bench::compute::cuda::PTX;

use self::machine::{Kernel, Piece, Warp};
use crate::compute::cases::{Case, cases};

const WIDE_BYTES: u64 = 16;
const ROWS_PER_BLOCK: u32 = 8;

fn assembler() -> Option<PathBuf> {
    if let Some(chosen) = std::env::var_os("PTXAS") {
        return Some(chosen.into());
    }
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).map(|place| place.join("ptxas"));
    places.find(|file| file.is_file())
}

#[test]
fn the_assembler_takes_the_kernels_without_spilling() {
    let Some(ptxas) = assembler() else {
        println!("SKIPPED: the_assembler_takes_the_kernels_without_spilling: no ptxas in PATH");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("matvec.ptx");
    std::fs::write(&source, PTX.trim_end_matches('\0')).unwrap();
    let mut taken = 0;
    for architecture in ["sm_70", "sm_80", "sm_90"] {
        let output = Command::new(&ptxas)
            .arg("--verbose")
            .arg(format!("--gpu-name={architecture}"))
            .arg("--output-file")
            .arg(directory.path().join(architecture))
            .arg(&source)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        // Newer assemblers drop old architectures.
        if said.contains("is not defined for option 'gpu-name'") {
            println!("SKIPPED: {architecture}: {}", said.trim());
            continue;
        }
        assert!(output.status.success(), "{said}");
        assert_eq!(said.matches("Compiling entry function").count(), 4);
        assert_eq!(said.matches("0 bytes spill stores").count(), 4, "{said}");
        println!("{architecture}:\n{said}");
        taken += 1;
    }
    assert!(taken > 0, "an assembler of none of these architectures");
}

/// Kernels that can compute this product.
fn kernels(case: &Case, start: u64) -> Vec<&'static str> {
    let row_bytes = u64::from(case.columns) * case.element.bytes();
    let wide = (start | row_bytes).is_multiple_of(WIDE_BYTES);
    match (case.element, wide) {
        (Element::F32, true) => vec!["tetris_matvec_f32", "tetris_matvec_f32x4"],
        (Element::F32, false) => vec!["tetris_matvec_f32"],
        (Element::Bf16, true) => vec!["tetris_matvec_bf16", "tetris_matvec_bf16x8"],
        (Element::Bf16, false) => vec!["tetris_matvec_bf16"],
    }
}

fn in_bytes(all: &[f32]) -> Vec<u8> {
    all.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Runs a kernel with enough blocks for all rows.
fn check(case: &Case) {
    let numbers = case.numbers();
    let skipped = u64::from(case.skipped) * case.element.bytes();
    // Addresses above 32 bits, without gaps between the pieces.
    let (w, x, y) = (
        0x7f00_0000_0000 + skipped,
        0x7f10_0000_0000,
        0x7f20_0000_0000,
    );
    for name in kernels(case, w) {
        let kernel = Kernel::parse(PTX, name);
        let piece = |start, bytes: Vec<u8>, writable| Piece {
            start,
            bytes,
            writable,
        };
        let mut memory = [
            piece(w, numbers.bytes[skipped as usize..].to_vec(), false),
            piece(x, in_bytes(&numbers.input), false),
            piece(y, in_bytes(&numbers.before), true),
        ];
        let (rows, columns) = (u64::from(case.rows), u64::from(case.columns));
        let arguments = [w, x, y, rows, columns, u64::from(case.accumulate)];
        for block in 0..case.rows.div_ceil(ROWS_PER_BLOCK) {
            for warp in 0..ROWS_PER_BLOCK {
                Warp {
                    kernel: &kernel,
                    arguments: &arguments,
                    memory: &mut memory,
                    block,
                    warp,
                }
                .run();
            }
        }
        let (found, _) = memory[2].bytes.as_chunks::<4>();
        let values: Vec<f32> = found.iter().map(|x| f32::from_le_bytes(*x)).collect();
        case.check(&numbers, &values);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every load and store is inside the matrix and the vectors, and the result is exact but for
    /// rounding.
    #[test]
    fn kernels_compute_products_and_touch_nothing_else(case in cases()) {
        check(&case);
    }
}

#[test]
fn wide_kernels_take_what_they_are_given() {
    for (element, columns) in [
        (Element::F32, 4),
        (Element::F32, 132),
        (Element::Bf16, 8),
        (Element::Bf16, 264),
    ] {
        let case = Case {
            rows: 9,
            columns,
            element,
            skipped: 0,
            accumulate: true,
            seed: 7,
        };
        assert_eq!(kernels(&case, 0).len(), 2);
        check(&case);
    }
}
