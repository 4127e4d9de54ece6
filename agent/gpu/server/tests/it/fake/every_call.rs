//! Each call fails once, at each of its first occurrences. The operation returns an error or
//! succeeds, no rule is broken, and only resources whose clean-up failed are left behind.

use std::sync::Arc;

use memmap2::MmapMut;
use tetris_gpu_device::cuda::{IpcDevice, VmmDevice};
use tetris_gpu_device::{DeviceMemory, HostSlice, MemoryError, Protection};

use crate::fake_driver::FakeDriver;
use crate::mirror::MIB;

/// Calls that free a resource.
pub const CLEAN_UP: [&str; 13] = [
    "cuCtxPopCurrent_v2",
    "cuCtxPushCurrent_v2",
    "cuDevicePrimaryCtxRelease_v2",
    "cuEventDestroy_v2",
    "cuIpcCloseMemHandle",
    "cuMemAddressFree",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemHostUnregister",
    "cuMemRelease",
    "cuMemUnmap",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
];

pub const OTHERS: [&str; 31] = [
    "cuCtxGetCurrent",
    "cuCtxSynchronize",
    "cuDeviceCanAccessPeer",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceGetPCIBusId",
    "cuDeviceGetUuid_v2",
    "cuDeviceGet",
    "cuDevicePrimaryCtxRetain",
    "cuEventCreate",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuIpcGetMemHandle",
    "cuMemAddressReserve",
    "cuMemAlloc_v2",
    "cuMemCreate",
    "cuMemExportToShareableHandle",
    "cuMemGetAllocationGranularity",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemHostRegister_v2",
    "cuMemImportFromShareableHandle",
    "cuMemMap",
    "cuMemSetAccess",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoH_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuStreamCreate",
    "cuThreadExchangeStreamCaptureMode",
];

/// Calls whose failure ends no operation.
const PASSED_OVER: [&str; 3] = [
    "cuCtxGetCurrent",
    "cuMemHostRegister_v2",
    "cuThreadExchangeStreamCaptureMode",
];

/// Uses every function once or twice.
fn life<D: DeviceMemory>(device: &D) -> Result<(), MemoryError> {
    device.info()?;
    let chunk = device.create(4 * MIB)?;
    let mapping = device.map(device.reserve(4 * MIB)?, &chunk, Protection::ReadWrite)?;
    let mapping = Arc::new(mapping);
    let mut pages = MmapMut::map_anon(MIB as usize).unwrap();
    pages.fill(7);
    let pages = HostSlice::whole(Arc::new(pages.make_read_only().unwrap()));
    // May fail: then the copy reads ordinary memory.
    let registration = device.register(pages.clone());
    let mut buffer = device.pinned(MIB as usize)?;
    buffer.fill(8);
    let buffer = HostSlice::whole(Arc::new(buffer));
    let mut stream = device.stream()?;
    for (offset, from) in [(0, &pages), (MIB, &buffer), (2 * MIB, &pages)] {
        device.copy_in(&mut stream, &mapping, offset, from.clone())?;
        let event = device.record(&mut stream)?;
        device.is_done(&event)?;
        device.settle(&mut stream)?;
        device.wait(&event)?;
    }
    device.synchronize(&mut stream)?;
    device.finish_here()?;
    device.finish()?;
    drop(registration);
    let mut content = vec![0; 3 * MIB as usize];
    device.read_back(&mapping, 0, &mut content)?;
    let fine = |(at, byte): (usize, &u8)| *byte == if at as u64 / MIB == 1 { 8 } else { 7 };
    assert!(
        content.iter().enumerate().all(fine),
        "no error and other bytes"
    );
    device.export(&chunk)?;
    let Ok(mapping) = Arc::try_unwrap(mapping) else {
        panic!("an idle stream keeps no mapping");
    };
    let range = device.unmap(mapping)?;
    let again = device.map(range, &chunk, Protection::ReadWrite)?;
    device.release(chunk)?;
    drop(again);
    Ok(())
}

