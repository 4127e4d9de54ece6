//! Device memory wasted over a long life, with models of realistic sizes on one device. Prints the
//! figures (`TETRIS_WASTE_EVENTS=20000 cargo test -p tetris-gpu-server --test it waste::
//! -- --nocapture`) of a sequence that is the same every time.

#![expect(clippy::print_stdout, reason = "the test prints its figures")]

use tetris_gpu_server::arena::ArenaConfig;
use tetris_gpu_server::residency::{
    Admission, ClientId, Config, DeviceId, Manager, ModelSpec, Part, Refusal, TenantId,
};
use tetris_store_layout::ObjectId;

const DEVICE: DeviceId = DeviceId(0);
const TENANT: TenantId = TenantId(0);
const CAPACITY: u64 = 80 << 30;

/// Deterministic pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// A transformer: `layers` of seven matrices and a pack of norms, and an embedding. Of every ten
/// layers `shared` belong to the family's base.
fn transformer(family: u64, number: u64, width: u64, layers: u64, shared: u64) -> ModelSpec {
    let part = |layer: u64, at: u64, len: u64| {
        let owner = if layer % 10 < shared { 0 } else { number };
        let name = [family, owner, layer, at].map(u64::to_le_bytes).concat();
        Part {
            object: ObjectId::of(&name),
            len,
        }
    };
    let mut parts = vec![part(0, 9, width * 32_000 * 2)];
    for layer in 0..layers {
        let square = width * width * 2;
        let lens = [
            square,
            square / 4,
            square / 4,
            square,
            7 * square / 2,
            7 * square / 2,
            7 * square / 2,
            4 * width,
        ];
        parts.extend((0..).zip(lens).map(|(at, len)| part(layer, at, len)));
    }
    ModelSpec::try_new(&parts, &[]).unwrap()
}

fn models() -> Vec<ModelSpec> {
    let mut models = Vec::new();
    for (family, width, layers, members) in [
        (1, 4096, 32, 4),
        (2, 2048, 24, 8),
        (3, 1024, 24, 12),
        (4, 768, 12, 30),
        (5, 5120, 40, 2),
        (6, 3072, 28, 6),
    ] {
        for number in 1..=members {
            models.push(transformer(family, number, width, layers, family % 4 * 3));
        }
    }
    models
}

struct Seen {
    waste_permille: Vec<u64>,
    admitted: u64,
    in_use: u64,
    evicted: u64,
    dropped: u64,
}

impl Seen {
    fn admitted(&mut self, manager: &mut Manager, admission: &Admission) {
        self.admitted += 1;
        self.evicted += admission.freed.evicted.len() as u64;
        self.dropped += admission.freed.dropped.len() as u64;
        for copy in &admission.copies {
            manager.copied(DEVICE, TENANT, &copy.object).unwrap();
        }
    }

    fn percentile(&self, percent: usize) -> u64 {
        let mut sorted = self.waste_permille.clone();
        sorted.sort_unstable();
        sorted[(sorted.len() - 1) * percent / 100]
    }

    /// Mean waste in the second and in the last third of the events; the first third fills the
    /// device.
    fn means(&self) -> (u64, u64) {
        let third = self.waste_permille.len() / 3;
        let mean = |part: &[u64]| part.iter().sum::<u64>() / part.len() as u64;
        let late = &self.waste_permille[2 * third..];
        (mean(&self.waste_permille[third..2 * third]), mean(late))
    }
}

fn live(manager: &mut Manager, models: &[ModelSpec], events: u64) -> Seen {
    let mut numbers = Numbers(0x7e7_2150_0001);
    let mut seen = Seen {
        waste_permille: vec![],
        admitted: 0,
        in_use: 0,
        evicted: 0,
        dropped: 0,
    };
    for now in 0..events {
        let client = ClientId(numbers.below(12));
        if numbers.below(3) == 0 {
            for (_, freed) in manager.disconnect(client, now) {
                seen.dropped += freed.dropped.len() as u64;
            }
            continue;
        }
        let spec = &models[numbers.below(models.len() as u64) as usize];
        match manager.admit(TENANT, client, spec, None, now) {
            Ok(admission) => seen.admitted(manager, &admission),
            Err(Refusal::InUse { .. }) => seen.in_use += 1,
            Err(other) => panic!("{other}"),
        }
        let usage = manager.usage(DEVICE).unwrap();
        assert!(usage.created_bytes <= CAPACITY);
        let waste = usage.created_bytes - usage.live_bytes;
        seen.waste_permille
            .push(waste * 1000 / usage.live_bytes.max(1));
    }
    seen
}

/// Runs the sequence with chunks of `mib` MiB. Returns the 99th percentile of the waste, in
/// permille of the live bytes.
fn waste_with_chunks_of(mib: u64, events: u64) -> u64 {
    let models = models();
    let arena = ArenaConfig::try_new(2 << 20, mib << 20, 512, 12).unwrap();
    let mut manager = Manager::new(Config {
        arena,
        ..Config::default()
    });
    manager.set_capacity(DEVICE, CAPACITY);
    let seen = live(&mut manager, &models, events);
    let (early, late) = seen.means();
    let gib = models.iter().map(ModelSpec::bytes).sum::<u64>() >> 30;
    println!(
        "{mib} MiB chunks, {} models of {gib} GiB on 80 GiB, {events} events",
        models.len()
    );
    println!(
        "  {} admitted, {} waited, {} evictions, {} objects dropped for holes",
        seen.admitted, seen.in_use, seen.evicted, seen.dropped
    );
    let (median, high, most) = (
        seen.percentile(50),
        seen.percentile(99),
        seen.percentile(100),
    );
    println!(
        "  waste in permille of live bytes: mean {early}, then {late}; median {median}, 99th percentile {high}, most {most}"
    );
    assert!(seen.in_use > 0 && seen.evicted > 500, "the device was full");
    assert!(late <= early + 40, "waste does not grow with time");
    for client in 0..12 {
        manager.disconnect(ClientId(client), events);
    }
    manager.shrink(DEVICE, 0);
    assert_eq!(
        manager.usage(DEVICE).unwrap().created_bytes,
        0,
        "nothing is left"
    );
    high
}

#[test]
fn a_long_life_wastes_little_and_leaves_nothing() {
    let events =
        std::env::var("TETRIS_WASTE_EVENTS").map_or(3000, |events| events.parse().unwrap());
    assert!(waste_with_chunks_of(256, events) <= 300);
    assert!(waste_with_chunks_of(64, events) <= 120);
}
