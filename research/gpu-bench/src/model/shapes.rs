//! Shapes of the tensors of an 8B Llama, scaled.

/// Number of layers of Llama 3.1 8B.
const LAYERS: usize = 32;
/// Its widths: hidden, of keys and values, of the feed-forward network, and the vocabulary.
const HIDDEN: f64 = 4096.0;
const KEYS: f64 = 1024.0;
const FORWARD: f64 = 14336.0;
const WORDS: f64 = 128_256.0;
/// Number of its elements.
const ELEMENTS: f64 = 8.03e9;
/// Unit of widths, so that rows are whole vectors.
const STEP: f64 = 16.0;

/// Names and shapes of tensors with elements of 2 bytes, which have at least `bytes` together. All
/// widths have the same scale, so the proportions are those of the original.
pub(crate) fn shapes(bytes: u64) -> Vec<(String, Vec<usize>)> {
    let mut scale = (bytes as f64 / 2.0 / ELEMENTS).sqrt();
    loop {
        let shapes = scaled(scale);
        let elements: usize = shapes
            .iter()
            .map(|(_, shape)| shape.iter().product::<usize>())
            .sum();
        if elements as u64 * 2 >= bytes {
            return shapes;
        }
        scale *= 1.01;
    }
}

fn scaled(scale: f64) -> Vec<(String, Vec<usize>)> {
    let width = |width: f64| ((width * scale / STEP).round().max(1.0) * STEP) as usize;
    let (hidden, keys) = (width(HIDDEN), width(KEYS));
    let (forward, words) = (width(FORWARD), width(WORDS));
    let mut all = vec![("model.embed_tokens.weight".to_owned(), vec![words, hidden])];
    for layer in 0..LAYERS {
        let of_layer = [
            ("input_layernorm.weight", vec![hidden]),
            ("self_attn.q_proj.weight", vec![hidden, hidden]),
            ("self_attn.k_proj.weight", vec![keys, hidden]),
            ("self_attn.v_proj.weight", vec![keys, hidden]),
            ("self_attn.o_proj.weight", vec![hidden, hidden]),
            ("post_attention_layernorm.weight", vec![hidden]),
            ("mlp.gate_proj.weight", vec![forward, hidden]),
            ("mlp.up_proj.weight", vec![forward, hidden]),
            ("mlp.down_proj.weight", vec![hidden, forward]),
        ];
        let named = of_layer.map(|(name, shape)| (format!("model.layers.{layer}.{name}"), shape));
        all.extend(named);
    }
    all.push(("model.norm.weight".to_owned(), vec![hidden]));
    all.push(("lm_head.weight".to_owned(), vec![words, hidden]));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(shapes: &[(String, Vec<usize>)]) -> u64 {
        let elements = shapes
            .iter()
            .map(|(_, shape)| shape.iter().product::<usize>());
        elements.sum::<usize>() as u64 * 2
    }

    #[test]
    fn the_model_is_as_large_as_asked_for_and_not_much_larger() {
        for wanted in [2 << 20, 100 << 20, 1 << 30, 10 << 30, 15 << 30] {
            let shapes = shapes(wanted);
            let ratio = bytes(&shapes) as f64 / wanted as f64;
            assert!((1.0..3.0).contains(&ratio), "{wanted}: {ratio}");
            if wanted >= 1 << 30 {
                assert!(ratio < 1.03, "{wanted}: {ratio}");
            }
            assert_eq!(shapes.len(), 3 + 9 * LAYERS);
        }
    }

    #[test]
    fn at_its_own_size_it_is_the_original() {
        let shapes = shapes(16_060_000_000);
        assert_eq!(shapes[0].1, [128_256, 4096]);
        assert_eq!(shapes[7].1, [14336, 4096]);
    }
}
