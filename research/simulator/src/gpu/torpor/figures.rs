//! Settings of the paper's figures, and of experiments beside them.

use super::TorporGrid;
use super::arrivals::Arrivals;
use super::kinds::{BERT, DENSENET_201, KINDS, RESNET_152};
use super::node::{Links, NodeSetting};
use super::rates::Rates;
use super::variant::Variant;

/// Policies in a setting.
pub(super) struct Experiment {
    pub figure: &'static str,
    /// Difference from the setting of the figure.
    pub case: String,
    pub setting: NodeSetting,
    pub variants: Vec<Variant>,
}

/// Functions of figure 8 and their requests per minute, as in the authors' scripts.
pub const ONE_GPU: [(u32, u64); 5] = [(33, 80), (40, 60), (60, 40), (120, 20), (210, 10)];
/// Policies that fit every experiment.
const POLICIES: [Variant; 4] = [
    Variant::SimpleSwap,
    Variant::Lalbo3,
    Variant::Torpor,
    Variant::Sharing,
];
/// Policies beside which Poisson processes are shown.
const LATE: [Variant; 4] = [
    Variant::Fifo,
    Variant::TorporHalving,
    Variant::Torpor,
    Variant::Sharing,
];
/// Length of experiments without a script of the authors, in seconds.
const OURS_S: u64 = 300;

impl TorporGrid {
    /// The paper's node with functions of all models.
    pub fn node(&self, functions: u32) -> NodeSetting {
        NodeSetting {
            functions,
            kinds: (0..KINDS.len()).collect(),
            rates: Rates::Samples,
            arrivals: self.arrivals,
            gpus: 4,
            memory_mb: self.memory_mb,
            links: Links::Pairs,
            shared_permille: 0,
            native_per_gpu: None,
            lifespan_percent: 99,
            slo_us: [80_000, 200_000],
            seconds: self.seconds.unwrap_or(OURS_S),
            seed: self.seed,
        }
    }

    /// Figure 8: ResNet-152 on one GPU, and 19 native containers, for five minutes.
    pub fn one_gpu(&self, functions: u32, per_minute: u64) -> NodeSetting {
        NodeSetting {
            gpus: 1,
            rates: Rates::Fixed(per_minute),
            native_per_gpu: Some(19),
            ..self.resnets(functions, 300)
        }
    }

    /// Figure 9: 40 functions with ResNet-152 and many requests, for five minutes.
    pub fn frequent(&self) -> NodeSetting {
        NodeSetting {
            rates: Rates::PaperPattern,
            ..self.resnets(40, 300)
        }
    }

    /// Figure 10: 160 functions with ResNet-152, and 18 native containers per GPU, for five minutes.
    pub fn beside_containers(&self) -> NodeSetting {
        self.resnets(160, 300)
    }

    /// Figure 11: functions of all models for 31 minutes.
    pub fn parts(&self, functions: u32) -> NodeSetting {
        NodeSetting {
            seconds: self.seconds.unwrap_or(1_860),
            ..self.node(functions)
        }
    }

    /// Figure 12: four functions with DenseNet-201 for each with Bert-qa. Their number is assumed.
    pub fn light_and_heavy(&self) -> NodeSetting {
        let mut kinds = vec![DENSENET_201; 4];
        kinds.push(BERT);
        NodeSetting {
            kinds,
            ..self.node(400)
        }
    }

    /// Figure 14: one of six nodes, with longer SLOs.
    pub(super) fn in_cluster(&self, functions: u32, number: u64) -> NodeSetting {
        NodeSetting {
            slo_us: [150_000, 250_000],
            seed: self.seed * 100 + number,
            ..self.node(functions / 6)
        }
    }

    fn resnets(&self, functions: u32, seconds: u64) -> NodeSetting {
        NodeSetting {
            kinds: vec![RESNET_152],
            native_per_gpu: Some(18),
            seconds: self.seconds.unwrap_or(seconds),
            ..self.node(functions)
        }
    }
}

/// All experiments on one node.
pub(super) fn experiments(grid: &TorporGrid) -> Vec<Experiment> {
    let mut all = Vec::new();
    let mut add = |figure, case: &str, setting: NodeSetting, variants: &[Variant]| {
        all.push(Experiment {
            figure,
            case: case.to_owned(),
            setting,
            variants: variants.to_vec(),
        });
    };
    let late = [Variant::Native, Variant::Torpor, Variant::Sharing];
    for (functions, per_minute) in ONE_GPU {
        let case = format!("one GPU, ResNet-152, {per_minute} r/m");
        add("8", &case, grid.one_gpu(functions, per_minute), &late);
    }
    add("9", "ResNet-152, 200 r/m", grid.frequent(), &late);
    add(
        "10",
        "ResNet-152",
        grid.beside_containers(),
        &[
            Variant::Native,
            Variant::InflessKa,
            Variant::Torpor,
            Variant::Sharing,
        ],
    );
    for lifespan_percent in [90, 95] {
        let setting = NodeSetting {
            lifespan_percent,
            ..grid.beside_containers()
        };
        let case = format!("lifespan of {lifespan_percent} %");
        add("10", &case, setting, &[Variant::InflessKa]);
    }
    let parts = [
        Variant::Random,
        Variant::Fifo,
        Variant::Lru,
        Variant::TorporHalving,
        Variant::Torpor,
        Variant::Lalbo3,
        Variant::Sharing,
    ];
    for functions in [320, 400, 480, 560, 640] {
        add("11", "", grid.parts(functions), &parts);
    }
    add(
        "12",
        "DenseNet-201 and Bert-qa",
        grid.light_and_heavy(),
        &[Variant::Lru, Variant::Torpor, Variant::Sharing],
    );
    if grid.arrivals == Arrivals::Authors {
        let random = TorporGrid {
            arrivals: Arrivals::PoissonProcess,
            ..*grid
        };
        let case = "Poisson processes";
        add("8", case, random.one_gpu(210, 10), &late);
        add("9", case, random.frequent(), &late);
        for functions in [480, 560] {
            add("11", case, random.parts(functions), &LATE);
        }
    }
    for functions in [320, 560] {
        let family = NodeSetting {
            shared_permille: 900,
            ..grid.node(functions)
        };
        add("families", "90 % shared", family, &POLICIES);
    }
    for memory_mb in [8_000, 16_000] {
        let setting = NodeSetting {
            memory_mb,
            ..grid.node(560)
        };
        add("memory", &format!("{memory_mb} MB"), setting, &POLICIES);
    }
    for links in [Links::NoPeers, Links::OneSwitch, Links::OwnSwitches] {
        let setting = NodeSetting {
            links,
            ..grid.node(560)
        };
        add("links", links.name(), setting, &POLICIES);
    }
    all
}