/// Imports its own export, which descriptors allow within a process.
fn share(device: &VmmDevice) -> Result<(), MemoryError> {
    let chunk = device.create(2 * MIB)?;
    let imported = device.import(device.export(&chunk)?, 2 * MIB)?;
    let mapping = device.map(device.reserve(2 * MIB)?, &imported, Protection::ReadOnly)?;
    device.read_back(&mapping, 0, &mut [0; 100])
}

/// Copies from another device.
fn from_another(device: &VmmDevice) -> Result<(), MemoryError> {
    let source = VmmDevice::open(1)?;
    let mapped = |device: &VmmDevice| {
        let chunk = device.create(2 * MIB)?;
        let mapping = device.map(device.reserve(2 * MIB)?, &chunk, Protection::ReadWrite)?;
        Ok::<_, MemoryError>(Arc::new(mapping))
    };
    let (to, from) = (mapped(device)?, mapped(&source)?);
    source.clear(&from)?;
    let mut stream = device.stream()?;
    device.copy_across(&mut stream, &to, 0, &source, &from, 0..2 * MIB)?;
    device.synchronize(&mut stream)?;
    let mut content = vec![1; 2 * MIB as usize];
    device.read_back(&to, 0, &mut content)?;
    assert!(
        content.iter().all(|byte| *byte == 0),
        "no error and other bytes"
    );
    Ok(())
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn all_calls() {
    let virtual_memory = VmmDevice::open(0).and_then(|device| {
        life(&device)?;
        share(&device)?;
        from_another(&device)
    });
    let legacy = IpcDevice::open(0).and_then(|device| life(&device));
    for (name, outcome) in [("virtual", virtual_memory), ("legacy", legacy)] {
        println!("{name}: {outcome:?}");
    }
}

/// Maximum number of failing occurrences of a call in `all_calls`.
const TIMES: u32 = 4;

fn fails_once(call: &str) {
    for at in 1..=TIMES {
        fails(call, at, FakeDriver::new());
    }
    fails(call, 1, FakeDriver::unkind());
}

/// The occurrence `at` of the call fails.
fn fails(call: &str, at: u32, driver: FakeDriver) {
    let driver = driver
        .failing(&format!("{call}:999:{at}:1"))
        .with("READ_ONLY_REGISTER", 1)
        .with("DEVICES", 2)
        .with("PEER_ACCESS", 1)
        // The driver waits for what takes long.
        .with(
            "DELAY_US",
            if call == "cuEventSynchronize" {
                60_000
            } else {
                0
            },
        );
    let said = driver.run_one("fake::every_call::all_calls");
    assert_eq!(driver.remembers("misuse"), "", "{call} {at}: {said}");
    if !CLEAN_UP.contains(&call) {
        assert_eq!(driver.remembers("leaks"), "", "{call} {at}: {said}");
    }
    if at == 1 && !CLEAN_UP.contains(&call) {
        let said_so = said.contains("(999)") || said.contains("999");
        assert!(said_so || PASSED_OVER.contains(&call), "{call}: {said}");
    }
}

#[test]
fn a_call_that_fails_leaves_nothing_behind() {
    for call in OTHERS {
        fails_once(call);
    }
}

#[test]
fn a_clean_up_that_fails_does_no_further_harm() {
    for call in CLEAN_UP {
        fails_once(call);
    }
}

#[test]
fn nothing_fails_without_a_reason() {
    for driver in FakeDriver::each() {
        let driver = driver.with("READ_ONLY_REGISTER", 1);
        let driver = driver.with("DEVICES", 2).with("PEER_ACCESS", 1);
        let said = driver.run_one("fake::every_call::all_calls");
        assert!(
            said.contains("virtual: Ok(())") && said.contains("legacy: Ok(())"),
            "{said}"
        );
        driver.check();
    }
}
