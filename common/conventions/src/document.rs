//! JSON documents that commands print with `--format json` (docs/json.md).
//!
//! A command prints one document on one line of standard output: its result, or an error. Each is
//! an object with `schema_version`; an error also has `error`, and a result never has that field.

use serde_json::{Map, Value, json};

/// Version of all documents. It rises when a field goes or changes its meaning; new fields do not
/// raise it.
pub const SCHEMA_VERSION: u64 = 1;
/// Field of the version.
const VERSION_FIELD: &str = "schema_version";

/// A result as a document. A value that is no object becomes the field `result`.
pub fn of_result(result: Value) -> Value {
    let mut fields = match result {
        Value::Object(fields) => fields,
        other => Map::from_iter([("result".to_owned(), other)]),
    };
    fields.insert(VERSION_FIELD.to_owned(), SCHEMA_VERSION.into());
    Value::Object(fields)
}

/// The early end of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorDocument {
    /// Name of the exit code, for scripts: `no-store`.
    pub code: &'static str,
    /// The exit code.
    pub exit_code: u8,
    /// The message for people, as on standard error.
    pub message: String,
    /// The next step, if the message has one.
    pub remedy: Option<String>,
}

impl ErrorDocument {
    /// Takes the next step out of the message, which by STYLE.md follows its last `; `.
    pub fn new(code: &'static str, exit_code: u8, message: String) -> Self {
        // Of several messages, a line each, none has the next step of all.
        let line = (!message.contains('\n')).then_some(message.as_str());
        let step = line.and_then(|message| message.rsplit_once("; "));
        let remedy = step.map(|(_, step)| step.to_owned());
        Self {
            code,
            exit_code,
            message,
            remedy,
        }
    }

    /// The document.
    pub fn to_json(&self) -> Value {
        of_result(json!({ "error": self.object() }))
    }

    /// The object in it, for results that list errors.
    pub fn object(&self) -> Value {
        json!({
            "code": self.code,
            "exit_code": self.exit_code,
            "message": self.message,
            "remedy": self.remedy,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_document_is_an_object_with_its_version() {
        let of_object = of_result(json!({ "objects": 3 }));
        assert_eq!(of_object, json!({ "schema_version": 1, "objects": 3 }));
        let of_list = of_result(json!([1]));
        assert_eq!(of_list, json!({ "schema_version": 1, "result": [1] }));
        let error = ErrorDocument::new("no-store", 3, "no store; run `tetris init`".to_owned());
        assert_eq!(
            error.to_json(),
            json!({
                "schema_version": 1,
                "error": {
                    "code": "no-store",
                    "exit_code": 3,
                    "message": "no store; run `tetris init`",
                    "remedy": "run `tetris init`",
                },
            })
        );
        let plain = ErrorDocument::new("failed", 1, "no memory".to_owned());
        assert_eq!(plain.remedy, None);
    }
}
