//! Requests made from a model's metadata, reproducible by the seed.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::error::OipError;
use super::metadata::{Input, ModelMetadata};

/// Maximum number of elements of a request, some 20 MB of JSON.
const MAX_ELEMENTS: u64 = 1 << 20;
/// Words of texts: only the length of a text matters.
const WORDS: [&str; 8] = [
    "the", "model", "reads", "a", "sentence", "of", "some", "words",
];

/// Makes bodies of completions: each of another text of `dynamic_size` words, and exactly `tokens` new tokens where the
/// server knows `ignore_eos`.
pub(crate) fn completions(model: &str, shape: RequestShape, tokens: u32) -> Vec<Vec<u8>> {
    let mut random = StdRng::seed_from_u64(shape.seed);
    let body = |_| {
        let words = (0..shape.dynamic_size).map(|_| {
            let at = random.random_range(0..WORDS.len());
            WORDS.get(at).copied().unwrap_or_default()
        });
        let prompt = words.collect::<Vec<_>>().join(" ");
        let body = json!({
            "model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": true,
        });
        body.to_string().into_bytes()
    };
    (0..shape.count).map(body).collect()
}

/// Parameters of the requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestShape {
    /// Seed of random numbers.
    pub(crate) seed: u64,
    /// Number of different requests.
    pub(crate) count: usize,
    /// Size of dynamic dimensions other than the first, and number of words of a text.
    pub(crate) dynamic_size: u32,
}

/// Makes bodies of requests for one sample each: a dynamic first dimension is the batch.
///
/// Integers are 0 or 1, which every vocabulary, mask and segment table has; other numbers lie in
/// [0, 1).
pub(crate) fn bodies(
    metadata: &ModelMetadata,
    shape: RequestShape,
) -> Result<Vec<Vec<u8>>, OipError> {
    let mut random = StdRng::seed_from_u64(shape.seed);
    let shapes = metadata.inputs.iter();
    let shapes: Vec<_> = shapes
        .map(|input| sizes(input, shape.dynamic_size))
        .collect::<Result<_, _>>()?;
    let all = metadata
        .inputs
        .iter()
        .zip(&shapes)
        .map(|(input, (_, elements))| {
            let words = if input.datatype == "BYTES" {
                shape.dynamic_size
            } else {
                1
            };
            elements.saturating_mul(words.into())
        });
    let all = all.fold(0, u64::saturating_add);
    if let (true, Some(input)) = (all > MAX_ELEMENTS, metadata.inputs.first()) {
        let reason =
            format!("with the others {all} elements or words, expected at most {MAX_ELEMENTS}");
        return Err(wrong(input, reason));
    }
    let one_body = |_| body(metadata, &shapes, shape.dynamic_size, &mut random);
    (0..shape.count).map(one_body).collect()
}

/// Makes one request; `shapes` has the sizes and the number of elements of each input.
fn body(
    metadata: &ModelMetadata,
    shapes: &[(Vec<u64>, u64)],
    words: u32,
    random: &mut StdRng,
) -> Result<Vec<u8>, OipError> {
    let shaped = metadata.inputs.iter().zip(shapes);
    let inputs = shaped.map(|(input, (sizes, elements))| {
        let data = (0..*elements).map(|_| element(input, words, random));
        let data: Vec<_> = data.collect::<Result<_, _>>()?;
        let (name, datatype) = (&input.name, &input.datatype);
        Ok(json!({"name": name, "datatype": datatype, "shape": sizes, "data": data}))
    });
    let inputs: Vec<Value> = inputs.collect::<Result<_, OipError>>()?;
    Ok(json!({ "inputs": inputs }).to_string().into_bytes())
}

/// Returns the sizes and the number of elements of an input.
fn sizes(input: &Input, dynamic_size: u32) -> Result<(Vec<u64>, u64), OipError> {
    let size = |(place, &size): (usize, &i64)| match (place, size) {
        (0, -1) => Ok(1),
        (_, -1) => Ok(u64::from(dynamic_size)),
        (_, size @ 1..) => Ok(size.unsigned_abs()),
        _ => Err(wrong(
            input,
            format!("found dimension {size}, expected -1 or at least 1"),
        )),
    };
    let sizes: Vec<u64> = input
        .shape
        .iter()
        .enumerate()
        .map(size)
        .collect::<Result<_, _>>()?;
    let elements = sizes
        .iter()
        .try_fold(1_u64, |all, &size| all.checked_mul(size));
    match elements {
        Some(elements @ ..=MAX_ELEMENTS) => Ok((sizes, elements)),
        _ => Err(wrong(
            input,
            format!(
                "shape {:?} has more than {MAX_ELEMENTS} elements",
                input.shape
            ),
        )),
    }
}

