//! Text and vision transformers, and low-rank adapters.

use super::{Kind, Model};

type Shapes = Vec<(String, Vec<u64>)>;

/// A BERT encoder in single precision, with the tensor names of the published checkpoints.
pub fn bert(name: &str, hidden: u64, layers: u64, inner: u64, words: u64) -> Model {
    let mut shapes: Shapes = Vec::new();
    let embedding = |part: &str| format!("embeddings.{part}");
    shapes.push((embedding("word_embeddings.weight"), vec![words, hidden]));
    shapes.push((embedding("position_embeddings.weight"), vec![512, hidden]));
    shapes.push((embedding("token_type_embeddings.weight"), vec![2, hidden]));
    norm(&mut shapes, "embeddings.LayerNorm", hidden);
    for layer in 0..layers {
        let at = |part: &str| format!("encoder.layer.{layer}.{part}");
        for part in ["query", "key", "value"] {
            linear(
                &mut shapes,
                &at(&format!("attention.self.{part}")),
                hidden,
                hidden,
            );
        }
        linear(&mut shapes, &at("attention.output.dense"), hidden, hidden);
        norm(&mut shapes, &at("attention.output.LayerNorm"), hidden);
        linear(&mut shapes, &at("intermediate.dense"), inner, hidden);
        linear(&mut shapes, &at("output.dense"), hidden, inner);
        norm(&mut shapes, &at("output.LayerNorm"), hidden);
    }
    linear(&mut shapes, "pooler.dense", hidden, hidden);
    Model::new(name, name, Kind::F32, shapes)
}

/// A vision transformer in single precision with 16-pixel patches and 1000 classes.
pub fn vit(name: &str, hidden: u64, layers: u64) -> Model {
    let mut shapes: Shapes = vec![
        ("cls_token".into(), vec![1, 1, hidden]),
        ("pos_embed".into(), vec![1, 197, hidden]),
        ("patch_embed.proj.weight".into(), vec![hidden, 3, 16, 16]),
        ("patch_embed.proj.bias".into(), vec![hidden]),
    ];
    for layer in 0..layers {
        let at = |part: &str| format!("blocks.{layer}.{part}");
        norm(&mut shapes, &at("norm1"), hidden);
        linear(&mut shapes, &at("attn.qkv"), 3 * hidden, hidden);
        linear(&mut shapes, &at("attn.proj"), hidden, hidden);
        norm(&mut shapes, &at("norm2"), hidden);
        linear(&mut shapes, &at("mlp.fc1"), 4 * hidden, hidden);
        linear(&mut shapes, &at("mlp.fc2"), hidden, 4 * hidden);
    }
    norm(&mut shapes, "norm", hidden);
    linear(&mut shapes, "head", 1000, hidden);
    Model::new(name, name, Kind::F32, shapes)
}

/// Dimensions of a Llama-like decoder.
#[derive(Clone, Copy, Debug)]
pub struct Decoder {
    /// Width of the hidden layers.
    pub hidden: u64,
    /// Number of layers.
    pub layers: u64,
    /// Width of the feed-forward network.
    pub inner: u64,
    /// Width of keys and values: smaller than `hidden` with grouped queries.
    pub key_value: u64,
    /// Size of the vocabulary.
    pub words: u64,
}

/// A Llama-like decoder in bfloat16 with tied embeddings.
pub fn llama(name: &str, decoder: Decoder) -> Model {
    let Decoder {
        hidden,
        layers,
        inner,
        key_value,
        words,
    } = decoder;
    let mut shapes: Shapes = vec![("model.embed_tokens.weight".into(), vec![words, hidden])];
    for layer in 0..layers {
        let at = |part: &str| format!("model.layers.{layer}.{part}.weight");
        shapes.push((at("self_attn.q_proj"), vec![hidden, hidden]));
        shapes.push((at("self_attn.k_proj"), vec![key_value, hidden]));
        shapes.push((at("self_attn.v_proj"), vec![key_value, hidden]));
        shapes.push((at("self_attn.o_proj"), vec![hidden, hidden]));
        shapes.push((at("mlp.gate_proj"), vec![inner, hidden]));
        shapes.push((at("mlp.up_proj"), vec![inner, hidden]));
        shapes.push((at("mlp.down_proj"), vec![hidden, inner]));
        shapes.push((at("input_layernorm"), vec![hidden]));
        shapes.push((at("post_attention_layernorm"), vec![hidden]));
    }
    shapes.push(("model.norm.weight".into(), vec![hidden]));
    Model::new(name, name, Kind::Bf16, shapes)
}

/// Low-rank adapters on the query and value projections of a decoder.
pub fn lora(name: &str, decoder: Decoder, rank: u64) -> Model {
    let mut shapes: Shapes = Vec::new();
    for layer in 0..decoder.layers {
        for (part, rows) in [("q_proj", decoder.hidden), ("v_proj", decoder.key_value)] {
            let at = |side: &str| {
                format!("base_model.model.model.layers.{layer}.self_attn.{part}.lora_{side}.weight")
            };
            shapes.push((at("A"), vec![rank, decoder.hidden]));
            shapes.push((at("B"), vec![rows, rank]));
        }
    }
    Model::new(name, name, Kind::F32, shapes)
}

fn linear(shapes: &mut Shapes, at: &str, rows: u64, columns: u64) {
    shapes.push((format!("{at}.weight"), vec![rows, columns]));
    shapes.push((format!("{at}.bias"), vec![rows]));
}

fn norm(shapes: &mut Shapes, at: &str, width: u64) {
    shapes.push((format!("{at}.weight"), vec![width]));
    shapes.push((format!("{at}.bias"), vec![width]));
}
