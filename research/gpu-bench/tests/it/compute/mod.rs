//! Products of matrices and vectors on the simulated device. On a machine with a GPU:
//!
//!     cargo test -p tetris-gpu-bench --test it -- --ignored cuda_
//!
//! `TETRIS_CUDA_DEVICE` chooses the device (default 0).

pub mod cases;

use std::process::Command;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tetris_gpu_bench::compute::{
    Compute, ComputeError, Element, MAX_SIDE, Matrix, Product, Vector, Workspace,
};
use tetris_gpu_device::cuda::{IpcDevice, VmmDevice};
use tetris_gpu_device::host::HostDevice;
use tetris_gpu_device::{DeviceMemory, HostSlice, MemoryError, Protection};

use self::cases::{Case, cases};
use crate::fake;
use crate::site::run;

const MIB: u64 = 1 << 20;

fn host() -> Arc<HostDevice> {
    Arc::new(HostDevice::new(16 * MIB))
}

/// Computes the product and compares it.
fn check<D: Compute>(device: &Arc<D>, kernels: &D::Kernels, case: &Case) {
    let numbers = case.numbers();
    let mut space = Workspace::new(Arc::clone(device), 2 * MIB).unwrap();
    let put = space.put(Arc::new(numbers.bytes.clone())).unwrap();
    let offset = put + u64::from(case.skipped) * case.element.bytes();
    let input = space.vector_of(&numbers.input).unwrap();
    let output = space.vector_of(&numbers.before).unwrap();
    let matrix = space.matrix(offset, case.rows, case.columns, case.element);
    let mut product = Product::try_new(matrix.unwrap(), &input, &output).unwrap();
    if case.accumulate {
        product = product.added();
    }
    let mut stream = device.stream().unwrap();
    let fine = |_| Ok::<_, ComputeError>(());
    device
        .multiply(kernels, &mut stream, &[product], &mut { fine })
        .unwrap();
    case.check(&numbers, &space.read(&output).unwrap());
    assert_eq!(space.read(&input).unwrap(), numbers.input, "only read");
}

fn check_many<D: Compute>(device: D) {
    let device = Arc::new(device);
    let kernels = device.kernels().unwrap();
    let mut runner = TestRunner::new(ProptestConfig::with_cases(200));
    runner
        .run(&cases(), |case| {
            check(&device, &kernels, &case);
            Ok(())
        })
        .unwrap();
}

#[test]
fn products_are_those_of_exact_arithmetic_but_for_rounding() {
    check_many(HostDevice::new(16 * MIB));
}