fn element(input: &Input, words: u32, random: &mut StdRng) -> Result<Value, OipError> {
    let value = match input.datatype.as_str() {
        "BOOL" => json!(random.random::<bool>()),
        "UINT8" | "UINT16" | "UINT32" | "UINT64" | "INT8" | "INT16" | "INT32" | "INT64" => {
            json!(u8::from(random.random::<bool>()))
        }
        "FP16" | "FP32" | "FP64" | "BF16" => json!(f64::from(random.random::<f32>())),
        "BYTES" => {
            let word = |_| {
                WORDS
                    .get(random.random_range(0..WORDS.len()))
                    .copied()
                    .unwrap_or("word")
            };
            json!((0..words).map(word).collect::<Vec<_>>().join(" "))
        }
        other => {
            let other: String = other.chars().take(40).collect();
            return Err(wrong(input, format!("unknown datatype `{other}`")));
        }
    };
    Ok(value)
}

fn wrong(input: &Input, reason: String) -> OipError {
    OipError::Input {
        input: input.name.chars().take(80).collect(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: RequestShape = RequestShape {
        seed: 7,
        count: 3,
        dynamic_size: 5,
    };

    fn metadata(inputs: &Value) -> ModelMetadata {
        ModelMetadata::parse(
            json!({ "inputs": inputs, "extra": 1 })
                .to_string()
                .as_bytes(),
        )
        .unwrap()
    }

    #[test]
    fn requests_have_one_sample_and_follow_from_the_seed() {
        let metadata = metadata(&json!([
            {"name": "ids", "datatype": "INT64", "shape": [-1, -1]},
            {"name": "pixels", "datatype": "FP32", "shape": [-1, 3, 2]},
            {"name": "text", "datatype": "BYTES", "shape": [1]},
            {"name": "flag", "datatype": "BOOL", "shape": []},
        ]));
        let made = bodies(&metadata, SHAPE).unwrap();
        assert_eq!(made, bodies(&metadata, SHAPE).unwrap());
        assert_eq!(made.len(), 3);
        assert_ne!(made[0], made[1]);
        let first: Value = serde_json::from_slice(&made[0]).unwrap();
        let inputs = first["inputs"].as_array().unwrap();
        assert_eq!(inputs[0]["shape"], json!([1, 5]));
        assert!(
            inputs[0]["data"]
                .as_array()
                .unwrap()
                .iter()
                .all(|id| id.as_u64().unwrap() <= 1)
        );
        assert_eq!(inputs[1]["data"].as_array().unwrap().len(), 6);
        assert_eq!(inputs[2]["data"][0].as_str().unwrap().split(' ').count(), 5);
        assert_eq!(inputs[3]["data"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn hostile_metadata_is_refused_before_anything_is_allocated() {
        for (shape, datatype) in [
            (json!([i64::MAX, i64::MAX]), "FP32"),
            (json!([-1, 1 << 30]), "FP32"),
            (json!([0]), "FP32"),
            (json!([-2]), "FP32"),
            (json!([i64::MIN]), "FP32"),
            (json!([1]), "FP4"),
        ] {
            let metadata = metadata(&json!([{"name": "x", "datatype": datatype, "shape": shape}]));
            let error = bodies(&metadata, SHAPE).unwrap_err().to_string();
            assert!(
                error.contains("`x`") && error.contains("--request"),
                "{error}"
            );
        }
        let halves = json!({"name": "x", "datatype": "BOOL", "shape": [600_000]});
        assert!(bodies(&metadata(&json!([halves, halves])), SHAPE).is_err());
        let texts = json!([{"name": "x", "datatype": "BYTES", "shape": [600_000]}]);
        assert!(bodies(&metadata(&texts), SHAPE).is_err());
    }

    #[test]
    fn malformed_metadata_is_an_error() {
        let rank = json!({"inputs": [{"name": "x", "datatype": "BOOL", "shape": vec![1; 17]}]});
        let many =
            json!({"inputs": vec![json!({"name": "x", "datatype": "BOOL", "shape": [1]}); 257]});
        for text in [
            "",
            "{}",
            "[]",
            r#"{"inputs": []}"#,
            r#"{"inputs": [{"name": "x"}]}"#,
            &rank.to_string(),
            &many.to_string(),
        ] {
            assert!(ModelMetadata::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
