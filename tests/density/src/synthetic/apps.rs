//! Applications of several models, as in section 5.1 of the Tetris paper (USENIX ATC 2022).

use super::{Model, table4};

/// An application: its name and the models that one instance of it loads.
#[derive(Clone, Debug)]
pub struct App {
    /// Its name in the paper.
    pub name: &'static str,
    /// Its models.
    pub models: Vec<Model>,
}

/// The four applications with the table's sizes multiplied by `scale`.
///
/// Second-hand vehicle trading classifies cars and motorcycles with two variants of one network
/// that differ in the last layer, like the paper's variants.
pub fn apps(scale: f64) -> Vec<App> {
    let model = |name: &str| table4::sized(name, (table4::size_of(name) as f64 * scale) as u64);
    let classifier =
        |name: &str| model("resnet152").retrained(name, |tensor| tensor == "embeddings.weight");
    vec![
        App {
            name: "SVT",
            models: vec![
                model("ssd"),
                classifier("resnet152-cars"),
                classifier("resnet152-motorcycles"),
            ],
        },
        App {
            name: "QA-Audio",
            models: vec![model("stt"), model("use-qa"), model("fastspeech2")],
        },
        App {
            name: "SS",
            models: vec![model("use")],
        },
        App {
            name: "QA-Text",
            models: vec![model("textcnn69"), model("lstm"), model("dssm")],
        },
    ]
}
