//! Handwritten protocol buffers: tag = number * 8 + type.

const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;

pub fn text(number: u8, value: &[u8]) -> Vec<u8> {
    let length = u8::try_from(value.len()).unwrap();
    assert!(length < 128, "a length of two bytes");
    [&[number * 8 + BYTES, length][..], value].concat()
}

pub fn number(number: u8, value: u8) -> Vec<u8> {
    assert!(value < 128, "a number of two bytes");
    vec![number * 8 + VARINT, value]
}

pub fn double(number: u8, value: f64) -> Vec<u8> {
    let mut all = vec![number * 8 + FIXED64];
    all.extend(value.to_le_bytes());
    all
}

/// Returns a ScaledObjectRef with the trigger's metadata, as KEDA sends it.
pub fn reference(namespace: &str, metadata: &[(&str, &str)]) -> Vec<u8> {
    let mut all = [text(1, b"bert-c4000"), text(2, namespace.as_bytes())].concat();
    for (key, value) in metadata {
        let entry = [text(1, key.as_bytes()), text(2, value.as_bytes())].concat();
        all.extend(text(3, &entry));
    }
    all
}

/// Returns the reference of a configuration.
pub fn of(function: &str, configuration: &str) -> Vec<u8> {
    let address = "tetris-scaler.tetris-system:9462";
    reference(
        "serving",
        &[
            ("scalerAddress", address),
            ("function", function),
            ("configuration", configuration),
        ],
    )
}
