//! Models in families: variants share the tensors of a base and add others.

use tetris_reclaimer_core::RecordId;
use tetris_simulation::Rng;
use tetris_store_layout::{ManifestId, ObjectId};

/// Number of families in a catalog.
pub const FAMILIES: usize = 16;

/// Maximum number of variants of a family.
const MOST_VARIANTS: usize = 7;
const OBJECTS_OF_A_BASE: usize = 8;
const OBJECTS_OF_A_VARIANT: usize = 3;

/// Length of the smallest and the largest base in bytes: from a sentence encoder to a model of four
/// billion parameters.
const BASE_BYTES: (f64, f64) = (0.1 * GIB, 8.0 * GIB);
/// Private share of a variant, relative to the base: an adapter, a retrained head, half of the
/// layers.
const OWN_SHARES: [f64; 4] = [0.01, 0.1, 0.25, 0.5];
const GIB: f64 = (1_u64 << 30) as f64;
const PAGE_BYTES: u64 = 4096;

/// All models of a trace.
#[derive(Debug, Clone)]
pub struct Catalog {
    /// All objects: identifier, and length in bytes, a multiple of a page.
    pub objects: Vec<(ObjectId, u64)>,
    /// The models.
    pub models: Vec<CatalogModel>,
}

/// A model of a catalog.
#[derive(Debug, Clone)]
pub struct CatalogModel {
    /// Its identifier.
    pub id: RecordId,
    /// Indices of its objects.
    pub objects: Vec<usize>,
    /// Length of its objects, in bytes.
    pub total_bytes: u64,
}

impl Catalog {
    /// Generates the catalog of a seed, with the models in random order.
    pub fn generate(seed: u64) -> Self {
        let mut rng = Rng::new(seed, 1);
        let mut catalog = Self {
            objects: Vec::new(),
            models: Vec::new(),
        };
        for _ in 0..FAMILIES {
            let bytes = rng.log_uniform(BASE_BYTES.0, BASE_BYTES.1);
            let base = catalog.add_objects(OBJECTS_OF_A_BASE, bytes);
            for _ in 0..=rng.index(MOST_VARIANTS) {
                let share = OWN_SHARES.get(rng.index(OWN_SHARES.len()));
                let own_bytes = bytes * share.copied().unwrap_or(1.0);
                let own_objects = catalog.add_objects(OBJECTS_OF_A_VARIANT, own_bytes);
                catalog.add_model(base.clone().chain(own_objects).collect());
            }
        }
        for at in (1..catalog.models.len()).rev() {
            catalog.models.swap(at, rng.index(at + 1));
        }
        catalog
    }

    /// Length of all objects, each counted once, in bytes.
    pub fn distinct_bytes(&self) -> u64 {
        self.objects.iter().map(|(_, bytes)| bytes).sum()
    }

    fn add_objects(&mut self, count: usize, bytes: f64) -> std::ops::Range<usize> {
        let first = self.objects.len();
        let pages = (bytes / count as f64 / PAGE_BYTES as f64).ceil() as u64;
        for number in first..first + count {
            let id = ObjectId::of(&(number as u64).to_le_bytes());
            self.objects.push((id, pages.max(1) * PAGE_BYTES));
        }
        first..first + count
    }

    fn add_model(&mut self, objects: Vec<usize>) {
        let number = self.models.len() as u64;
        let bytes = objects
            .iter()
            .filter_map(|&object| self.objects.get(object));
        self.models.push(CatalogModel {
            id: RecordId::Manifest(ManifestId::of(&number.to_le_bytes())),
            total_bytes: bytes.map(|(_, bytes)| bytes).sum(),
            objects,
        });
    }
}