/// Computes `y = W x + B (A x)`, waits for each product in turn, on a stream with a pending copy.
fn products_follow_each_other<D: Compute>(device: D) {
    let device = Arc::new(device);
    let kernels = device.kernels().unwrap();
    let mut space = Workspace::new(Arc::clone(&device), MIB).unwrap();
    let f32s = |all: &[f32]| {
        all.iter()
            .flat_map(|x| x.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let base = space.put(Arc::new(f32s(&[1.0, 2.0, 3.0, 4.0]))).unwrap();
    let down = space.put(Arc::new(f32s(&[0.5, 0.25]))).unwrap();
    let up = space.put(Arc::new(f32s(&[100.0, 10.0]))).unwrap();
    let input = space.vector_of(&[2.0, 4.0]).unwrap();
    let inner = space.vector(1).unwrap();
    let output = space.vector(2).unwrap();
    let matrix = |at, rows, columns| space.matrix(at, rows, columns, Element::F32).unwrap();
    let products = [
        Product::try_new(matrix(base, 2, 2), &input, &output).unwrap(),
        Product::try_new(matrix(down, 1, 2), &input, &inner).unwrap(),
        Product::try_new(matrix(up, 2, 1), &inner, &output)
            .unwrap()
            .added(),
    ];
    let mut stream = device.stream().unwrap();
    let mut asked = Vec::new();
    let mut ready = |index| {
        asked.push(index);
        Ok::<_, ComputeError>(())
    };
    device
        .multiply(&kernels, &mut stream, &products, &mut ready)
        .unwrap();
    assert_eq!(asked, [0, 1, 2]);
    // 2 + 8 + 200, 6 + 16 + 20: exact in f32
    assert_eq!(space.read(&output).unwrap(), [210.0, 42.0]);
}

#[test]
fn adapters_are_added_to_what_the_base_gives() {
    products_follow_each_other(HostDevice::new(16 * MIB));
}

#[test]
fn what_was_queued_before_is_there() {
    let device = host();
    let chunk = device.create(2 * MIB).unwrap();
    let range = device.reserve(2 * MIB).unwrap();
    let mapping = device.map(range, &chunk, Protection::ReadWrite).unwrap();
    let mapping = Arc::new(mapping);
    let mut space = Workspace::new(Arc::clone(&device), 1).unwrap();
    let (x, y) = (space.vector_of(&[2.0]).unwrap(), space.vector(1).unwrap());
    let matrix = Matrix::try_new(&*mapping, 0, 1, 1, Element::F32).unwrap();
    let product = Product::try_new(matrix, &x, &y).unwrap();
    let mut stream = device.stream().unwrap();
    let three = HostSlice::whole(Arc::new(3f32.to_le_bytes().to_vec()));
    device.copy_in(&mut stream, &mapping, 0, three).unwrap();
    let fine = |_| Ok::<_, ComputeError>(());
    device
        .multiply(&device.kernels().unwrap(), &mut stream, &[product], &mut {
            fine
        })
        .unwrap();
    assert_eq!(space.read(&y).unwrap(), [6.0]);
}

#[test]
fn who_is_not_ready_ends_the_call() {
    let device = host();
    let mut space = Workspace::new(Arc::clone(&device), 1).unwrap();
    let w = space.put(Arc::new(1f32.to_le_bytes().to_vec())).unwrap();
    let x = space.vector_of(&[5.0]).unwrap();
    let (y, z) = (
        space.vector_of(&[0.0]).unwrap(),
        space.vector_of(&[0.0]).unwrap(),
    );
    let product = |to| {
        let matrix = space.matrix(w, 1, 1, Element::F32).unwrap();
        Product::try_new(matrix, &x, to).unwrap()
    };
    let mut stream = device.stream().unwrap();
    let refuse = |index| {
        if index == 0 {
            return Ok(());
        }
        Err(ComputeError::Memory(MemoryError::ReadOnly))
    };
    let kernels = device.kernels().unwrap();
    let ended = device.multiply(&kernels, &mut stream, &[product(&y), product(&z)], &mut {
        refuse
    });
    assert!(matches!(
        ended,
        Err(ComputeError::Memory(MemoryError::ReadOnly))
    ));
    assert_eq!(space.read(&y).unwrap(), [5.0]);
    assert_eq!(space.read(&z).unwrap(), [0.0]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let device = host();
    let mut space = Workspace::new(Arc::clone(&device), 1).unwrap();
    assert_eq!(space.bytes(), 2 * MIB);
    let at = space.put(Arc::new(vec![0; 64])).unwrap();
    let (four, two) = (space.vector(4).unwrap(), space.vector(2).unwrap());
    let matrix = |at, rows, columns| space.matrix(at, rows, columns, Element::F32);
    for (rows, columns) in [(0, 1), (1, 0), (MAX_SIDE + 1, 1)] {
        let error = matrix(at, rows, columns).unwrap_err();
        assert!(matches!(error, ComputeError::Side { .. }), "{error}");
    }
    for (at, rows, columns) in [
        (0, MAX_SIDE, MAX_SIDE),
        (2 * MIB - 4, 1, 2),
        (u64::MAX, 1, 1),
    ] {
        let error = matrix(at, rows, columns).unwrap_err();
        let outside = matches!(error, ComputeError::Memory(MemoryError::Bounds { .. }));
        assert!(outside, "{error}");
    }
    let error = matrix(at + 2, 1, 1).unwrap_err();
    assert!(matches!(error, ComputeError::Alignment { .. }), "{error}");
    let wrong = Product::try_new(matrix(at, 4, 2).unwrap(), &four, &two).unwrap_err();
    assert!(matches!(
        wrong,
        ComputeError::Shape {
            what: "input",
            expected: 2,
            ..
        }
    ));
    let wrong = Product::try_new(matrix(at, 4, 2).unwrap(), &two, &two).unwrap_err();
    assert!(matches!(wrong, ComputeError::Shape { what: "output", .. }));
    let over = four.first(2).unwrap();
    let wrong = Product::try_new(matrix(at, 2, 4).unwrap(), &four, &over).unwrap_err();
    assert!(matches!(wrong, ComputeError::Overlap));
    assert!(two.first(3).is_err());
    // The rest of the granule, and one element more.
    assert!(space.vector((MIB / 2) as u32).is_err());
}

#[test]
fn outputs_are_in_memory_that_can_be_written() {
    let device = host();
    let chunk = device.create(2 * MIB).unwrap();
    let range = device.reserve(2 * MIB).unwrap();
    let mapping = device.map(range, &chunk, Protection::ReadOnly).unwrap();
    let error = Vector::try_new(Arc::new(mapping), 0, 1).unwrap_err();
    assert!(matches!(error, ComputeError::Memory(MemoryError::ReadOnly)));
}

fn number() -> u32 {
    let chosen = std::env::var("TETRIS_CUDA_DEVICE").ok();
    chosen.map_or(0, |number| number.parse().unwrap())
}

#[test]
#[ignore = "needs a GPU"]
fn cuda_products_with_descriptors_are_those_of_exact_arithmetic_but_for_rounding() {
    check_many(VmmDevice::open(number()).unwrap());
    products_follow_each_other(VmmDevice::open(number()).unwrap());
}

#[test]
#[ignore = "needs a GPU"]
fn cuda_products_with_legacy_memory_are_those_of_exact_arithmetic_but_for_rounding() {
    check_many(IpcDevice::open(number()).unwrap());
    products_follow_each_other(IpcDevice::open(number()).unwrap());
}

/// Runs the two tests above with the fake driver. Its kernels are written in C, so the test covers
/// the calls of the driver but not the PTX.
#[test]
fn the_tests_for_gpus_pass_with_the_fake_driver() {
    for (unkind, delay_us) in [("0", "0"), ("0", "-1"), ("1", "0")] {
        let (driver, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fake::build(driver.path());
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["compute::cuda_", "--ignored", "--test-threads=1"])
            .env("LD_LIBRARY_PATH", driver.path())
            .env("TETRIS_CUDA_DEVICE", "0")
            .env("FAKE_CUDA_STATE", state.path())
            .env("FAKE_CUDA_UNKIND", unkind)
            .env("FAKE_CUDA_DELAY_US", delay_us);
        let told = run(&mut command).expect(0).stdout;
        assert!(!told.contains("running 0 tests"), "{told}");
        for record in ["misuse", "leaks"] {
            let path = state.path().join(record);
            let record_text = std::fs::read_to_string(path).unwrap_or_default();
            assert_eq!(record_text, "", "{record}");
        }
    }
}
