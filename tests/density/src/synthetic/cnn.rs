//! Convolutional image classifiers in single precision, with 1000 classes.

use super::{Kind, Model};

/// A bottleneck ResNet with the given number of blocks per stage; the head is `fc.*`.
pub fn resnet(name: &str, blocks: [u64; 4]) -> Model {
    let mut shapes = Vec::new();
    convolution(&mut shapes, "conv1", "bn1", [64, 3, 7]);
    let mut inputs = 64;
    for (stage, count) in blocks.into_iter().enumerate() {
        let width = 64 << stage;
        for block in 0..count {
            let at = |part: &str| format!("layer{}.{block}.{part}", stage + 1);
            convolution(&mut shapes, &at("conv1"), &at("bn1"), [width, inputs, 1]);
            convolution(&mut shapes, &at("conv2"), &at("bn2"), [width, width, 3]);
            convolution(&mut shapes, &at("conv3"), &at("bn3"), [4 * width, width, 1]);
            if block == 0 {
                convolution(
                    &mut shapes,
                    &at("downsample.0"),
                    &at("downsample.1"),
                    [4 * width, inputs, 1],
                );
            }
            inputs = 4 * width;
        }
    }
    shapes.push(("fc.weight".into(), vec![1000, inputs]));
    shapes.push(("fc.bias".into(), vec![1000]));
    Model::new(name, name, Kind::F32, shapes)
}

/// VGG-19; the dense part is `classifier.*`.
pub fn vgg19() -> Model {
    let widths = [
        64, 64, 128, 128, 256, 256, 256, 256, 512, 512, 512, 512, 512, 512, 512, 512,
    ];
    let mut shapes = Vec::new();
    let mut inputs = 3;
    for (layer, width) in widths.into_iter().enumerate() {
        shapes.push((
            format!("features.{layer}.weight"),
            vec![width, inputs, 3, 3],
        ));
        shapes.push((format!("features.{layer}.bias"), vec![width]));
        inputs = width;
    }
    for (layer, rows, columns) in [(0, 4096, 512 * 49), (3, 4096, 4096), (6, 1000, 4096)] {
        shapes.push((format!("classifier.{layer}.weight"), vec![rows, columns]));
        shapes.push((format!("classifier.{layer}.bias"), vec![rows]));
    }
    Model::new("vgg19", "vgg19", Kind::F32, shapes)
}

fn convolution(
    shapes: &mut Vec<(String, Vec<u64>)>,
    at: &str,
    norm: &str,
    [outputs, inputs, side]: [u64; 3],
) {
    shapes.push((format!("{at}.weight"), vec![outputs, inputs, side, side]));
    for part in ["weight", "bias", "running_mean", "running_var"] {
        shapes.push((format!("{norm}.{part}"), vec![outputs]));
    }
}
