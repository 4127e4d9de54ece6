//! Models with the sizes of Table 4 of the Tetris paper (USENIX ATC 2022).

use super::{Kind, Model};

/// Names and sizes in millions of bytes, from the table.
pub const SIZES: [(&str, u64); 21] = [
    ("bit-m", 3500),
    ("labse", 1800),
    ("bert-qa", 1300),
    ("electra", 1300),
    ("use", 980),
    ("centernet", 731),
    ("use-qa", 568),
    ("use-large", 563),
    ("vgg19", 549),
    ("bert", 392),
    ("efficientnet-b7", 255),
    ("resnet152", 231),
    ("inception-resnet-v2", 214),
    ("stt", 176),
    ("resnet101", 171),
    ("fastspeech2", 119),
    ("inception-v3", 92),
    ("ssd", 29),
    ("dssm", 25),
    ("lstm", 23),
    ("textcnn69", 11),
];

/// Size of a model in the table, in bytes; 0 for an unknown name.
pub fn size_of(name: &str) -> u64 {
    SIZES
        .iter()
        .find(|(entry, _)| *entry == name)
        .map_or(0, |(_, size)| size * 1_000_000)
}

/// All models of the table, with their sizes multiplied by `scale`.
pub fn models(scale: f64) -> Vec<Model> {
    SIZES
        .iter()
        .map(|(name, _)| sized(name, (size_of(name) as f64 * scale) as u64))
        .collect()
}

/// A stack of layers, each a matrix, its bias and two norms, of `bytes` in total (within one row).
///
/// The table gives the sizes of the models, not their architectures; large ones get wide layers.
pub fn sized(name: &str, bytes: u64) -> Model {
    let width = match bytes {
        0..8_000_000 => 128,
        8_000_000..64_000_000 => 512,
        64_000_000..512_000_000 => 1024,
        _ => 2048,
    };
    let layer_bytes = 4 * (4 * width * width + 4 * width + 2 * width);
    let mut shapes = Vec::new();
    for layer in 0..bytes / layer_bytes {
        shapes.push((
            format!("layers.{layer}.dense.weight"),
            vec![4 * width, width],
        ));
        shapes.push((format!("layers.{layer}.dense.bias"), vec![4 * width]));
        shapes.push((format!("layers.{layer}.norm.weight"), vec![width]));
        shapes.push((format!("layers.{layer}.norm.bias"), vec![width]));
    }
    let rest = (bytes % layer_bytes / (4 * width)).max(1);
    shapes.push(("embeddings.weight".into(), vec![rest, width]));
    Model::new(name, name, Kind::F32, shapes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_within_a_row() {
        for model in models(0.01) {
            let wanted = size_of(&model.name) as f64 * 0.01;
            assert!(
                (model.bytes() as f64 - wanted).abs() <= 4.0 * 2048.0,
                "{}",
                model.name
            );
        }
    }
}
